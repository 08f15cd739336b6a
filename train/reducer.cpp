#include "train/reducer.h"

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

void Reducer::listen(Tape& tape) {
  if (ranks_.size() == 1) return;
  tape.when_complete([this](ParameterId parameter) {
    if (exchange_) exchange_->complete(parameter);
  });
}

void Reducer::begin_step() {
  parameters_.clear_gradients();
  for (Gradients& gradients : more_) gradients.clear();
}

void Reducer::begin_pass(Index pass) {
  if (pass == passes_ - 1 && ranks_.size() > 1)
    exchange_.emplace(ranks_, parameters_, own_.size(), more_);
}

void Reducer::set_loss(Index pass, Index shard, double loss) {
  losses_[static_cast<std::size_t>(shard * passes_ + pass)] = loss;
}

Reducer::Sums Reducer::finish_step() {
  if (exchange_) exchange_->finish();  // not in its destructor, which must not throw
  exchange_.reset();
  const auto passes = static_cast<std::size_t>(passes_);
  ranks_.gather(std::as_writable_bytes(std::span(losses_)), passes * sizeof(double));
  Sums sums;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    double loss = 0;
    for (std::size_t i = pass; i < losses_.size(); i += passes) loss += losses_[i];
    sums.loss += loss / static_cast<double>(passes);
  }
  // An exchange has added the other shards already.
  const std::span<Gradients> others = ranks_.size() > 1 ? std::span<Gradients>() : more_;
  sums.gradient_norm = sum_gradients(parameters_, others);
  return sums;
}

}  // namespace headcount
