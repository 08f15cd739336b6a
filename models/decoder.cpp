#include "models/decoder.h"

#include <algorithm>

namespace headcount {

Decoder::Decoder(const LanguageModel& model, const DecodeOptions& options)
    : model_(&model),
      options_(options),
      tape_(std::make_unique<Tape>(model.parameters())),
      caches_(model.make_caches({options.sequences, model.plan()->context, options.rounding},
                                options.forms)) {}

std::span<const Real> Decoder::feed(std::span<const std::int32_t> tokens,
                                    std::span<AttentionStats> stats) {
  const Index sequences = options_.sequences, count = std::ssize(tokens) / sequences;
  const auto chunk_at = [&](Index t) {
    const Index left = count - t;
    if (options_.rounding.all.recent > 0) return std::min<Index>(left, 1);
    return left < 2 * kPrefillChunk ? left : kPrefillChunk;
  };
  const auto decode = [&](std::span<const std::int32_t> next) {
    tape_->reset();
    return model_->decode(*tape_, next, sequences, caches_, stats).value();
  };
  // If the tokens end beyond the context, `decode` refuses all of them before the first is
  // processed.
  if (length() + count > model_->plan()->context || chunk_at(0) == count) return decode(tokens);
  const Index width = model_->vocabulary();
  logits_.resize(tokens.size() * width);
  std::vector<std::int32_t> next;
  for (Index t = 0, n = 0; t < count; t += n) {
    n = chunk_at(t);
    next.clear();
    for (Index b = 0; b < sequences; ++b) {
      const auto first = tokens.begin() + b * count + t;
      next.insert(next.end(), first, first + n);
    }
    const std::span<const Real> logits = decode(next);
    for (Index b = 0; b < sequences; ++b)
      std::copy_n(logits.begin() + b * n * width, n * width,
                  logits_.begin() + (b * count + t) * width);
  }
  return logits_;
}

Decoder Decoder::repeat(Index sequences) const {
  DecodeOptions options = options_;
  options.sequences = sequences;
  Decoder copy(*model_, options);
  for (std::size_t layer = 0; layer < caches_.size(); ++layer)
    copy.caches_[layer].copy_first(caches_[layer]);
  return copy;
}

Index Decoder::cache_bytes() const {
  Index total = 0;
  for (const LayerCache& cache : caches_) total += cache.bytes();
  return total;
}

}  // namespace headcount
