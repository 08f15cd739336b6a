#include "models/decoder.h"

#include <algorithm>

namespace headcount {

Decoder::Decoder(const LanguageModel& model, const DecodeOptions& options)
    : model_(&model),
      options_(options),
      tape_(std::make_unique<Tape>(model.parameters())),
      caches_(model.make_caches(
          {options.sequences, model.config().context, options.cache_type, options.form})) {}

std::span<const Real> Decoder::feed(std::span<const std::int32_t> tokens) {
  const Index count = static_cast<Index>(tokens.size()) / options_.sequences;
  const Index capacity = std::ranges::min_element(caches_, {}, &LayerCache::capacity)->capacity();
  // What ends beyond the context is refused as a whole.
  if (count == 1 || length() + count <= capacity || length() + count > model_->config().context) {
    tape_->reset();
    return model_->decode(*tape_, tokens, options_.sequences, caches_).value();
  }
  // The ring would overwrite rows that the first of these tokens still see: one at a time.
  const auto width = static_cast<std::size_t>(model_->vocabulary());
  logits_.resize(tokens.size() * width);
  std::vector<std::int32_t> next(static_cast<std::size_t>(options_.sequences));
  for (std::size_t t = 0; t < static_cast<std::size_t>(count); ++t) {
    for (std::size_t b = 0; b < next.size(); ++b)
      next[b] = tokens[b * static_cast<std::size_t>(count) + t];
    tape_->reset();
    const auto logits = model_->decode(*tape_, next, options_.sequences, caches_).value();
    for (std::size_t b = 0; b < next.size(); ++b) {
      std::ranges::copy(logits.subspan(b * width, width),
                        logits_.begin() + static_cast<std::ptrdiff_t>(
                                              (b * static_cast<std::size_t>(count) + t) * width));
    }
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

void Decoder::clear() {
  for (LayerCache& cache : caches_) cache.set_length(0);
}

Index Decoder::cache_bytes() const {
  Index total = 0;
  for (const LayerCache& cache : caches_) total += cache.bytes();
  return total;
}

}  // namespace headcount
