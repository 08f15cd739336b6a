// What heads look at, for every attention that has scores.
#include "models/tools/attention_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/decoding.h"
#include "nn/attention/kinds_with_scores.h"

namespace headcount::decoding {
namespace {

constexpr double kTolerance = kDouble ? 1e-9 : 1e-4;  // sums of 24 terms

LanguageModel model_of(std::string_view attention, Index layers = 2, const char* gate = "off") {
  const nlohmann::json settings = {{"dim", 16},    {"context", 24},          {"heads", 4},
                                   {"gate", gate}, {"attention", attention}, {"layers", layers}};
  LanguageModel model(resolve_model(Given(model_settings(), settings)), kVocabulary);
  model.initialize(5);
  // Large enough for heads to look somewhere.
  for (Real& x : model.parameters().all_values()) x *= 4;
  return model;
}

// Rows of weights of every layer that has scores, different ones in different layers.
void expect_maps(const LanguageModel& model, Index length) {
  const ModelPlan& plan = model.plan();
  SCOPED_TRACE(plan->attention);
  const auto maps = attention_maps(model, some_tokens(length));
  ASSERT_EQ(std::ssize(maps), plan->layers);
  for (std::size_t layer = 0; layer < maps.size(); ++layer) {
    const AttentionPlan& attention = plan->layer_attention(static_cast<Index>(layer));
    ASSERT_EQ(maps[layer].size(), attention.kind().attends ? 4u : 0u);
    for (const HeadMap& head : maps[layer]) {
      ASSERT_EQ(head.length, length);
      for (Index t = 0; t < length; ++t) {
        const std::span<const Real> row = head.row(t);
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, kTolerance);
        for (Index s = 0; s < length; ++s) {
          if (s > t ||
              (attention.window > 0 && !pools(attention.kind()) && s <= t - attention.window)) {
            EXPECT_EQ(row[static_cast<std::size_t>(s)], Real{0});
          }
        }
      }
    }
    if (layer > 0 && !maps[layer].empty() && !maps[layer - 1].empty()) {
      EXPECT_NE(maps[layer - 1][0].weights, maps[layer][0].weights);
    }
  }
}

TEST(AttentionMaps, ShareOutEachTokensWeightInEveryLayerWithScores) {
  for (const AttentionKind* kind : attention_kinds()) {
    for (const char* const gate : {"off", "on"}) expect_maps(model_of(kind->name, 2, gate), 19);
  }
  expect_maps(model_of("gqa2@5/gqa2"), 20);
  expect_maps(model_of("delta/mqa"), 20);
  expect_maps(model_of("mqa/share/mla8+4/share", 4), 20);
}

// An exact cache gives the maps of a text; one that rounds gives others.
TEST(AttentionMaps, AreThoseOfTheCacheTheyAreReadThrough) {
  for (const AttentionKind* kind : kinds_with_scores()) {
    SCOPED_TRACE(kind->name);
    const LanguageModel model = model_of(kind->name);
    const std::vector<std::int32_t> tokens = some_tokens(20);
    const auto change = [&](CacheRounding rounding, bool rotated) {
      rounding.all.rotated = rotated;
      const auto exact = attention_maps(model, tokens),
                 rounded = attention_maps(model, tokens, rounding);
      double most = 0;
      for (std::size_t layer = 0; layer < exact.size(); ++layer) {
        for (std::size_t head = 0; head < exact[layer].size(); ++head)
          most =
              std::max(most, difference(exact[layer][head].weights, rounded[layer][head].weights));
      }
      return most;
    };
    EXPECT_LT(change({}, false), kTolerance);
    EXPECT_LT(change({}, true), kTolerance);
    EXPECT_GT(change(CacheType::int2, false), 100 * kTolerance);
  }
}

TEST(AttentionMap, OfAHeadWithASinkHasItsEntropyToo) {
  const HeadMap without{2, {1, 0, Real{0.5}, Real{0.5}}};
  EXPECT_NEAR(without.entropy(0), 0, 1e-12);
  EXPECT_NEAR(without.entropy(1), std::log(2.0), 1e-12);
  const HeadMap with{2, {Real{0.5}, 0, Real{0.25}, Real{0.25}}, true};
  EXPECT_NEAR(with.entropy(0), std::log(2.0), 1e-12);
  EXPECT_NEAR(with.entropy(1), 1.5 * std::log(2.0), 1e-12);
}

}  // namespace
}  // namespace headcount::decoding
