#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "models/cost/cost.h"
#include "models/decoder.h"
#include "nn/attention/layer_config.h"
#include "support/numbers.h"

/// Helpers for tests of decoding.
namespace headcount::decoding {

inline constexpr bool kDouble = sizeof(Real) == sizeof(double);
inline constexpr double kDecodingTolerance = kDouble ? 1e-10 : 1e-4;
inline constexpr Index kVocabulary = 11;

inline std::vector<std::int32_t> some_tokens(Index count) {
  std::mt19937 generator(7);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(generator() % kVocabulary);
  return tokens;
}

/// A small model with weights large enough for attention to matter.
inline Given decoder_config(const std::string& attention) {
  const nlohmann::json sizes = {{"dim", 24}, {"context", 20}, {"heads", 4}, {"head-dim", 6}};
  Given config(model_settings(), sizes);
  config.put("attention", attention);
  config.put("layers", std::max<Index>(2, std::ssize(parse_attention_spec(attention).cycle)));
  return config;
}

inline std::unique_ptr<LanguageModel> make_model(const Given& config) {
  auto model = std::make_unique<LanguageModel>(resolve_model(config), kVocabulary);
  model->parameters().allocate();
  std::uint64_t drawn = 0;
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    for (Real& x : model->parameters().value({i}))
      x = static_cast<Real>(0.35 * random_normal({.seed = 3}, drawn++));
  }
  return model;
}

/// Logits [sequences, length, vocabulary] of whole texts.
inline std::vector<Real> forward(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                 Index sequences = 1) {
  Tape tape(model.parameters());
  const Var y = model.logits(tape, tokens, sequences);
  EXPECT_EQ(y.shape(), (Shape{sequences, std::ssize(tokens) / sequences, model.vocabulary()}));
  return copy(y.value());
}

/// Logits of a decoder that is fed `pieces` tokens of each sequence at a time.
inline std::vector<Real> decode(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                const DecodeOptions& options, const std::vector<Index>& pieces) {
  const auto sequences = static_cast<std::size_t>(options.sequences);
  const std::size_t length = tokens.size() / sequences, width = kVocabulary;
  Decoder decoder(model, options);
  std::vector<Real> result(tokens.size() * width);
  std::size_t start = 0;
  for (const Index piece : pieces) {
    const auto count = static_cast<std::size_t>(piece);
    std::vector<std::int32_t> next;
    for (std::size_t b = 0; b < sequences; ++b) {
      const auto part = tokens.subspan(b * length + start, count);
      next.insert(next.end(), part.begin(), part.end());
    }
    const auto logits = decoder.feed(next);
    for (std::size_t b = 0; b < sequences; ++b)
      std::ranges::copy(logits.subspan(b * count * width, count * width),
                        &result[(b * length + start) * width]);
    start += count;
  }
  EXPECT_EQ(start, length);
  return result;
}

inline std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const AttentionKind* kind : attention_kinds()) names.emplace_back(kind->name);
  return names;
}

/// `names`, and patterns of layers that share.
inline std::vector<std::string> and_patterns(std::vector<std::string> names) {
  for (const std::string_view pattern : split_text(
           "mqa/share mla/2*share/gqa2 2*mqax4@3/mha gqa2@5/share/latent-bias "
           "mqa@4/share/mla8+2@9 3*delta/gqa2 delta4/mla8+2@9/share gta2/share tpa/share "
           "mfa/share v4@5/share/v4 hca3@4/share/hca7 csa3@4/share/csa7 dsa8+2/mla/dsa@7/share "
           "bsa1/share/bsa@7 "
           "mqa@4/gqa2@0/mla8+2/share@4/share@0/share "
           "mqa@4/mqa:value-residual=0.3/share@4/delta/mqa:value-residual=0.5 "
           "gqa2:canon=ABCD@4/2*share/delta:canon=AD/mla:canon=B:canon-taps=3/share fox2@6/share "
           "3*kda/gqa2 gqa2:qk-norm=on/share/mla8+2:qk-norm=on/share "
           "gta2:qk-norm=on/share/fox:qk-norm=on/share",
           ' '))
    names.emplace_back(pattern);
  return names;
}

/// Logits are compared in double, where a fault shows most, and in both precisions what float
/// rounds.
class Decoding : public testing::TestWithParam<std::string> {};

}  // namespace headcount::decoding
