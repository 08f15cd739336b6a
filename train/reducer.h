#pragma once

#include <span>
#include <vector>

#include "autograd/parameters.h"
#include "train/ranks.h"

namespace headcount {

/// Adds the gradients of `shards`, in their order, to the store's gradients, and returns the
/// Euclidean norm of all sums together, itself summed in double over fixed chunks.
double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards = {});

/// Sums of a training step over the shards of its batches, which ranks share out. Everything is
/// summed in the order of shards, and thus to the same bits for any number of ranks and threads.
class Reducer {
 public:
  /// Reducer for steps of `passes` batches, each of `shards` shards. `ranks` and `parameters` must
  /// outlive the reducer.
  Reducer(Ranks& ranks, ParameterStore& parameters, Index shards, Index passes);

  Index shards() const { return shards_; }
  /// The shards of a batch that this rank computes.
  Part own() const { return own_; }
  /// Destination of the gradients of `shard`, one of this rank's: see Tape::collect_gradients_in.
  Gradients& gradients(Index shard);

  /// Call at the start of a step.
  void begin_step();
  /// Sets what `shard`, one of this rank's, contributes to the mean loss of its batch. Any thread
  /// may call it.
  void set_loss(Index pass, Index shard, double loss);

  struct Sums {
    double loss = 0;           ///< mean over passes of the batches' mean losses
    double gradient_norm = 0;  ///< Euclidean norm of the gradients summed over passes
  };
  /// Collective; call when all own shards of all passes are done. Afterwards the gradients of the
  /// store are the sums over all shards.
  Sums finish_step();

  /// Bytes of gradients that are not in the store.
  std::size_t bytes() const { return more_.size() * parameters_.all_values().size_bytes(); }

 private:
  Ranks& ranks_;
  ParameterStore& parameters_;
  Index shards_, passes_;
  Part own_;
  std::vector<Gradients> more_;  // of own shards but the first, which uses the store's
  std::vector<double> losses_;   // by shard and pass
};

}  // namespace headcount
