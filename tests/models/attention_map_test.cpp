// What heads look at, for every attention that has scores.
#include "models/attention_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/kinds_with_scores.h"
#include "nn/layer_config.h"
#include "train/evaluation.h"

namespace headcount {
namespace {

constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-4;  // sums of 24 terms

LanguageModel model_of(const std::string& attention, Index layers, bool gate = false) {
  Given config(model_settings());
  set(config, "dim", 16);
  set(config, "context", 24);
  set(config, "heads", 4);
  set(config, "gate", gate);
  set(config, "attention", attention);
  set(config, "layers", layers);
  LanguageModel model(resolve_model(config), 7);
  model.initialize(5);
  // Large enough for heads to look somewhere.
  for (Real& x : model.parameters().all_values()) x *= 4;
  return model;
}

std::vector<std::int32_t> tokens_to_map(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i * i * 5 % 7);
  return tokens;
}

void expect_rows_of_weights(const std::vector<HeadMap>& heads, Index length, Index window) {
  ASSERT_EQ(heads.size(), 4u);
  for (const HeadMap& head : heads) {
    ASSERT_EQ(head.length, length);
    for (Index t = 0; t < length; ++t) {
      const std::span<const Real> row = head.row(t);
      EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, kTolerance);
      for (Index s = 0; s < length; ++s) {
        if (s > t || (window > 0 && s <= t - window)) {
          EXPECT_EQ(row[static_cast<std::size_t>(s)], Real{0});
        }
      }
      EXPECT_GE(head.entropy(t), 0);
      EXPECT_LE(head.entropy(t), std::log(static_cast<double>(t + 1)) + kTolerance);
    }
  }
}

// An exact cache gives the maps of a text; one that rounds gives others.
TEST(AttentionMaps, AreThoseOfTheCacheTheyAreReadThrough) {
  for (const AttentionKind* kind : kinds_with_scores()) {
    SCOPED_TRACE(kind->name);
    const LanguageModel model = model_of(std::string(kind->name), 2);
    const std::vector<std::int32_t> tokens = tokens_to_map(20);
    const auto change = [&](CacheRounding rounding, bool rotated) {
      rounding.all.rotated = rotated;
      double most = 0;
      const auto exact = attention_maps(model, tokens),
                 rounded = attention_maps(model, tokens, rounding);
      for (std::size_t layer = 0; layer < exact.size(); ++layer) {
        for (std::size_t head = 0; head < exact[layer].size(); ++head) {
          const std::vector<Real>&one = exact[layer][head].weights,
                &other = rounded[layer][head].weights;
          EXPECT_EQ(one.size(), other.size());
          for (std::size_t i = 0; i < one.size(); ++i)
            most = std::max(most, std::abs(static_cast<double>(one[i] - other[i])));
        }
      }
      return most;
    };
    EXPECT_LT(change({}, false), kTolerance);
    EXPECT_LT(change({}, true), kTolerance);
    EXPECT_GT(change(CacheType::int2, false), 100 * kTolerance);
  }
}

TEST(AttentionMaps, ShareOutEachTokensWeightForEveryKindWithScores) {
  for (const AttentionKind* kind : kinds_with_scores()) {
    for (const bool gate : {false, true}) {
      SCOPED_TRACE(kind->name);
      const auto maps =
          attention_maps(model_of(std::string(kind->name), 2, gate), tokens_to_map(19));
      ASSERT_EQ(maps.size(), 2u);
      for (const auto& heads : maps) expect_rows_of_weights(heads, 19, 0);
      EXPECT_NE(maps[0][0].weights, maps[1][0].weights);
    }
  }
}

TEST(AttentionMaps, HaveTheirEntropyFromTheSameWeightsAsEvaluation) {
  for (const AttentionKind* kind : kinds_with_scores()) {
    if (pools(*kind)) continue;  // a map divides the weight of a row among its tokens
    const LanguageModel model = model_of(std::string(kind->name), 2);
    const std::vector<std::int32_t> tokens = tokens_to_map(25);  // one window and its last target
    double sum = 0;
    Index rows = 0;
    for (const auto& heads : attention_maps(model, std::span(tokens).first(24))) {
      for (const HeadMap& head : heads) {
        for (Index t = 0; t < 24; ++t) sum += head.entropy(t);
        rows += 24;
      }
    }
    const Evaluation evaluation = evaluate(model, tokens, {.attention_stats = true});
    EXPECT_NEAR(sum / static_cast<double>(rows), evaluation.attention_entropy.value(), kTolerance)
        << kind->name;
  }
}

TEST(AttentionMaps, SeeNoMoreThanAWindow) {
  const auto maps = attention_maps(model_of("gqa2@5/gqa2", 2), tokens_to_map(20));
  expect_rows_of_weights(maps[0], 20, 5);
  expect_rows_of_weights(maps[1], 20, 0);
}

TEST(AttentionMaps, AreOfTheirOwnLayerWhereLayersShare) {
  const auto maps = attention_maps(model_of("mqa/share/mla8+4/share", 4), tokens_to_map(20));
  ASSERT_EQ(maps.size(), 4u);
  for (const auto& heads : maps) expect_rows_of_weights(heads, 20, 0);
  EXPECT_NE(maps[0][0].weights, maps[1][0].weights);
  EXPECT_NE(maps[2][0].weights, maps[3][0].weights);
}

TEST(AttentionMaps, AreNotThereWithoutScores) {
  for (const AttentionKind* kind : kinds_with_scores(false)) {
    const auto maps =
        attention_maps(model_of(std::string(kind->name) + "/mqa", 2), tokens_to_map(9));
    EXPECT_TRUE(maps[0].empty()) << kind->name;
    EXPECT_EQ(maps[1].size(), 4u);
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
}  // namespace headcount
