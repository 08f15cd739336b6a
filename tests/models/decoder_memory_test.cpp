// label: unsanitized
// What decoding allocates, and where it ends.
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

class MemoryOfDecoding : public Decoding {};

TEST_P(MemoryOfDecoding, IsWhatTheCostFormulaSays) {
  for (const auto& [window, canon] :
       {std::pair<Index, std::string>{0, "off"}, {7, "off"}, {0, "ACD"}}) {
    Given config = decoder_config(GetParam());
    if (window > 0 && !takes_a_window(GetParam())) continue;
    set(config, "window", window);
    set(config, "canon", canon);
    const auto model = make_model(config);
    for (const CacheTypeRow& type : cache_types()) {
      CacheRounding rounding(type.type);
      rounding.layers[1] = CacheType::bf16;
      for (const Index recent : {0, 3, 1000}) {
        rounding.all.recent = recent;
        const Decoder decoder(*model, {3, rounding, {}});
        const Count bytes = kv_cache_bytes(model->plan(), model->plan()->context, rounding);
        EXPECT_EQ(decoder.cache_bytes(), 3 * bytes.value()) << type.name;
      }
    }
  }
}

TEST_P(MemoryOfDecoding, OfManyTokensIsThatOfAChunk) {
  constexpr Index kShort = 2 * kPrefillChunk, kLong = 4 * kPrefillChunk;
  Given config = decoder_config(GetParam());
  set(config, "context", kLong);
  const auto model = make_model(config);
  for (const CacheType type : {CacheType::real, CacheType::int8}) {
    std::vector<std::size_t> bytes;
    for (const Index length : {kShort, kLong}) {
      Decoder decoder(*model, {1, type, {}});
      decoder.feed(some_tokens(length));
      bytes.push_back(decoder.working_bytes());
    }
    // Memory that grew as the text does would be doubled; that for the keys and values of all
    // tokens, which MLA and DSA expand, is a part of it.
    const bool expands =
        GetParam().find("mla") != std::string::npos || GetParam().find("dsa") != std::string::npos;
    EXPECT_LE(bytes[1], expands ? bytes[0] * 7 / 4 : bytes[0] * 3 / 2) << static_cast<int>(type);
  }
}

// Decoding forgets the values of each layer after it.
TEST(MemoryOfLayers, OfManyIsThatOfAFew) {
  std::vector<std::size_t> bytes;
  for (const Index layers : {3, 12}) {
    Given config = decoder_config("mha");
    set(config, "layers", layers);
    const auto model = make_model(config);
    Decoder decoder(*model, {});
    decoder.feed(some_tokens(20));
    bytes.push_back(decoder.working_bytes());
  }
  EXPECT_LE(bytes[1], bytes[0] * 3 / 2);
}

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

// Layers of states before one whose rows of recent tokens come one by one: no state moves.
TEST(FailedDecoding, LeavesTheCachesAsTheyWereIfNoLayerHasBegun) {
  const auto model = make_model(decoder_config("delta/mqa"));
  CacheRounding rounding(CacheType::int8);
  rounding.all.recent = 2;
  std::vector<LayerCache> caches =
      make_caches(model->plan(), {.capacity = 20, .rounding = rounding});
  Tape tape(std::as_const(*model).parameters());
  const auto decode = [&](const std::vector<std::int32_t>& tokens) {
    tape.reset();
    return copy(model->decode(tape, tokens, 1, caches).value());
  };
  decode({3});
  EXPECT_THROW(decode({4, 5}), ShapeError);
  EXPECT_THROW(decode({kVocabulary}), ShapeError);
  for (const LayerCache& cache : caches) EXPECT_EQ(cache.length(), 1);
  Decoder undisturbed(*model, {1, rounding, {}});
  undisturbed.feed(std::vector<std::int32_t>{3});
  EXPECT_EQ(decode({4}), copy(undisturbed.feed(std::vector<std::int32_t>{4})));
}

// Whatever a layer throws after another one has moved its state.
TEST(FailedDecoding, ForgetsAllTokensAfterAnyErrorOfALayer) {
  const auto model = make_model(decoder_config("delta/mqa"));
  const CacheOptions options = {.capacity = 20};
  std::vector<LayerCache> caches = make_caches(model->plan(), options);
  caches[1] = std::move(make_caches(make_model(decoder_config("mla"))->plan(), options)[1]);
  Tape tape(std::as_const(*model).parameters());
  EXPECT_THROW(model->decode(tape, some_tokens(1), 1, caches), ShapeError);
  caches[1] = std::move(make_caches(model->plan(), options)[1]);
  caches[1].set_length(caches[0].length());
  tape.reset();
  EXPECT_EQ(copy(model->decode(tape, some_tokens(1), 1, caches).value()),
            copy(Decoder(*model, {}).feed(some_tokens(1))));
}

TEST_P(MemoryOfDecoding, AllocatesNothingPerTokenAndTakesNoneThatEndBeyondTheContext) {
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

INSTANTIATE_TEST_SUITE_P(Every, MemoryOfDecoding, testing::ValuesIn(and_patterns(kind_names())));

}  // namespace
}  // namespace headcount::decoding
