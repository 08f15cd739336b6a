#include "train/gradient_exchange.h"

#include <algorithm>
#include <future>
#include <utility>

namespace headcount {

struct GradientExchange::Running {
  std::future<void> ends;
};

GradientExchange::GradientExchange(Ranks& ranks, ParameterStore& parameters, Index shards,
                                   std::span<Gradients> more)
    : ranks_(ranks),
      parameters_(parameters),
      shards_(shards),
      more_(more),
      count_(std::ssize(parameters.all_values())),
      awaited_(static_cast<std::size_t>((count_ + kChunk - 1) / kChunk)) {
  for (Index chunk = 0; chunk < std::ssize(awaited_); ++chunk) {
    const Part part = elements(chunk);
    parameters.for_slices(part.first, part.last, [&](ParameterId, Index, Index) {
      awaited_[static_cast<std::size_t>(chunk)] += shards;
    });
  }
  running_ = std::make_unique<Running>(Running{std::async(std::launch::async, [this] { run(); })});
}

GradientExchange::~GradientExchange() { finish(); }

// The first chunk is the end of the buffer: backward begins there.
Part GradientExchange::elements(Index chunk) const {
  const Index from_start = std::ssize(awaited_) - 1 - chunk;
  return {from_start * kChunk, std::min(count_, (from_start + 1) * kChunk)};
}

std::span<Real> GradientExchange::sums(Index chunk) {
  const Part part = elements(chunk);
  return parameters_.complete_gradients(parameters_.gradients(), part.first, part.last);
}

void GradientExchange::complete(ParameterId parameter) {
  const std::span<const Real> values = parameters_.value(parameter);
  if (values.empty()) return;
  const Index first = values.data() - parameters_.all_values().data();
  const auto chunk_of = [&](Index element) { return std::ssize(awaited_) - 1 - element / kChunk; };
  for (Index chunk = chunk_of(first + std::ssize(values) - 1); chunk <= chunk_of(first); ++chunk) {
    std::atomic<Index>& awaited = awaited_[static_cast<std::size_t>(chunk)];
    if (--awaited == 0) awaited.notify_one();
  }
}

void GradientExchange::finish() {
  if (running_ == nullptr) return;
  // Parameters that were not used have no gradient to wait for.
  for (std::atomic<Index>& awaited : awaited_) {
    awaited = 0;
    awaited.notify_one();
  }
  std::exchange(running_, nullptr)->ends.get();
}

// Adds this rank's shards, in their order, to the sum of the ranks before, and leaves the result in
// the store.
void GradientExchange::add_own(Index chunk, std::span<const Real> before) {
  const std::span<Real> sum = sums(chunk);
  if (shards_ == 0) {
    std::ranges::copy(before, sum.begin());
    return;
  }
  for (std::size_t i = 0; i < before.size(); ++i) sum[i] = before[i] + sum[i];
  const Part part = elements(chunk);
  for (Gradients& gradients : more_) {
    const auto shard = parameters_.complete_gradients(gradients, part.first, part.last);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += shard[i];
  }
}

void GradientExchange::run() {
  const Index chunks = std::ssize(awaited_), last = ranks_.size() - 1, rank = ranks_.rank();
  const auto exists = [&](Index chunk) { return chunk >= 0 && chunk < chunks; };
  std::vector<Real> before(static_cast<std::size_t>(rank > 0 ? kChunk : 0));
  for (Index step = 0; step < chunks + 2 * last; ++step) {
    // The chunks that this rank handles in this pass: one on its way to the last rank, and one on
    // its way back.
    const Index forward = step - rank, back = step - 2 * last + rank;
    Ranks::Pass pass;
    if (rank > 0 && exists(forward)) {
      pass.from_previous =
          std::span(before).first(static_cast<std::size_t>(elements(forward).size()));
    }
    if (rank < last && exists(forward - 1)) pass.to_next = sums(forward - 1);
    if (rank < last && exists(back)) pass.from_next = sums(back);
    if (rank > 0 && exists(back - 1)) pass.to_previous = sums(back - 1);
    ranks_.pass(pass);
    if (!exists(forward)) continue;
    std::atomic<Index>& awaited = awaited_[static_cast<std::size_t>(forward)];
    for (Index left = awaited; left > 0; left = awaited) awaited.wait(left);
    add_own(forward, pass.from_previous);
  }
}

}  // namespace headcount
