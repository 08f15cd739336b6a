// The ways to scale scores before the softmax.
#include <gtest/gtest.h>

#include "nn/attention/test_layer.h"

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
// -1, so the first output is (e - 1/e) / (e + 1/e) times that of x alone.
TEST(ScoreScaling, ByQkNormMakesScoresCosines) {
  for (const std::string_view kind : {"mha", "latent-bias"}) {
    LayerConfig config = small_config(kind);
    config.causal = false;
    set(config, "positions", "none");
    set(config, "score-scale", "qk-norm");
    Layer layer(config);
    std::ranges::copy(layer.weight("q_proj.weight"), layer.weight("k_proj.weight").begin());
    Values x = normal_values(0, 12), expected = layer.forward(x, 1);
    for (Real& y : expected) y *= std::tanh(Real{1});
    for (std::size_t i = 0; i < 12; ++i) x.push_back(-x[i]);
    Values y = layer.forward(x, 1);
    y.resize(12);
    EXPECT_LT(difference(expected, y), kRounding) << kind;
  }
}

// Norms of scores, of queries or of keys take the length from the matrices before them.
TEST(ScoreScaling, ByNormsDoesNotDependOnTheLengthOfQueriesNorWithQkNormOnThatOfKeys) {
  for (const auto& [setting, value] : {std::pair<std::string, const char*>{"qk-norm", "on"},
                                       {"score-scale", "qk-norm"},
                                       {"score-scale", "row-norm"}}) {
    for (const AttentionKind* kind : attention_kinds()) {
      // Queries of latent-bias are partly z; a recurrent state has no scores.
      const bool qk_norm = setting == "qk-norm";
      if (qk_norm ? !kind->no_qk_norm.empty() : kind->name == "latent-bias" || !kind->attends)
        continue;
      LayerConfig config = small_config(kind->name);
      config.norm_epsilon = 1e-12;
      set(config, setting, value);
      Layer layer(config);
      const Values x = normal_values(0, 9 * 12);
      const Values y = layer.forward(x, 1);
      // Lengthens rows [first, first + rows) of each block of rows.
      const auto lengthen = [&](const std::string& name, Index first, Index rows, Index block) {
        const std::span<Real> w = layer.weight(name + ".weight");
        const Index width = layer.store.shape(layer.store.find("a." + name + ".weight"))[1];
        for (std::size_t i = 0; i < w.size(); ++i) {
          const Index row = static_cast<Index>(i) / width % block;
          if (row >= first && row < first + rows) w[i] *= 3;
        }
      };
      const AttentionPlan& plan = layer.config;
      const auto size = [&](const char* name) { return plan.values().at(name).get<Index>(); };
      std::string queries;  // the last matrix that makes them
      for (std::size_t i = 0; i < layer.store.size(); ++i) {
        const std::string path = layer.store.name({i}), name = path.substr(2, path.rfind('.') - 2);
        if (layer.store.shape({i}).rank() != 2) continue;
        if (name.starts_with("q_")) queries = name;
        if (!qk_norm) continue;
        const Index out = layer.store.shape({i})[0];
        if (name == "k_proj" || name == "k_rope_proj") lengthen(name, 0, out, out);
        if (name == "kv_b_proj")  // keys and values of each head
          lengthen(name, 0, size("nope-dim"), out / plan.heads);
        if (name == "kv_a_proj_with_mqa")  // of the latent, then the rotary key
          lengthen(name, size("kv-rank"), size("rope-dim"), out);
      }
      lengthen(queries, 0, 1, 1);
      EXPECT_LT(difference(y, layer.forward(x, 1)), kRounding) << value << ", " << kind->name;
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

// RMSNorm makes vectors as long as the root of their width. Its weights are those of all heads, in
// fox of each.
TEST(QkNorm, WithWeightsOfOneMakesScoresCosinesTimesTheWidth) {
  for (const std::string kind : {"mha", "gqa", "mqa", "mfa", "fox"}) {
    LayerConfig config = small_config(kind);
    config.norm_epsilon = 1e-12;
    const Values x = normal_values(0, 9 * 12);
    set(config, "score-scale", "qk-norm");
    const Values y = Layer(config).forward(x, 1);
    set(config, "qk-norm", true);
    const Index width = resolved(config).head_dim;
    set(config, "score-scale",
        ScoreScale{ScoreScale::Kind::number, 1 / static_cast<double>(width)}.text());
    Layer layer(config);
    for (const char* const norm : {"q_norm.weight", "k_norm.weight"}) {
      EXPECT_EQ(std::ssize(layer.weight(norm)), kind == "fox" ? 2 * width : width);
      std::ranges::fill(layer.weight(norm), Real{1});
    }
    EXPECT_LT(difference(layer.forward(x, 1), y), kRounding) << kind;
  }
}

}  // namespace
}  // namespace headcount
