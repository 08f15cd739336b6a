#include "bench/decode_timer.h"

#include <chrono>
#include <span>

#include "autograd/random.h"
#include "train/statistics.h"

namespace headcount {

DecodeTimer::DecodeTimer(const ModelPlan& model, Index vocabulary, Index context,
                         const DecodeOptions& options)
    : context_(context), tokens_(static_cast<std::size_t>(options.sequences), 0) {
  model_ =
      std::make_unique<LanguageModel>(with_settings(model, {{"context", context}}), vocabulary);
  model_->initialize(1);
  tape_ = std::make_unique<Tape>(std::as_const(*model_).parameters());
  caches_ = model_->make_caches({options.sequences, context, options.rounding}, options.forms);
  for (LayerCache& cache : caches_) {
    for (const Kept& kept : cache.keeps()) {
      std::vector<Real> row(static_cast<std::size_t>(kept.heads * kept.width));
      const RandomKey key{1, random_stream("decode speed"), 0};
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = static_cast<Real>(random_normal(key, i));
      if (kept.per_sequence) {
        const std::span<Real> state = cache.state(kept.name);
        for (std::size_t i = 0; i < state.size(); ++i) state[i] = row[i % row.size()];
        continue;
      }
      RowCache& rows = cache.rows(kept.name);
      for (Index t = 0; t < options.sequences * rows.capacity(); ++t)
        rows.write(t / rows.capacity(), t % rows.capacity(), row.data());
    }
  }
}

double DecodeTimer::decode() {
  for (LayerCache& cache : caches_) cache.set_length(context_ - 1);
  const auto start = std::chrono::steady_clock::now();
  tape_->reset();
  model_->decode(*tape_, tokens_, std::ssize(tokens_), caches_);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Index DecodeTimer::cache_bytes() const {
  Index total = 0;
  for (const LayerCache& cache : caches_) total += cache.bytes();
  return total;
}

std::vector<double> median_milliseconds(std::vector<DecodeTimer>& timers, int rounds) {
  constexpr int kUncounted = 8, kCounted = 8;
  std::vector<std::vector<double>> times(timers.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < timers.size(); ++i) {
      for (int token = 0; token < kUncounted; ++token) timers[i].decode();
      for (int token = 0; token < kCounted; ++token) times[i].push_back(timers[i].decode());
    }
  }
  std::vector<double> medians;
  for (const std::vector<double>& of_timer : times) medians.push_back(median(of_timer));
  return medians;
}

}  // namespace headcount
