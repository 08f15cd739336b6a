// programs: models in_double
// label: unsanitized
// What decoding allocates, how long texts are cut, and where it ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "models/decoding.h"

namespace headcount::decoding {
namespace {

bool takes_a_window(const std::string& attention) {
  return has_scores(parse_attention_spec(attention).cycle);
}

TEST_P(DecodingInFloat, AllocatesWhatTheCostFormulaSays) {
  for (const auto& [window, canon] :
       {std::pair<Index, std::string>{0, "off"}, {7, "off"}, {0, "ACD"}}) {
    Given config = decoder_config(GetParam());
    if (window > 0 && !takes_a_window(GetParam())) continue;
    set(config, "window", window);
    set(config, "canon", canon);
    const auto model = make_model(config);
    for (const CacheTypeRow& type : cache_types()) {
      CacheRounding rounding(type.type);
      for (const Index recent : {0, 3, 1000}) {
        rounding.all.recent = recent;
        const Decoder decoder(*model, {3, rounding, {}});
        const Count bytes = kv_cache_bytes(model->plan(), model->plan()->context, rounding);
        EXPECT_EQ(decoder.cache_bytes(), 3 * bytes.value()) << type.name;
      }
    }
  }
}

// Three chunks of each of two texts, of which the last is the longest and of an odd length.
// Products of Eigen, in double, have the same bits for any number of rows.
TEST_P(DecodingInChunks, OfManyTokensGiveTheLogitsOfAllAtOnce) {
  constexpr Index kLength = 3 * kPrefillChunk + 69, kSequences = 2;
  Given config = decoder_config(GetParam());
  set(config, "context", kLength);
  const auto model = make_model(config);
  const std::vector<std::int32_t> tokens = some_tokens(kSequences * kLength);
  for (const CacheType type : {CacheType::real, CacheType::int8}) {
    if (!kDouble && type == CacheType::int8) continue;  // a sum may be rounded to another number
    Decoder decoder(*model, {kSequences, type, {}});
    Tape tape(std::as_const(*model).parameters());
    std::vector<LayerCache> caches = model->make_caches({kSequences, kLength, type, {}});
    const auto at_once = model->decode(tape, tokens, kSequences, caches).value();
    expect_equal(decoder.feed(tokens), at_once, kDouble ? 0 : kDecodingTolerance);
  }
}

std::vector<std::string> attentions_in_chunks() {
  std::vector<std::string> names = {"mha", "mla", "delta", "mqa@4/share/mla8+2@9"};
  if (!kDouble) return names;
  names = kind_names();
  for (const char* pattern : {"mqa/share", "mla/2*share/gqa2", "3*delta/gqa2", "2*mqax4@3/mha",
                              "mqa@4/share/mla8+2@9", "dsa:index-topk=3@70/share"})
    names.emplace_back(pattern);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Every, DecodingInChunks, testing::ValuesIn(attentions_in_chunks()),
                         test_name);

// Numbers that a layer of MLA or DSA expands of all tokens, where it has many queries; others read
// what they keep in tiles.
Index expanded_numbers(const ModelPlan& plan) {
  Index numbers = 0;
  for (const AttentionPlan& attention : plan->cycle) {
    if (attention.kind().name == "mla" || attention.kind().name == "dsa") {
      const Index expanded =
          attention.heads * (attention.whole("nope-dim") + attention.whole("v-dim"));
      numbers = std::max(numbers, 2 * attention.whole("kv-rank") + expanded);
    }
  }
  return numbers;
}

TEST_P(MemoryOfDecoding, OfManyTokensIsThatOfAChunk) {
  constexpr Index kShort = 2 * kPrefillChunk, kLong = 4 * kPrefillChunk;
  Given config = decoder_config(GetParam());
  set(config, "context", kLong);
  const auto model = make_model(config);
  const Index expanded = (kLong - kShort) * expanded_numbers(model->plan());
  for (const CacheType type : {CacheType::real, CacheType::int8}) {
    std::vector<std::size_t> bytes;
    for (const Index length : {kShort, kLong}) {
      Decoder decoder(*model, {1, type, {}});
      decoder.feed(some_tokens(length));
      bytes.push_back(decoder.working_bytes());
    }
    // An arena grows by half of what it holds; memory that grew as the text does would be doubled.
    const std::size_t needed = bytes[0] + static_cast<std::size_t>(expanded) * sizeof(Real);
    EXPECT_LE(bytes[1], needed * 3 / 2) << static_cast<int>(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, MemoryOfDecoding, only(!kDouble, kind_names()), test_name);

TEST(FailedDecoding, ForgetsAllTokens) {
  for (const char* const attention : {"gqa2@5/mha", "delta/mha"}) {
    const auto model = make_model(decoder_config(attention));
    const std::vector<std::int32_t> tokens = some_tokens(4);
    Decoder decoder(*model, {});
    const std::vector<Real> expected = copy(decoder.feed(tokens));
    const auto broken = model->parameters().find("model.layers.1.self_attn.q_proj.weight");
    Real& weight = model->parameters().value(broken).front();
    const Real right = std::exchange(weight, std::numeric_limits<Real>::infinity());
    EXPECT_THROW(decoder.feed(tokens), NonFiniteError);
    for (const LayerCache& cache : decoder.caches()) EXPECT_EQ(cache.length(), 0);
    weight = right;
    EXPECT_TRUE(std::ranges::equal(decoder.feed(tokens), expected)) << attention;
  }
}

TEST_P(DecodingInFloat, AllocatesNothingPerTokenAndTakesNoneThatEndBeyondTheContext) {
  for (const Index window : {0, 4}) {
    if (window > 0 && !takes_a_window(GetParam())) continue;
    Given config = decoder_config(GetParam());
    set(config, "window", window);
    const auto model = make_model(config);
    Decoder decoder(*model, {});
    decoder.feed(some_tokens(10));
    decoder.feed(some_tokens(1));
    const std::size_t before = decoder.heap_allocations();
    for (int i = 0; i < 7; ++i) decoder.feed(some_tokens(1));
    EXPECT_EQ(decoder.heap_allocations(), before) << window;
    EXPECT_THROW(decoder.feed(some_tokens(3)), ShapeError);
    EXPECT_EQ(decoder.length(), 18) << window;
    decoder.feed(some_tokens(2));
    EXPECT_THROW(decoder.feed(some_tokens(1)), ShapeError);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DecodingInFloat, only(!kDouble, and_patterns(kind_names())),
                         test_name);

}  // namespace
}  // namespace headcount::decoding
