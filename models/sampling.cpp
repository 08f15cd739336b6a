#include "models/sampling.h"

#include <algorithm>
#include <cmath>

#include "autograd/random.h"
#include "autograd/tape.h"

namespace headcount {

std::int32_t sample_token(std::span<const Real> logits, const SamplingOptions& options,
                          Index position) {
  const auto likeliest = std::ranges::max_element(logits);
  if (options.temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  std::vector<double> cumulative;
  double total = 0;
  for (const Real logit : logits) {
    total += std::exp(static_cast<double>(logit - *likeliest) / options.temperature);
    cumulative.push_back(total);
  }
  const RandomKey key{options.seed, random_stream("sampling"), 0};
  const double drawn = random_uniform(key, static_cast<std::uint64_t>(position)) * total;
  const auto token = std::ranges::upper_bound(cumulative, drawn) - cumulative.begin();
  return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(token, std::ssize(cumulative) - 1));
}

std::vector<std::int32_t> sample_tokens(const LanguageModel& model,
                                        std::vector<std::int32_t> prompt, Index count,
                                        const SamplingOptions& options) {
  Tape tape(model.parameters());
  std::vector<std::int32_t> text = std::move(prompt);
  for (Index i = 0; i < count; ++i) {
    const std::size_t seen =
        std::min(text.size(), static_cast<std::size_t>(model.config().context));
    tape.reset();
    const Var logits = model.logits(tape, std::span(text).last(seen), 1);
    const auto last = logits.value().last(static_cast<std::size_t>(model.vocabulary()));
    text.push_back(sample_token(last, options, static_cast<Index>(text.size())));
  }
  return text;
}

}  // namespace headcount
