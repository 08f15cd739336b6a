// The ways to scale scores before the softmax.
#include <gtest/gtest.h>

#include "nn/test_layer.h"

namespace headcount {
namespace {

TEST(ScoreScaling, OfANumberReplacesTheInverseSquareRootAndThatOfTheLength) {
  LayerConfig config = small_config("mha");
  const Values x = normal_values(0, 9 * 12);
  const Values y = Layer(config).forward(x, 1);
  set(config, "score-scale", "0.5");  // 1 / sqrt(4)
  EXPECT_EQ(Layer(config).forward(x, 1), y);
  set(config, "score-scale", "0.6");
  EXPECT_NE(Layer(config).forward(x, 1), y);
  set(config, "score-scale", "none");
  const Values unscaled = Layer(config).forward(x, 1);
  set(config, "score-scale", "1");
  EXPECT_EQ(Layer(config).forward(x, 1), unscaled);
  config.causal = false;
  set(config, "score-scale", "length");
  const Values by_length = Layer(config).forward(x, 1);
  // 1 / (sqrt(4) sqrt(9))
  set(config, "score-scale", ScoreScale{ScoreScale::Kind::number, 0.5 / 3}.text());
  EXPECT_LT(difference(Layer(config).forward(x, 1), by_length), kRounding);
}

// Two tokens x and -x, no positions, and keys that equal the queries: scores are the cosines 1 and
// -1, so the first output is (e - 1/e) / (e + 1/e) times the first value.
TEST(ScoreScaling, ByQkNormMakesScoresCosines) {
  for (const std::string_view kind : {"mha", "latent-bias"}) {
    LayerConfig config = small_config(kind);
    config.rotary = config.causal = false;
    set(config, "output-projection", false);
    set(config, "score-scale", "qk-norm");
    Layer layer(config);
    std::ranges::copy(layer.weight("q_proj.weight"), layer.weight("k_proj.weight").begin());
    Values x = normal_values(0, 12);
    const std::span<const Real> v_proj = layer.weight("v_proj.weight");
    Values expected;
    for (std::size_t row = 0; row < 8; ++row) {
      double v = 0;
      for (std::size_t i = 0; i < 12; ++i) v += static_cast<double>(v_proj[row * 12 + i] * x[i]);
      expected.push_back(static_cast<Real>(std::tanh(1.0) * v));
    }
    for (std::size_t i = 0; i < 12; ++i) x.push_back(-x[i]);
    Values y = layer.forward(x, 1);
    y.resize(8);
    EXPECT_LT(difference(expected, y), kRounding) << kind;
  }
}

struct Matrix {
  std::string name;
  Index rows;
};

std::vector<Matrix> matrices(const Layer& layer) {
  std::vector<Matrix> all;
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    const std::string name = layer.store.name({i});
    const Shape& shape = layer.store.shape({i});
    if (shape.rank() == 2) all.push_back({name.substr(2, name.rfind('.') - 2), shape[0]});
  }
  return all;
}

TEST(ScoreScaling, ByNormsDoesNotDependOnTheLengthOfQueries) {
  for (const char* const scale : {"qk-norm", "row-norm"}) {
    for (const AttentionKind* kind : attention_kinds()) {
      // Queries of latent-bias are partly z; a recurrent state has no scores.
      if (kind->name == "latent-bias" || !kind->attends) continue;
      LayerConfig config = small_config(kind->name);
      set(config, "score-scale", scale);
      Layer layer(config);
      const Values x = normal_values(0, 9 * 12);
      const Values y = layer.forward(x, 1);
      std::string last;  // of the matrices that make queries
      for (const Matrix& m : matrices(layer))
        if (m.name.starts_with("q_")) last = m.name;
      for (Real& w : layer.weight(last + ".weight")) w *= 3;
      EXPECT_LT(difference(y, layer.forward(x, 1)), kRounding) << scale << ", " << kind->name;
    }
  }
}

TEST(ScoreCap, OfAlmostNothingReadsAllTokensAlikeAndAGreatOneChangesNothing) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (!kind->attends) continue;
    LayerConfig config = small_config(kind->name);
    const Values x = normal_values(0, 9 * 12);
    const Values y = Layer(config).forward(x, 1);
    set(config, "score-cap", "1e6");
    EXPECT_LT(difference(y, Layer(config).forward(x, 1)), 1e-2) << kind->name;
    set(config, "score-cap", "1e-6");
    const Values capped = Layer(config).forward(x, 1);
    EXPECT_GT(difference(y, capped), 1e-2) << kind->name;
    set(config, "score-cap", "0");
    set(config, "score-scale", "1e-9");
    EXPECT_LT(difference(capped, Layer(config).forward(x, 1)), kRounding) << kind->name;
  }
}

// RMSNorm makes vectors as long as the root of their width.
TEST(QkNorm, WithWeightsOfOneMakesScoresCosinesTimesTheWidth) {
  for (const char* const kind : {"mha", "gqa", "mqa", "mfa", "fox"}) {
    LayerConfig config = small_config(kind);
    config.norm_epsilon = 1e-12;
    const Values x = normal_values(0, 9 * 12);
    set(config, "score-scale", "qk-norm");
    const Values y = Layer(config).forward(x, 1);
    set(config, "qk-norm", true);
    const double width = static_cast<double>(resolved(config).head_dim);
    set(config, "score-scale", ScoreScale{ScoreScale::Kind::number, 1 / width}.text());
    Layer layer(config);
    for (const char* const norm : {"q_norm.weight", "k_norm.weight"})
      std::ranges::fill(layer.weight(norm), Real{1});
    EXPECT_LT(difference(layer.forward(x, 1), y), kRounding) << kind;
  }
}

// No weight that makes queries or keys before a norm changes scores by its length, values apart.
TEST(QkNorm, TakesTheLengthFromTheQueriesAndKeysOfEveryKind) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (!kind->no_qk_norm.empty()) continue;
    for (const bool rotates : {true, false}) {
      LayerConfig config = small_config(kind->name);
      config.rotary = rotates;
      config.norm_epsilon = 1e-12;
      set(config, "qk-norm", true);
      Layer layer(config);
      const Values x = normal_values(0, 9 * 12);
      const Values y = layer.forward(x, 1);
      const auto lengthen = [&](const std::string& name, Index first, Index rows, Index block) {
        const std::span<Real> w = layer.weight(name + ".weight");
        const Shape shape = layer.store.shape(layer.store.find("a." + name + ".weight"));
        for (Index i = 0; i < shape.size(); ++i) {
          const Index row = i / shape[1] % block;
          if (row >= first && row < first + rows) w[static_cast<std::size_t>(i)] *= 3;
        }
      };
      std::string queries;
      for (const auto& [name, out] : matrices(layer)) {
        if (name.starts_with("q_")) queries = name;
        if (name == "k_proj" || name == "k_rope_proj") lengthen(name, 0, out, out);
        if (name == "kv_b_proj")  // keys and values of each head
          lengthen(name, 0, get(layer.config, "nope-dim"), out / layer.config.heads);
        if (name == "kv_a_proj_with_mqa")  // of the latent, then the rotary key
          lengthen(name, get(layer.config, "kv-rank"), get(layer.config, "rope-dim"), out);
      }
      lengthen(queries, 0, 1, 1);
      EXPECT_LT(difference(y, layer.forward(x, 1)), kRounding) << kind->name;
    }
  }
}

TEST(QkNorm, OfFoxHasWeightsForEachHeadAndElsewhereForAll) {
  LayerConfig config = small_config("gqa");
  set(config, "qk-norm", true);
  set(config, "kv-heads", 1);
  EXPECT_EQ(std::ssize(Layer(config).weight("q_norm.weight")), 4);
  EXPECT_EQ(std::ssize(Layer(config).weight("k_norm.weight")), 4);
  config.kind = "fox";
  EXPECT_EQ(std::ssize(Layer(config).weight("q_norm.weight")), 2 * 4);
  EXPECT_EQ(std::ssize(Layer(config).weight("k_norm.weight")), 4);
}

}  // namespace
}  // namespace headcount
