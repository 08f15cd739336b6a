// programs: models in_double
// Decoding with a cache equals the forward pass over the whole text, in every option.
#include "models/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "models/decoding.h"
#include "nn/attention/variants.h"

namespace headcount::decoding {
namespace {

class DecodingInDouble : public Decoding {};
class DecodingOfKinds : public Decoding {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingInDouble);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DecodingOfKinds);

void expect_decoding_equals_forward(const Given& config, const FormOfKind& forms = {}) {
  const auto model = make_model(config);
  const Index context = model->plan()->context;
  const std::vector<std::int32_t> tokens = some_tokens(3 * context);
  for (const Index sequences : {1, 3}) {
    const auto text = std::span(tokens).first(static_cast<std::size_t>(sequences * context));
    const std::vector<Real> expected = forward(*model, text, sequences);
    for (const std::vector<Index>& pieces :
         {std::vector<Index>(20, 1), {13, 1, 1, 1, 1, 1, 1, 1}, {1, 6, 1, 12}, {20}})
      EXPECT_LE(
          difference(decode(*model, text, {sequences, CacheType::real, forms}, pieces), expected),
          kDecodingTolerance);
  }
}

TEST_P(Decoding, EqualsForwardWithRotaryLearnedAndNoPositions) {
  for (const char* positions : {"rope", "learned", "none"}) {
    Given config = decoder_config(GetParam());
    // Without positions, equal tokens of two blocks have equal scores, and rounding picks a block.
    const bool ties = GetParam().starts_with("bsa") && positions == std::string_view("none");
    set(config, "positions", ties ? "learned" : positions);
    expect_decoding_equals_forward(config);
  }
}

TEST_P(DecodingInDouble, EqualsForwardWithEachSettingOfItsLayers) {
  const auto without_scores = kinds_with_scores(false);
  const bool scores = !std::ranges::count(without_scores, GetParam(), &AttentionKind::name);
  // 1e200: scores are rounded by more than exp takes.
  for (const nlohmann::json& settings : nlohmann::json::parse(R"([
           {"bias": "on", "norm": "layer", "activation": "gelu", "tie-embeddings": "on"},
           {"window": 1}, {"window": 5}, {"window": 19}, {"window": 20},
           {"score-scale": "none"}, {"score-scale": "qk-norm"}, {"score-scale": "row-norm"},
           {"score-scale": "length"}, {"score-scale": "0.7"}, {"score-scale": "1e200"}])")) {
    if (!scores && !settings.contains("bias")) continue;
    SCOPED_TRACE(settings.dump());
    Given config = decoder_config(GetParam());
    config.put(settings);
    expect_decoding_equals_forward(config);
  }
}

TEST_P(DecodingInDouble, OfRepeatedSequencesSharesOnePrefill) {
  const auto model = make_model(decoder_config(GetParam()));
  Decoder one(*model, {});
  one.feed(some_tokens(12));
  Decoder three = one.repeat(3);
  EXPECT_EQ(three.length(), 12);
  const auto first = one.feed(std::vector<std::int32_t>{5});
  const auto all = three.feed(std::vector<std::int32_t>{5, 5, 5});
  for (std::size_t b = 0; b < 3; ++b) {
    EXPECT_LE(difference(all.subspan(b * kVocabulary, kVocabulary), first), kDecodingTolerance);
  }
}

// Three chunks of each of two texts, of which the last is the longest and of an odd length.
// Products of Eigen, in double, have the same bits for any number of rows. The logits of
// fox2@6/share differ in their last bits.
void expect_chunks_equal_all_at_once(const std::string& attention,
                                     std::initializer_list<CacheType> types) {
  constexpr Index kLength = 3 * kPrefillChunk + 69, kSequences = 2;
  Given config = decoder_config(attention);
  set(config, "context", kLength);
  const auto model = make_model(config);
  const bool same_bits = kDouble && attention != "fox2@6/share";
  const std::vector<std::int32_t> tokens = some_tokens(kSequences * kLength);
  for (const CacheType type : types) {
    Decoder decoder(*model, {kSequences, type, {}});
    Tape tape(std::as_const(*model).parameters());
    std::vector<LayerCache> caches = make_caches(model->plan(), {kSequences, kLength, type, {}});
    const auto at_once = model->decode(tape, tokens, kSequences, caches).value();
    EXPECT_LE(difference(decoder.feed(tokens), at_once), same_bits ? 0 : kDecodingTolerance)
        << attention;
  }
}

TEST_P(DecodingInDouble, OfManyTokensInChunksGivesTheLogitsOfAllAtOnce) {
  expect_chunks_equal_all_at_once(GetParam(), {CacheType::real, CacheType::int8});
}

// In float the products are others. A sum may be rounded to another number of int8.
TEST(DecodingInChunks, GivesTheLogitsOfAllAtOnceInFloat) {
  for (const char* attention : {"mha", "mla", "delta", "mqa@4/share/mla8+2@9"})
    expect_chunks_equal_all_at_once(attention, {CacheType::real});
}

// A layer that shares has queries of its own for the indexer's rows.
TEST(DecodingOfPickedRows, EqualsForwardWhereLayersShare) {
  for (const char* attention :
       {"csa3+2@4/share/csa2+1", "csa2+3/share@0/csa4+1@3/share@3",
        "dsa8+2:index-topk=3/share/mqa/share",
        "dsa:index-topk=4@9/dsa:index-topk=1/share@9/share@0",
        "bsa1+2:index-block=3/share/bsa2+2:index-block=4@9/share@9",
        "bsa2+2:index-block=3:index-choice=kv-head/share", "dsa:index-topk=3/2*share-index/share",
        "dsa:index-topk=3@9/share-index/share/mqa/share-index",
        "bsa2+2:index-block=3:index-choice=kv-head/share-index",
        "csa3+2@4/share-index/share-pooled/share-pooled-index/share"}) {
    SCOPED_TRACE(attention);
    expect_decoding_equals_forward(decoder_config(attention));
  }
}

TEST(FormsOfDecoding, AreThoseOfTheLayersThatHaveThem) {
  for (const std::string form : {"expanded", "absorbed"}) {
    expect_decoding_equals_forward(decoder_config("mla/share/mqa@6"), {{"mla", form}});
    const auto model = make_model(decoder_config("mla/tpa"));
    const Decoder decoder(*model, {1, CacheType::real, {{"mla", form}}});
    EXPECT_EQ(decoder.caches()[0].form(), form);
    EXPECT_EQ(decoder.caches()[1].form(), "");
  }
  Given not_linear = decoder_config("mla");  // in the keys
  set(not_linear, "score-scale", "qk-norm");
  for (const Given& config : {decoder_config("gqa2/mqa"), not_linear}) {
    const auto model = make_model(config);
    const std::string kind = config.values()["attention"] == "mla" ? "mla" : "gqa";
    EXPECT_THROW(Decoder(*model, {1, CacheType::real, {{kind, "absorbed"}}}), ShapeError);
  }
}

// Values of the settings of a kind's layers: those of gradients, and more for texts of 20 tokens.
Variants decoding_variants(const std::string& attention) {
  Variants own = variants(attention_kind(attention));
  for (const char* const no_setting : {"causal", "padding", "dropout"}) own.erase(no_setting);
  for (const auto& [name, value] : {std::pair{"window", "5"},
                                    {"window", "11"},
                                    {"compress", "6"},
                                    {"compress", "21"},
                                    {"index-topk", "5"},
                                    {"index-block", "6"},
                                    {"positions", "learned"}})
    if (own.contains(name)) own[name].emplace_back(value);
  own.try_emplace("canon", std::vector<std::string>{"off", "ACD"});
  return own;
}

// A model with random values of all settings, as far as they go together.
Given config_with_combination(const std::string& attention, std::uint32_t combination) {
  Given config = decoder_config(attention);
  const RandomKey key{4, random_stream(attention), combination};
  std::uint64_t index = 0;
  for (const auto& [name, values] : decoding_variants(attention))
    config.put(name, values[random_below(key, index++, values.size())]);
  reconcile(config);
  // Without positions, equal tokens have equal scores of an indexer, and rounding picks one.
  if (config.has("index-topk") && (config.has("index-block") || config.text("canon") != "off"))
    config.put("positions", "learned");
  try {
    resolve_model(config);
  } catch (const ShapeError&) {  // heads that do not fill the width
    config.put("output-projection", "on");
  }
  return config;
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

// Returns true if a cache of another type than Real rounds rows of the model: states are not.
bool rounds_rows(const ModelPlan& model) {
  return kv_cache_bytes(model, 1, CacheType::bf16) != kv_cache_bytes(model, 1);
}

// Returns true if an indexer leaves out some rows. With a cache that rounds, it may pick others.
bool picks(const ModelPlan& model) {
  return std::ranges::any_of(model->cycle, [&](const AttentionPlan& attention) {
    const auto& values = attention.values();
    if (!values.contains("index-topk")) return false;
    const auto whole = [&](const char* name) { return values.at(name).get<Index>(); };
    const Index rows = values.contains("compress") ? model->context / whole("compress")
                       : values.contains("index-block")
                           ? (model->context - 1) / whole("index-block") + 1
                           : attention.cached_tokens(model->context);
    return rows > values.at("index-topk");
  });
}

// Prefill reads the rounded rows that decoding token by token reads. Products of several tokens
// group sums in another way, though. In float a number between two that a cache can hold may then
// be rounded to the other one, which is as far as rounding moves it at all. In double, sums differ
// by so little that no number of these models is.
void expect_little_change(const LanguageModel& model, double of_number, double of_row) {
  const std::vector<std::int32_t> tokens = some_tokens(20);
  const std::vector<Real> expected = forward(model, tokens, 1);
  const bool rounds = rounds_rows(model.plan());
  for (const auto& [type, most] : rounding_types(of_number, of_row)) {
    const double tolerance = rounds ? most : kDecodingTolerance;
    const std::vector<Real> one_by_one =
        decode(model, tokens, {1, type, {}}, std::vector<Index>(20, 1));
    if (!picks(model.plan())) {
      EXPECT_LE(difference(one_by_one, expected), tolerance);
    }
    EXPECT_TRUE(!rounds || one_by_one != expected);
    EXPECT_LE(difference(decode(model, tokens, {1, type, {}}, {13, 1, 1, 5}), one_by_one),
              kDouble ? kDecodingTolerance : tolerance);
  }
}

void expect_every_form_equals_forward(const Given& config, const std::string& kind) {
  for (const std::string_view form : attention_forms(resolve_model(config)->cycle.front()))
    expect_decoding_equals_forward(config, {{kind, std::string(form)}});
}

TEST_P(DecodingOfKinds, EqualsForwardWithEachOptionInEveryFormAndTypeOfCache) {
  for (const auto& [name, values] : decoding_variants(GetParam())) {
    for (const std::string& value : values) {
      SCOPED_TRACE(name + " " + value);
      Given config = decoder_config(GetParam());
      config.put(name, value);
      expect_every_form_equals_forward(config, GetParam());
      expect_little_change(*make_model(config), 4.1, 10.5);
    }
  }
}

// A rotated cache that rounds nothing gives the same logits, in every form; one that rounds gives
// those of tokens one by one to a prefill, too.
TEST_P(DecodingOfKinds, EqualsForwardWithCombinationsOfOptionsAndThroughRotatedRowsOfEachType) {
  const std::vector<std::int32_t> tokens = some_tokens(20);
  int rotated = 0;
  for (std::uint32_t combination = 0; combination < 30; ++combination) {
    const Given config = config_with_combination(GetParam(), combination);
    SCOPED_TRACE(config.values().dump());
    expect_every_form_equals_forward(config, GetParam());
    const auto model = make_model(config);
    CacheRounding rounding;
    rounding.all.rotated = true;
    try {
      make_caches(model->plan(), {.capacity = 20, .rounding = rounding});
    } catch (const ShapeError&) {
      continue;  // rows of an odd number of numbers
    }
    ++rotated;
    for (const std::string_view form : attention_forms(model->plan()->cycle.front()))
      EXPECT_LE(difference(decode(*model, tokens, {1, rounding, {{GetParam(), std::string(form)}}},
                                  {13, 1, 1, 5}),
                           forward(*model, tokens)),
                kDecodingTolerance);
    for (const CacheTypeRow& type : cache_types()) {
      rounding.all.type = type.type;
      for (const CacheLevels levels : {CacheLevels::uniform, CacheLevels::normal}) {
        rounding.all.levels = levels;
        if (levels == CacheLevels::normal && !type.has_levels) continue;
        SCOPED_TRACE(type.name);
        EXPECT_LE(difference(decode(*model, tokens, {1, rounding, {}}, {13, 1, 1, 5}),
                             decode(*model, tokens, {1, rounding, {}}, std::vector<Index>(20, 1))),
                  kDecodingTolerance);
      }
    }
  }
  EXPECT_GT(rotated, 0);
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
  EXPECT_LE(difference(logits(rounding), of_pooled.parts.empty() ? expected : logits(of_pooled)),
            kDecodingTolerance);
  rounding.all.recent = 2;
  if (rounds_rows(model->plan())) {
    EXPECT_NE(logits(rounding), expected);
  }
}

TEST_P(Decoding, OfHalvesAndBytesChangesLogitsLittleMoreThanRowsAreRounded) {
  expect_little_change(*make_model(decoder_config(GetParam())), 3.1, 7.5);
}

std::vector<std::string> in_double(const std::vector<std::string>& attentions) {
  return kDouble ? attentions : std::vector<std::string>();
}
INSTANTIATE_TEST_SUITE_P(Every, Decoding, testing::ValuesIn(and_patterns(kind_names())));
INSTANTIATE_TEST_SUITE_P(Every, DecodingInDouble,
                         testing::ValuesIn(in_double(and_patterns(kind_names()))));
// An indexer that picks among rows of a window.
INSTANTIATE_TEST_SUITE_P(Picked, DecodingInDouble,
                         testing::ValuesIn(in_double({"dsa:index-topk=3@70/share"})));
INSTANTIATE_TEST_SUITE_P(Every, DecodingOfKinds, testing::ValuesIn(in_double(kind_names())));

}  // namespace
}  // namespace headcount::decoding
