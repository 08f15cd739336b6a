// programs: models in_double
// Decoding with a cache equals the forward pass over the whole text, in every option.
#include "models/decoder.h"

#include <gtest/gtest.h>

#include "models/decoding.h"
#include "nn/kinds_with_scores.h"

namespace headcount::decoding {
namespace {

TEST_P(Decoding, EqualsForwardWithRotaryLearnedAndNoPositions) {
  for (const char* positions : {"rope", "learned", "none"}) {
    Given config = decoder_config(GetParam());
    set(config, "positions", positions);
    expect_decoding_equals_forward(config);
  }
}

TEST_P(DecodingWithScores, EqualsForwardWithEachScoreScale) {
  const char* const huge = kDouble ? "1e200" : "1e10";  // scores are rounded by more than exp takes
  for (const char* scale : {"none", "qk-norm", "row-norm", "length", "0.7", huge}) {
    Given config = decoder_config(GetParam());
    set(config, "score-scale", scale);
    expect_decoding_equals_forward(config);
  }
}

TEST_P(DecodingInDouble, EqualsForwardWithBiasesLayerNormAndTiedHead) {
  Given config = decoder_config(GetParam());
  set(config, "bias", true);
  set(config, "norm", "layer");
  set(config, "activation", "gelu");
  set(config, "tie-embeddings", true);
  expect_decoding_equals_forward(config);
}

TEST_P(DecodingInDouble, OfRepeatedSequencesSharesOnePrefill) {
  const auto model = make_model(decoder_config(GetParam()));
  const std::vector<std::int32_t> tokens = some_tokens(12);
  Decoder one(*model, {});
  one.feed(tokens);
  Decoder three = one.repeat(3);
  EXPECT_EQ(three.length(), 12);
  const auto first = one.feed(std::vector<std::int32_t>{5});
  const std::vector<Real> expected(first.begin(), first.end());
  const auto all = three.feed(std::vector<std::int32_t>{5, 5, 5});
  for (std::size_t b = 0; b < 3; ++b) {
    const auto row = all.subspan(b * kVocabulary, kVocabulary);
    expect_equal({row.begin(), row.end()}, expected, kDecodingTolerance);
  }
}

TEST_P(DecodingWithScores, EqualsForwardWithAWindow) {
  for (const Index window : {1, 5, 19, 20}) {
    Given config = decoder_config(GetParam());
    set(config, "window", window);
    expect_decoding_equals_forward(config);
  }
}

using LayerOptions = std::vector<std::pair<std::string, std::string>>;

// Settings of attention layers, each for the kinds that have it.
const std::vector<LayerOptions>& layer_options() {
  static const std::vector<LayerOptions> all = {
      {{"gate", "on"}},
      {{"gate", "on"}, {"output-projection", "off"}, {"head-dim", "6"}},
      {{"rope-dim", "2"}},
      {{"score-cap", "0.8"}},
      {{"score-cap", "0.8"}, {"score-scale", "length"}, {"sinks", "on"}, {"window", "5"}},
      {{"score-cap", "0.8"}, {"bias", "on"}, {"rope-dim", "4"}, {"tie-kv", "on"}},
      {{"sinks", "on"}},
      {{"sinks", "on"}, {"window", "5"}, {"bias", "on"}},
      {{"value-residual", "0.4"}, {"layers", "3"}},
      {{"value-residual", "0.5"}, {"window", "5"}, {"bias", "on"}},
      {{"canon", "ACD"}},
      {{"canon", "B"}},
      {{"canon", "ABCD"}, {"canon-taps", "2"}, {"bias", "on"}, {"activation", "gelu"}},
      {{"canon", "BD"}, {"canon-taps", "7"}, {"sinks", "on"}, {"window", "5"}},
      {{"tie-kv", "on"}},
      {{"tie-kv", "on"}, {"rope-dim", "4"}, {"score-scale", "qk-norm"}},
      {{"tie-kv", "on"}, {"rope-dim", "2"}, {"window", "5"}, {"bias", "on"}, {"gate", "on"}},
      {{"rope-dim", "0"}, {"score-scale", "qk-norm"}},
      {{"rope-dim", "6"}},
      {{"latent-scale", "on"}, {"q-rank", "5"}},
      {{"latents", "2"}, {"kv-rank", "6"}, {"latent-scale", "on"}, {"bias", "on"}},
      {{"latents", "4"}, {"kv-rank", "12"}, {"gate", "on"}, {"score-scale", "length"}},
      {{"o-groups", "4"}, {"o-rank", "3"}, {"q-rank", "0"}},
      {{"o-groups", "1"}, {"o-rank", "5"}, {"q-rank", "7"}, {"bias", "on"}, {"window", "5"}},
      {{"compress", "3"}},
      {{"compress", "1"}, {"score-scale", "qk-norm"}},
      {{"compress", "6"}, {"window", "3"}, {"sinks", "on"}, {"bias", "on"}, {"rope-dim", "4"}},
      {{"compress", "21"}, {"window", "5"}, {"score-scale", "row-norm"}},
      {{"compress", "2"}, {"index-topk", "3"}},
      {{"compress", "1"}, {"index-topk", "4"}, {"score-scale", "qk-norm"}, {"bias", "on"}},
      {{"compress", "3"}, {"index-topk", "2"}, {"q-rank", "0"}, {"score-scale", "length"}},
      {{"compress", "2"},
       {"index-topk", "1"},
       {"index-heads", "3"},
       {"index-head-dim", "7"},
       {"rope-dim", "2"},
       {"window", "5"},
       {"sinks", "on"}},
      {{"index-topk", "3"}},
      {{"index-topk", "5"}, {"rope-dim", "0"}, {"score-scale", "qk-norm"}, {"bias", "on"}},
      {{"index-topk", "4"}, {"q-rank", "5"}, {"score-scale", "length"}, {"sinks", "on"}},
      {{"index-topk", "2"}, {"index-heads", "1"}, {"window", "7"}, {"gate", "on"}},
      {{"index-topk", "6"},
       {"index-heads", "3"},
       {"index-head-dim", "7"},
       {"rope-dim", "4"},
       {"latents", "2"},
       {"kv-rank", "6"},
       {"canon", "AB"},
       {"score-scale", "row-norm"},
       {"window", "11"}},
      {{"kv-factors", "1"}, {"q-factors", "1"}},
      {{"kv-factors", "3"}, {"bias", "on"}, {"gate", "on"}, {"window", "5"}},
      {{"kv-factors", "2"}, {"score-scale", "row-norm"}},
      {{"kv-factors", "2"}, {"score-scale", "qk-norm"}},
      {{"kv-heads", "1"}},
      {{"kv-heads", "4"}, {"rope-dim", "2"}, {"window", "5"}, {"bias", "on"}},
      {{"qk-norm", "on"}},
      {{"qk-norm", "on"}, {"kv-heads", "2"}, {"window", "5"}},
      {{"qk-norm", "on"}, {"rope-dim", "0"}, {"bias", "on"}},
      {{"qk-norm", "on"}, {"rope-dim", "4"}, {"tie-kv", "on"}, {"canon", "B"}},
      {{"qk-norm", "on"}, {"nope-dim", "5"}, {"index-topk", "3"}, {"score-scale", "qk-norm"}},
      {{"latent-norm", "off"}, {"nope-dim", "5"}, {"v-dim", "7"}},
      {{"latent-norm", "off"}, {"rope-dim", "0"}, {"q-rank", "3"}},
      {{"index-loss", "0"}, {"v-dim", "3"}, {"latent-norm", "off"}},
      {{"index-loss", "0"}, {"compress", "2"}},
      {{"nope-dim", "5"}, {"latent-scale", "on"}, {"index-topk", "3"}},
      {{"latent-dim", "5"}},
      {{"q-rank", "5"}, {"rope-dim", "4"}, {"gate", "on"}, {"window", "5"}},
      {{"conv-taps", "1"}, {"v-dim", "5"}},
      {{"key-heads", "2"}, {"value-heads", "4"}, {"conv-taps", "3"}, {"bias", "on"}},
      {{"gate-bias", "off"}},
      {{"first-temperature", "0.5"}},
      {{"rope-layout", "half"}, {"nope-dim", "5"}},
      {{"rope-layout", "half"}, {"compress", "2"}},
      {{"rope-layout", "half"}, {"o-groups", "4"}},
  };
  return all;
}

bool has_option(const AttentionKind& kind, const std::pair<std::string, std::string>& option) {
  if ((option.first == "sinks" || option.first == "score-cap") && !kind.attends) return false;
  if (option.first == "value-residual" && !mixes_values(kind)) return false;
  if (option.first == "qk-norm" && !kind.no_qk_norm.empty()) return false;
  if (option.first == "canon" && option.second.find('B') != std::string::npos && !convolves(kind))
    return false;
  return find_setting(model_settings(), option.first)->is_for(kind.name);
}

bool has_options(const AttentionKind& kind, const LayerOptions& options) {
  return std::ranges::all_of(options, [&](const auto& option) { return has_option(kind, option); });
}

TEST(OptionsOfDecoding, ContainEverySettingOfEachKind) {
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Setting& setting : kind->settings()) {
      const auto sets_it = [&](const LayerOptions& options) {
        const auto is_it = [&](const auto& option) { return option.first == setting.name; };
        return has_options(*kind, options) && std::ranges::any_of(options, is_it);
      };
      EXPECT_TRUE(std::ranges::any_of(layer_options(), sets_it))
          << kind->name << " " << setting.name;
    }
  }
}

// Types of caches that round, and by how much the logits of these models, of sizes up to 2, may
// change: a quarter more than was measured, in roundings of a number by f16 and bf16, which change
// it by 1 / 2048 and 1 / 256 of itself at most, and of a row by int8, whose steps are 1 / 127 of
// the row's greatest number. By arithmetic int8 may take 3.1 times as many: its error is 1 /
// sqrt(3) of half a step in the root mean square, f16's 0.41 of its greatest over all mantissas,
// and the greatest of 6 to 24 normal numbers is up to 2.2 times their root mean square.
std::vector<std::pair<CacheType, double>> rounding_types(double of_number, double of_row) {
  return {{CacheType::bf16, 1.25 * of_number / 256},
          {CacheType::f16, 1.25 * of_number / 2048},
          {CacheType::int8, 1.25 * of_row / 254}};
}

TEST_P(DecodingOfKinds, EqualsForwardWithEachOptionInEveryFormAndTypeOfCache) {
  const std::vector<std::int32_t> tokens = some_tokens(20);
  for (const auto& options : layer_options()) {
    Given config = decoder_config(GetParam());
    if (!has_options(attention_kind(GetParam()), options)) continue;
    for (const auto& [name, value] : options) set(config, name, value);
    SCOPED_TRACE(config.values().dump());
    const auto model = make_model(config);
    for (const std::string_view form : attention_forms(model->plan()->cycle.front()))
      expect_decoding_equals_forward(config, {{GetParam(), std::string(form)}});
    for (const auto& [type, tolerance] : rounding_types(4.1, 10.5)) {
      const std::vector<Real> one_by_one =
          decode(*model, tokens, {1, type, {}}, std::vector<Index>(20, 1));
      if (!picks(*model)) expect_equal(one_by_one, forward(*model, tokens, 1), tolerance);
      expect_equal(decode(*model, tokens, {1, type, {}}, {13, 1, 1, 5}), one_by_one,
                   prefill_tolerance(tolerance));
    }
  }
}

// A rotated cache that rounds nothing gives the same logits, in every form; one that rounds gives
// those of tokens one by one to a prefill, too.
TEST_P(DecodingOfKinds, EqualsForwardThroughRotatedRowsOfEachType) {
  const std::vector<std::int32_t> tokens = some_tokens(20);
  for (const auto& options : layer_options()) {
    Given config = decoder_config(GetParam());
    if (!has_options(attention_kind(GetParam()), options)) continue;
    for (const auto& [name, value] : options) set(config, name, value);
    SCOPED_TRACE(config.values().dump());
    const auto model = make_model(config);
    CacheRounding rounding;
    rounding.all.rotated = true;
    try {
      model->make_caches({.capacity = 20, .rounding = rounding});
    } catch (const ShapeError&) {
      continue;  // rows of an odd number of numbers
    }
    for (const std::string_view form : attention_forms(model->plan()->cycle.front()))
      expect_equal(
          decode(*model, tokens, {1, rounding, {{GetParam(), std::string(form)}}}, {13, 1, 1, 5}),
          forward(*model, tokens, 1), kDecodingTolerance);
    for (const CacheTypeRow& type : cache_types()) {
      rounding.all.type = type.type;
      for (const CacheLevels levels : {CacheLevels::uniform, CacheLevels::normal}) {
        rounding.all.levels = levels;
        if (levels == CacheLevels::normal && !type.has_levels) continue;
        SCOPED_TRACE(type.name);
        expect_equal(decode(*model, tokens, {1, rounding, {}}, {13, 1, 1, 5}),
                     decode(*model, tokens, {1, rounding, {}}, std::vector<Index>(20, 1)),
                     kDecodingTolerance);
      }
    }
  }
}

// Returns true if a cache of another type than Real rounds rows of the model.
bool rounds_rows(const ModelPlan& model) {
  return kv_cache_bytes(model, 1, CacheType::bf16) != kv_cache_bytes(model, 1);
}

// Recent rows of as many tokens as there are change nothing, but pooled rows are never recent: they
// are rounded as if they alone were rounded. Recent rows of fewer tokens change something.
TEST_P(Decoding, OfRecentTokensIsExact) {
  const auto model = make_model(decoder_config(GetParam()));
  const std::vector<std::int32_t> tokens = some_tokens(model->plan()->context);
  const std::vector<Real> expected = forward(*model, tokens, 1);
  const auto logits = [&](const CacheRounding& rounding) {
    return decode(*model, tokens, {1, rounding, {}}, {13, 1, 1, 5});
  };
  CacheRounding rounding(CacheType::int2), of_pooled;
  for (Index i = 0; i < model->plan()->layers; ++i) {
    for (const Kept& kept : cache_parts(model->plan()->layer_attention(i))) {
      const std::pair part(kept.name, CacheType::int2);
      if (kept.block > 0 && !kept.per_sequence && !std::ranges::count(of_pooled.parts, part))
        of_pooled.parts.push_back(part);
    }
  }
  rounding.all.recent = 20;
  expect_equal(logits(rounding), of_pooled.parts.empty() ? expected : logits(of_pooled),
               kDecodingTolerance);
  rounding.all.recent = 2;
  if (rounds_rows(model->plan())) {
    EXPECT_NE(logits(rounding), expected);
  }
}

TEST_P(Decoding, OfHalvesAndBytesChangesLogitsLittleMoreThanRowsAreRounded) {
  const auto model = make_model(decoder_config(GetParam()));
  const std::vector<std::int32_t> tokens = some_tokens(model->plan()->context);
  const std::vector<Real> expected = forward(*model, tokens, 1);
  // States are not rounded.
  const bool rounds = rounds_rows(model->plan());
  for (const auto& [type, tolerance] : rounding_types(3.1, 7.5)) {
    const DecodeOptions options{1, type, {}};
    const std::vector<Real> one_by_one = decode(*model, tokens, options, std::vector<Index>(20, 1));
    if (!picks(*model)) expect_equal(one_by_one, expected, rounds ? tolerance : kDecodingTolerance);
    EXPECT_TRUE(!rounds || one_by_one != expected);
    expect_equal(decode(*model, tokens, options, {13, 1, 1, 5}), one_by_one,
                 rounds ? prefill_tolerance(tolerance) : kDecodingTolerance);
  }
}

std::vector<std::string> names_with_scores() {
  std::vector<std::string> names;
  for (const AttentionKind* kind : kinds_with_scores()) names.emplace_back(kind->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Every, Decoding, testing::ValuesIn(and_patterns(kind_names())), test_name);
INSTANTIATE_TEST_SUITE_P(Every, DecodingInDouble, only(kDouble, and_patterns(kind_names())),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Every, DecodingOfKinds, only(kDouble, kind_names()), test_name);
INSTANTIATE_TEST_SUITE_P(Every, DecodingWithScores,
                         only(kDouble, and_patterns(names_with_scores())), test_name);

}  // namespace
}  // namespace headcount::decoding
