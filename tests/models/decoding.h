#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "models/cost.h"
#include "models/decoder.h"
#include "nn/layer_config.h"

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
  Given config(model_settings());
  set(config, "dim", 24);
  set(config, "context", 20);
  set(config, "heads", 4);
  set(config, "head-dim", 6);
  set(config, "attention", attention);
  set(config, "layers", std::max<Index>(2, std::ssize(parse_attention_spec(attention).cycle)));
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

inline std::vector<Real> forward(const LanguageModel& model, std::span<const std::int32_t> tokens,
                                 Index sequences) {
  Tape tape(model.parameters());
  const auto values = model.logits(tape, tokens, sequences).value();
  return {values.begin(), values.end()};
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
    for (std::size_t b = 0; b < sequences; ++b) {
      for (std::size_t i = 0; i < count * width; ++i) {
        result[(b * length + start) * width + i] = logits[b * count * width + i];
      }
    }
    start += count;
  }
  EXPECT_EQ(start, length);
  return result;
}

inline void expect_equal(const std::vector<Real>& values, const std::vector<Real>& expected,
                         double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(static_cast<double>(values[i] - expected[i]));
    worst = error <= worst ? worst : error;
  }
  EXPECT_LE(worst, tolerance);
}

inline void expect_decoding_equals_forward(const Given& config, const FormOfKind& forms = {}) {
  const auto model = make_model(config);
  const Index context = model->plan()->context;
  const std::vector<std::int32_t> tokens = some_tokens(3 * context);
  for (const Index sequences : {1, 3}) {
    const auto text = std::span(tokens).first(static_cast<std::size_t>(sequences * context));
    const std::vector<Real> expected = forward(*model, text, sequences);
    const DecodeOptions options{sequences, CacheType::real, forms};
    expect_equal(decode(*model, text, options, std::vector<Index>(20, 1)), expected,
                 kDecodingTolerance);
    expect_equal(decode(*model, text, options, {13, 1, 1, 1, 1, 1, 1, 1}), expected,
                 kDecodingTolerance);
    expect_equal(decode(*model, text, options, {1, 6, 1, 12}), expected, kDecodingTolerance);
    expect_equal(decode(*model, text, options, {20}), expected, kDecodingTolerance);
  }
}

/// Returns true if all layers see single tokens.
inline bool attends(const std::string& attention) {
  return std::ranges::all_of(parse_attention_spec(attention).cycle, [](const LayerSpec& part) {
    return part.shares() || part.kind->attends;
  });
}

inline std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const AttentionKind* kind : attention_kinds()) names.emplace_back(kind->name);
  return names;
}

/// `names`, and patterns of layers that share.
inline std::vector<std::string> and_patterns(std::vector<std::string> names) {
  for (const char* pattern :
       {"mqa/share",
        "mla/2*share/gqa2",
        "2*mqax4@3/mha",
        "gqa2@5/share/latent-bias",
        "mqa@4/share/mla8+2@9",
        "3*delta/gqa2",
        "delta4/mla8+2@9/share",
        "gta2/share",
        "tpa/share",
        "mfa/share",
        "v4@5/share/v4",
        "hca3@4/share/hca7",
        "csa3@4/share/csa7",
        "dsa8+2/mla/dsa@7/share",
        "mqa@4/gqa2@0/mla8+2/share@4/share@0/share",
        "mqa@4/mqa:value-residual=0.3/share@4/delta/mqa:value-residual=0.5",
        "gqa2:canon=ABCD@4/2*share/delta:canon=AD/mla:canon=B:canon-taps=3/share",
        "fox2@6/share",
        "3*kda/gqa2",
        "gqa2:qk-norm=on/share/mla8+2:qk-norm=on/share/gta2:qk-norm=on/share/fox:qk-norm=on/share"})
    names.emplace_back(pattern);
  return names;
}

/// Attentions of a suite: `names` in one precision, none in the other.
inline auto only(bool in_this_precision, const std::vector<std::string>& names) {
  return testing::ValuesIn(in_this_precision ? names : std::vector<std::string>());
}

inline std::string test_name(const testing::TestParamInfo<std::string>& attention) {
  std::string name = attention.param;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Suites by precision. Logits are compared in double, where a fault shows most, and in both
/// precisions what float rounds; sizes do not depend on it and are checked in float.
class Decoding : public testing::TestWithParam<std::string> {};
class DecodingInDouble : public Decoding {};
class DecodingInFloat : public Decoding {};
class DecodingInChunks : public Decoding {};
class MemoryOfDecoding : public Decoding {};
class DecodingWithScores : public Decoding {};
class DecodingOfKinds : public Decoding {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingInDouble);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingInFloat);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MemoryOfDecoding);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingWithScores);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingOfKinds);

// Prefill reads the rounded rows that decoding token by token reads. Products of several tokens
// group sums in another way, though. In float a number between two that a cache can hold may then
// be rounded to the other one, which is as far as rounding moves it at all. In double, sums differ
// by so little that no number of these models is.
inline double prefill_tolerance(double of_rounding) {
  return kDouble ? kDecodingTolerance : of_rounding;
}

// Returns true if an indexer leaves out some rows. With a cache that rounds, it may pick others.
inline bool picks(const LanguageModel& model) {
  return std::ranges::any_of(model.plan()->cycle, [&](const AttentionPlan& attention) {
    if (!attention.has("index-topk")) return false;
    const Index context = model.plan()->context;
    const Index rows = attention.has("compress") ? context / attention.whole("compress")
                                                 : attention.cached_tokens(context);
    return rows > attention.whole("index-topk");
  });
}

}  // namespace headcount::decoding
