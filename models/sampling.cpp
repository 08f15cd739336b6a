#include "models/sampling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "autograd/base/error.h"
#include "autograd/random.h"

namespace headcount {

namespace {

// All tokens with numbers proportional to their probabilities, likeliest first; equally likely
// tokens in their own order.
std::vector<TokenProbability> candidates(std::span<const Real> logits, double temperature) {
  const auto greatest = static_cast<double>(std::ranges::max(logits));
  std::vector<TokenProbability> all;
  for (const Real logit : logits) {
    all.push_back({static_cast<std::int32_t>(all.size()),
                   std::exp((static_cast<double>(logit) - greatest) / temperature)});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &TokenProbability::probability);
  return all;
}

double total(const std::vector<TokenProbability>& list) {
  return std::accumulate(list.begin(), list.end(), 0.0,
                         [](double sum, const TokenProbability& c) { return sum + c.probability; });
}

void filter(std::vector<TokenProbability>& list, const SamplingOptions& options) {
  if (options.top_k > 0 && options.top_k < std::ssize(list)) list.resize(options.top_k);
  if (options.top_p < 1) {
    const double enough = options.top_p * total(list);
    double reached = 0;
    std::size_t count = 0;
    while (count < list.size() && (count == 0 || reached < enough))
      reached += list[count++].probability;
    list.resize(count);
  }
  const double threshold = options.min_p * list.front().probability;
  std::erase_if(list, [threshold](const TokenProbability& c) { return c.probability < threshold; });
}

}  // namespace

std::int32_t sample_token(std::span<const Real> logits, const SamplingOptions& options,
                          Index position, Index sequence) {
  if (options.temperature == 0) {
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  std::vector<TokenProbability> list = candidates(logits, options.temperature);
  filter(list, options);
  const RandomKey key{options.seed, random_stream("sampling"),
                      static_cast<std::uint32_t>(sequence)};
  double left = random_uniform(key, static_cast<std::uint64_t>(position)) * total(list);
  for (const TokenProbability& c : list) {
    left -= c.probability;
    if (left < 0) return c.token;
  }
  return list.back().token;
}

std::vector<TokenProbability> likeliest_tokens(std::span<const Real> logits, Index most) {
  std::vector<TokenProbability> list = candidates(logits, 1);
  const double sum = total(list);
  list.resize(std::min(most, std::ssize(list)));
  for (TokenProbability& each : list) each.probability /= sum;
  return list;
}

bool is_stopped(std::span<const std::int32_t> text,
                const std::vector<std::vector<std::int32_t>>& stops) {
  return std::ranges::any_of(stops, [&](const auto& stop) {
    return stop.size() <= text.size() && std::ranges::equal(stop, text.last(stop.size()));
  });
}

namespace {

using Clock = std::chrono::steady_clock;

// Texts of one generation, all of one length, and the logits of their next tokens.
class Generator {
 public:
  Generator(const LanguageModel& model, std::span<const std::int32_t> prompt,
            const GenerationOptions& options)
      : model_(model), options_(options), prompt_(std::ssize(prompt)) {
    if (prompt.empty()) throw ShapeError("the prompt must have at least one character");
    const Index context = model.plan()->context;
    if (std::ssize(prompt) > context && !options.slide) {
      throw ShapeError(
          "the prompt of {} characters is longer than the context of {}; shorten it or let the "
          "text slide",
          prompt.size(), context);
    }
    if (std::ssize(prompt) > context) prompt = prompt.last(context);
    texts_.assign(options.decode.sequences, {prompt.begin(), prompt.end()});
  }

  GenerationResult run(const std::function<void(Index, std::int32_t)>& on_token) {
    const Index sequences = options_.decode.sequences, context = model_.plan()->context;
    const Index width = model_.vocabulary();
    GenerationResult result;
    result.texts.resize(sequences);
    const auto ended = [&](const auto& text) { return is_stopped(text, options_.stops); };
    for (Index i = 0; i < options_.tokens; ++i) {
      const Clock::time_point begin = Clock::now();
      const std::span<const Real> logits = next();
      for (Index b = 0; b < sequences; ++b) {
        const std::int32_t token =
            sample_token(logits.subspan(b * width, width), options_.sampling, prompt_ + i, b);
        texts_[b].push_back(token);  // of an ended text as well: all have one length
        if (ended(result.texts[b])) continue;
        result.texts[b].push_back(token);
        if (on_token) on_token(b, token);
      }
      if (options_.cache) {
        result.cache_bytes = std::max(result.cache_bytes, decoder_->cache_bytes());
      } else {
        decoder_.reset();  // the next token goes through the model after the whole text again
      }
      (i == 0 ? result.prefill_seconds : result.decode_seconds) +=
          std::chrono::duration<double>(Clock::now() - begin).count();
      if (std::ranges::all_of(result.texts, ended)) break;
      // No token follows the last one, so the text may end with a full context.
      if (i + 1 == options_.tokens || std::ssize(texts_.front()) - start_ <= context) continue;
      if (!options_.slide) break;
      start_ += (context + 1) / 2;  // the newer half of the context stays
      decoder_.reset();
    }
    return result;
  }

 private:
  // Logits [sequences, vocabulary] of the next token of each text.
  std::span<const Real> next() {
    // At first all texts equal the prompt, so only one of them goes through the model.
    const bool one_for_all = logits_.empty();
    DecodeOptions options = options_.decode;
    if (one_for_all) options.sequences = 1;
    if (!decoder_) decoder_.emplace(model_, options);
    const Index seen = start_ + decoder_->length();
    tokens_.clear();
    for (Index b = 0; b < options.sequences; ++b) {
      const std::vector<std::int32_t>& text = texts_[b];
      tokens_.insert(tokens_.end(), text.begin() + seen, text.end());
    }
    const std::span<const Real> logits = decoder_->feed(tokens_);
    // Logits [sequences, T, vocabulary]: the last token's are wanted.
    const Index width = model_.vocabulary(), per_text = std::ssize(logits) / options.sequences;
    logits_.clear();
    for (Index b = 0; b < std::ssize(texts_); ++b) {
      const auto row = logits.subspan((one_for_all ? 1 : b + 1) * per_text - width, width);
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
    if (one_for_all && texts_.size() > 1) decoder_ = decoder_->repeat(options_.decode.sequences);
    return logits_;
  }

  const LanguageModel& model_;
  const GenerationOptions& options_;
  Index prompt_;  // tokens
  std::optional<Decoder> decoder_;
  std::vector<std::vector<std::int32_t>> texts_;
  Index start_ = 0;  // first token that the model still sees
  std::vector<std::int32_t> tokens_;
  std::vector<Real> logits_;
};

}  // namespace

GenerationResult generate(const LanguageModel& model, std::span<const std::int32_t> prompt,
                          const GenerationOptions& options,
                          const std::function<void(Index, std::int32_t)>& on_token) {
  return Generator(model, prompt, options).run(on_token);
}

}  // namespace headcount
