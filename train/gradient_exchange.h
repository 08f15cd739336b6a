#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "autograd/parameters.h"
#include "train/ranks.h"

namespace headcount {

/// All-reduce of gradients that overlaps with backward: sums the gradients of all ranks' shards in
/// the order of shards, and thus to the same bits as one process. A thread of its own sends chunks
/// as soon as they are complete.
///
/// Gradients are sent in chunks, those of the last layers first. A chunk goes from rank to rank;
/// each rank adds its shards to the sum of the ranks before, and the last rank sends the total back
/// the same way. Ranks work on different chunks at a time, as in a pipeline: with N ranks, M chunks
/// take M + 2 (N - 1) passes, each of at most two chunks in and two out.
class GradientExchange {
 public:
  /// Number of elements in a chunk.
  static constexpr Index kChunk = 1 << 15;

  /// `parameters` holds the gradients of this rank's first shard, if it has one, and `more` those
  /// of its other shards. All arguments must outlive the exchange.
  GradientExchange(Ranks& ranks, ParameterStore& parameters, Index shards,
                   std::span<Gradients> more);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// Call when one of this rank's shards has computed its whole gradient of `parameter`. Any thread
  /// may call it.
  void complete(ParameterId parameter);

  /// Call when all shards of this rank have all gradients. Returns when the gradients in
  /// `parameters` are the sums over all ranks.
  void finish();

 private:
  void run();
  void add_own(Index chunk, std::span<const Real> before);
  Part elements(Index chunk) const;
  std::span<Real> sums(Index chunk);

  Ranks& ranks_;
  ParameterStore& parameters_;
  Index shards_;
  std::span<Gradients> more_;
  Index count_;                              // elements of the whole buffer
  std::vector<std::atomic<Index>> awaited_;  // by chunk: gradients that shards still compute
  struct Running;                            // a thread, which the library of WebAssembly lacks
  std::unique_ptr<Running> running_;
};

}  // namespace headcount
