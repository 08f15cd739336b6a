#pragma once

#include <optional>
#include <span>
#include <vector>

#include "autograd/parameters.h"
#include "autograd/tape.h"
#include "train/gradient_exchange.h"
#include "train/ranks.h"

namespace headcount {

/// Adds the gradients of `shards`, in their order, to those of the store, and returns the Euclidean
/// norm of all sums together, itself summed in double over fixed chunks.
double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards = {});

/// Sums of a training step over the shards of its batches, which ranks share out. Everything is
/// summed in the order of shards, and thus to the same bits for any number of ranks and threads.
class Reducer {
 public:
  /// For steps of `passes` batches, each of `shards` shards. `ranks` and `parameters` must outlive
  /// the reducer.
  Reducer(Ranks& ranks, ParameterStore& parameters, Index shards, Index passes);

  Index shards() const { return shards_; }
  /// The shards of a batch that this rank computes.
  Part own() const { return own_; }
  /// The gradients that the tape of one of these shards collects.
  Gradients& gradients(Index shard);
  /// Makes a tape tell which gradients are complete, if other ranks wait for them.
  void listen(Tape& tape);

  /// Call at the start of a step, and of each of its passes.
  void begin_step();
  void begin_pass(Index pass);
  /// The part of a batch's mean loss that one of this rank's shards has. Any thread may call it.
  void set_loss(Index pass, Index shard, double loss);

  struct Sums {
    double loss = 0;           ///< mean over passes of the batches' mean losses
    double gradient_norm = 0;  ///< of the sum over passes
  };
  /// Collective; call when all own shards of all passes are done. Afterwards the gradients of the
  /// store are the sums over all shards.
  Sums finish_step();

  /// Memory of gradients beside the store's.
  std::size_t bytes() const { return more_.size() * parameters_.all_values().size_bytes(); }

 private:
  Ranks& ranks_;
  ParameterStore& parameters_;
  Index shards_, passes_;
  Part own_;
  std::vector<Gradients> more_;               // of own shards after the first, which uses the store
  std::vector<double> losses_;                // by shard and pass
  std::optional<GradientExchange> exchange_;  // in the last pass, among several ranks
};

}  // namespace headcount
