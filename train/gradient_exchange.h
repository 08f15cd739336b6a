#pragma once

#include <atomic>
#include <future>
#include <span>
#include <vector>

#include "autograd/parameters.h"
#include "train/ranks.h"

namespace headcount {

/// Adds up the gradients of shards that several ranks compute, in the order of shards and thus to
/// the bits of one process, while backward goes on: a thread passes on what is complete.
///
/// Gradients go in chunks, those of the last layers first. A chunk goes from rank to rank; each
/// adds its shards to the sum of those before, and the last one sends the sum of all back the same
/// way. All ranks work on a chunk of their own at a time: M chunks take M + 2 (N - 1) passes of N
/// ranks, each of at most two chunks in and two out.
class GradientExchange {
 public:
  /// Elements of a chunk.
  static constexpr Index kChunk = 1 << 15;

  /// Of a store whose own gradients are those of this rank's first shard, where it has one, and
  /// `more` those of its other shards. All must outlive it.
  GradientExchange(Ranks& ranks, ParameterStore& parameters, Index shards,
                   std::span<Gradients> more);
  ~GradientExchange() { finish(); }
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// A shard of this rank has all of its gradient of one parameter. From any thread.
  void complete(ParameterId parameter);

  /// All shards of this rank have all gradients. Returns when the store's are the sums.
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
  std::future<void> running_;
};

}  // namespace headcount
