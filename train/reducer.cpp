#include "train/reducer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/parallel.h"

namespace headcount {

namespace {

double sum_of_squares(std::span<const Real> numbers) {
  constexpr std::size_t kLanes = 16;  // independent sums, which the compiler vectorises
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= numbers.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(numbers[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < numbers.size(); ++i)
    lanes[0] += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

// Makes the gradients of the store the sums over all ranks' shards, added in the order of shards.
// The store holds those of this rank's first shard, if it has any of `shards`, and `more` the rest.
//
// Chunks of gradients go from rank to rank; each rank adds its shards to the sum of the ranks
// before, and the last rank sends the total back the same way. Ranks work on different chunks at a
// time, as in a pipeline: with N ranks, M chunks take M + 2 (N - 1) passes.
void sum_over_ranks(Ranks& ranks, ParameterStore& parameters, Index shards,
                    std::span<Gradients> more) {
  constexpr Index kChunk = 1 << 15;
  const std::span<Real> sums = parameters.complete_gradients();
  const Index count = std::ssize(sums), chunks = (count + kChunk - 1) / kChunk;
  const auto chunk_of = [&](std::span<Real> numbers, Index chunk) -> std::span<Real> {
    if (chunk < 0 || chunk >= chunks) return {};
    const Index begin = chunk * kChunk;
    return numbers.subspan(static_cast<std::size_t>(begin),
                           static_cast<std::size_t>(std::min(kChunk, count - begin)));
  };
  std::vector<std::span<Real>> others;
  for (Gradients& shard : more) others.push_back(parameters.complete_gradients(shard));
  std::vector<Real> before(kChunk);
  const Index last = ranks.size() - 1, rank = ranks.rank();
  for (Index step = 0; step < chunks + 2 * last; ++step) {
    // In this pass, the rank gets one chunk on its way to the last rank and one on its way back.
    const Index forward = step - rank, back = step - 2 * last + rank;
    const std::span<Real> sum = chunk_of(sums, forward);
    Ranks::Pass pass;
    if (rank > 0) {
      pass.from_previous = shards == 0 ? sum : std::span(before).first(sum.size());
      pass.to_previous = chunk_of(sums, back - 1);
    }
    if (rank < last) {
      pass.to_next = chunk_of(sums, forward - 1);
      pass.from_next = chunk_of(sums, back);
    }
    ranks.pass(pass);
    const auto add = [&](std::span<const Real> numbers) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += numbers[i];
    };
    if (rank > 0 && shards > 0) add(before);
    for (const std::span<Real> shard : others) add(chunk_of(shard, forward));
  }
}

}  // namespace

double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards) {
  const std::span<Real> sums = parameters.complete_gradients();
  std::vector<const Real*> parts;
  for (Gradients& shard : shards) parts.push_back(parameters.complete_gradients(shard).data());
  const Index count = std::ssize(sums);
  std::vector<double> squares(
      static_cast<std::size_t>((count + kElementChunk - 1) / kElementChunk));
  parallel_chunks(count, kElementChunk, [&](Index begin, Index end) {
    Real* const sum = sums.data();
    for (const Real* const part : parts) {
      for (Index i = begin; i < end; ++i) sum[i] += part[i];
    }
    squares[static_cast<std::size_t>(begin / kElementChunk)] = sum_of_squares(
        sums.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

Reducer::Reducer(Ranks& ranks, ParameterStore& parameters, Index shards, Index passes)
    : ranks_(ranks),
      parameters_(parameters),
      shards_(shards),
      passes_(passes),
      own_(part_of(shards, ranks.rank(), ranks.size())),
      losses_(static_cast<std::size_t>(shards * passes)) {
  for (Index shard = 1; shard < own_.size(); ++shard) more_.emplace_back(parameters);
}

Gradients& Reducer::gradients(Index shard) {
  return shard == own_.first ? parameters_.gradients()
                             : more_[static_cast<std::size_t>(shard - own_.first - 1)];
}

void Reducer::begin_step() {
  parameters_.clear_gradients();
  for (Gradients& gradients : more_) gradients.clear();
}

void Reducer::set_loss(Index pass, Index shard, double loss) {
  losses_[static_cast<std::size_t>(shard * passes_ + pass)] = loss;
}

Reducer::Sums Reducer::finish_step() {
  const auto passes = static_cast<std::size_t>(passes_);
  ranks_.gather(std::as_writable_bytes(std::span(losses_)), passes * sizeof(double));
  Sums sums;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    double loss = 0;
    for (std::size_t i = pass; i < losses_.size(); i += passes) loss += losses_[i];
    sums.loss += loss / static_cast<double>(passes);
  }
  const bool alone = ranks_.size() == 1;
  if (!alone) sum_over_ranks(ranks_, parameters_, own_.size(), more_);
  sums.gradient_norm = sum_gradients(parameters_, alone ? more_ : std::span<Gradients>());
  return sums;
}

}  // namespace headcount
