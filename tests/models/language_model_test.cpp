#include "models/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/no_target.h"
#include "models/cost.h"
#include "nn/random_weights.h"

namespace headcount {
namespace {

using Names = std::set<std::string>;
using Tokens = std::vector<std::int32_t>;

ModelPlan plan_of(const nlohmann::json& settings) {
  return resolve_model(Given(model_settings(), settings));
}

Names names_of(const nlohmann::json& settings) {
  const LanguageModel model(plan_of(settings), 5);
  Names names;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    names.insert(model.parameters().name({i}));
  }
  return names;
}

// The weights of layer 0's attention, without their common prefix.
Names attention_names(nlohmann::json settings) {
  settings.update({{"layers", 1}, {"dim", 16}});
  const std::string prefix = "model.layers.0.self_attn.";
  Names names;
  for (const std::string& name : names_of(settings)) {
    if (name.starts_with(prefix)) names.insert(name.substr(prefix.size()));
  }
  return names;
}

TEST(ParameterNames, AreThoseOfHuggingFace) {
  EXPECT_EQ(names_of({{"layers", 2}, {"dim", 16}}),
            (Names{"model.embed_tokens.weight",
                   "model.layers.0.input_layernorm.weight",
                   "model.layers.0.self_attn.q_proj.weight",
                   "model.layers.0.self_attn.k_proj.weight",
                   "model.layers.0.self_attn.v_proj.weight",
                   "model.layers.0.self_attn.o_proj.weight",
                   "model.layers.0.post_attention_layernorm.weight",
                   "model.layers.0.mlp.gate_proj.weight",
                   "model.layers.0.mlp.up_proj.weight",
                   "model.layers.0.mlp.down_proj.weight",
                   "model.layers.1.input_layernorm.weight",
                   "model.layers.1.self_attn.q_proj.weight",
                   "model.layers.1.self_attn.k_proj.weight",
                   "model.layers.1.self_attn.v_proj.weight",
                   "model.layers.1.self_attn.o_proj.weight",
                   "model.layers.1.post_attention_layernorm.weight",
                   "model.layers.1.mlp.gate_proj.weight",
                   "model.layers.1.mlp.up_proj.weight",
                   "model.layers.1.mlp.down_proj.weight",
                   "model.norm.weight",
                   "lm_head.weight"}));
}

TEST(ParameterNames, AreFewerWithoutFeedForwardLayers) {
  EXPECT_EQ(
      names_of({{"layers", 1}, {"dim", 16}, {"ffn-dim", 0}, {"tie-embeddings", "on"}}),
      (Names{"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
             "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
             "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
             "model.norm.weight"}));
}

TEST(ParameterNames, FollowTheOptions) {
  const nlohmann::json nanogpt = {{"layers", 1},
                                  {"dim", 16},
                                  {"positions", "learned"},
                                  {"norm", "layer"},
                                  {"activation", "gelu"},
                                  {"tie-embeddings", "on"}};
  const Names without_biases = {"model.embed_tokens.weight",
                                "model.embed_positions.weight",
                                "model.layers.0.input_layernorm.weight",
                                "model.layers.0.self_attn.q_proj.weight",
                                "model.layers.0.self_attn.k_proj.weight",
                                "model.layers.0.self_attn.v_proj.weight",
                                "model.layers.0.self_attn.o_proj.weight",
                                "model.layers.0.post_attention_layernorm.weight",
                                "model.layers.0.mlp.up_proj.weight",
                                "model.layers.0.mlp.down_proj.weight",
                                "model.norm.weight"};
  EXPECT_EQ(names_of(nanogpt), without_biases);
  nlohmann::json biased = nanogpt;
  biased["bias"] = "on";
  Names with_biases = without_biases;
  for (std::string name : without_biases) {
    if (name.find("embed") != std::string::npos) continue;
    with_biases.insert(name.replace(name.rfind("weight"), 6, "bias"));
  }
  EXPECT_EQ(names_of(biased), with_biases);
}

TEST(ParameterNames, OfEachAttentionAreItsOwn) {
  const Names grouped = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"};
  for (const char* const kind : {"mha", "mqa", "gqa"}) {
    EXPECT_EQ(attention_names({{"attention", kind}}), grouped) << kind;
  }
  EXPECT_EQ(attention_names({{"attention", "mla"}}),
            (Names{"q_proj.weight", "kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight",
                   "kv_b_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "mla"}, {"q-rank", 3}}),
            (Names{"q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight",
                   "kv_a_proj_with_mqa.weight", "kv_a_layernorm.weight", "kv_b_proj.weight",
                   "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "mla"}, {"q-rank", 3}, {"latent-norm", "off"}}),
            (Names{"q_a_proj.weight", "q_b_proj.weight", "kv_a_proj_with_mqa.weight",
                   "kv_b_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "gqa"}, {"tie-kv", "on"}, {"gate", "on"}}),
            (Names{"q_proj.weight", "kv_proj.weight", "gate_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "mfa"}}),
            (Names{"q_a_proj.weight", "q_a_layernorm.weight", "q_b_proj.weight", "k_proj.weight",
                   "v_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "gta"}}),
            (Names{"q_proj.weight", "kv_proj.weight", "k_rope_proj.weight", "o_proj.weight"}));
  EXPECT_EQ(attention_names({{"attention", "tpa"}}),
            (Names{"q_a_proj.weight", "q_b_proj.weight", "k_a_proj.weight", "k_b_proj.weight",
                   "v_a_proj.weight", "v_b_proj.weight", "o_proj.weight"}));
  Names biased = grouped;
  biased.insert("z_proj.weight");
  EXPECT_EQ(attention_names({{"attention", "latent-bias"}}), biased);
  Names forgetting = grouped;
  forgetting.insert({"f_proj.weight", "f_proj.bias"});
  EXPECT_EQ(attention_names({{"attention", "fox"}}), forgetting);
  EXPECT_EQ(attention_names({{"attention", "kda"}}),
            (Names{"q_proj.weight", "k_proj.weight", "v_proj.weight", "q_conv1d.weight",
                   "k_conv1d.weight", "v_conv1d.weight", "f_a_proj.weight", "f_b_proj.weight",
                   "g_a_proj.weight", "g_b_proj.weight", "g_b_proj.bias", "b_proj.weight", "A_log",
                   "dt_bias", "o_norm.weight", "o_proj.weight"}));
  forgetting.insert({"q_norm.weight", "k_norm.weight"});
  EXPECT_EQ(attention_names({{"attention", "fox"}, {"qk-norm", "on"}}), forgetting);
}

const nlohmann::json kNanoGpt = {{"layers", 4},
                                 {"heads", 4},
                                 {"dim", 128},
                                 {"context", 64},
                                 {"norm", "layer"},
                                 {"activation", "gelu"},
                                 {"positions", "learned"},
                                 {"tie-embeddings", "on"}};

TEST(ParameterCount, OfNanoGptsCpuModelIsItsOwn) {
  // (65 + 64) 128 + 4 (12 128^2 + 2 128) + 128
  EXPECT_EQ(LanguageModel(plan_of(kNanoGpt), 65).parameters().element_count(), 804096);
}

// Counted by hand for dim 256, 8 heads and biases: q_proj and o_proj have 256^2 + 256 each, a KV
// head has 2 (256 32 + 32).
TEST(ParameterCount, OfEachAttentionIsThatOfItsFormula) {
  const auto count = [](nlohmann::json settings) {
    settings.update({{"layers", 1}, {"dim", 256}, {"heads", 8}, {"bias", "on"}});
    const LanguageModel model(plan_of(settings), 5);
    Index total = 0;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      if (model.parameters().name({i}).find("self_attn") == std::string::npos) continue;
      total += model.parameters().shape({i}).size();
    }
    return total;
  };
  EXPECT_EQ(count({{"attention", "mha"}}), 263168);
  EXPECT_EQ(count({{"attention", "mqa"}}), 148032);
  EXPECT_EQ(count({{"attention", "gqa"}, {"kv-heads", 4}}), 197376);
}

TEST(CacheBytes, CountEveryLayer) {
  const auto bytes = [](const nlohmann::json& settings, CacheType type) {
    const LanguageModel model(plan_of(settings), 5);
    return kv_cache_bytes(model.plan(), 1, type).value();
  };
  EXPECT_EQ(bytes({{"layers", 4}}, CacheType::fp8), 4 * 2 * 128);
  EXPECT_EQ(bytes({{"layers", 3}, {"attention", "mqa"}}, CacheType::bf16), 3 * 2 * 32 * 2);
  EXPECT_EQ(bytes({{"layers", 4}, {"attention", "mla"}, {"kv-rank", 48}, {"rope-dim", 16}},
                  CacheType::f16),
            4 * (48 + 16) * 2);
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(std::span<const Real> values) {
  Moments m;
  const auto count = static_cast<double>(values.size());
  for (const Real x : values) m.mean += static_cast<double>(x) / count;
  for (const Real x : values) m.deviation += std::pow(static_cast<double>(x) - m.mean, 2) / count;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(InitialWeights, HaveTheDeviationsOfGpt2) {
  for (const AttentionKind* kind : attention_kinds()) {
    nlohmann::json settings = kNanoGpt;
    settings.update({{"attention", kind->name}, {"layers", 2}, {"bias", "on"}});
    LanguageModel model(plan_of(settings), 65);
    model.initialize(1);
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const std::string& name = model.parameters().name({i});
      const auto values = model.parameters().value({i});
      const auto [mean, deviation] = moments(values);
      if (name.ends_with("A_log")) continue;  // uniform before the logarithm
      if (kind->name == "kda" && name.ends_with("dt_bias")) continue;  // below
      const bool residual = name.ends_with("o_proj.weight") || name.ends_with("out_proj.weight") ||
                            name.ends_with("o_b_proj.weight") || name.ends_with("down_proj.weight");
      const bool norm = name.ends_with("norm.weight") || name.ends_with("dt_bias") ||
                        name.ends_with("temperature");
      const bool bias = name.ends_with(".bias") || name.ends_with("position_bias");
      const double expected = norm || bias ? 0 : residual ? 0.02 / std::sqrt(2 * 2) : 0.02;
      // Five standard errors of a normal sample, and rounding.
      const double error = 5 * expected / std::sqrt(static_cast<double>(values.size())) + 1e-12;
      EXPECT_NEAR(mean, norm ? 1 : 0, error) << name;
      EXPECT_NEAR(deviation, expected, error) << name;
    }
  }
}

TEST(InitialWeights, OfKdaHaveTimeStepsWithUniformLogarithms) {
  LanguageModel model(plan_of({{"attention", "kda"}, {"layers", 1}, {"dim", 256}}), 5);
  model.initialize(1);
  std::vector<Real> logs;
  for (const Real x : std::as_const(model).parameters().value(
           model.parameters().find("model.layers.0.self_attn.dt_bias"))) {
    const double step = std::log1p(std::exp(static_cast<double>(x)));
    EXPECT_GT(step, 0.999e-3);
    EXPECT_LT(step, 0.1001);
    logs.push_back(static_cast<Real>(std::log(step)));
  }
  const auto [mean, deviation] = moments(logs);
  const double range = std::log(100.0), error = 5 / std::sqrt(static_cast<double>(logs.size()));
  EXPECT_NEAR(mean, std::log(0.01), error * range / std::sqrt(12));
  EXPECT_NEAR(deviation, range / std::sqrt(12), error);
}

TEST(InitialWeights, DependOnTheSeed) {
  LanguageModel a(plan_of({{"layers", 1}}), 5), b(plan_of({{"layers", 1}}), 5);
  a.initialize(1);
  b.initialize(1);
  EXPECT_TRUE(std::ranges::equal(a.parameters().all_values(), b.parameters().all_values()));
  b.initialize(2);
  EXPECT_FALSE(std::ranges::equal(a.parameters().all_values(), b.parameters().all_values()));
}

TEST(InitialWeights, OfOneNameAreEqualWhateverTheAttention) {
  LanguageModel mha(plan_of({{"attention", "mha"}}), 5), mla(plan_of({{"attention", "mla"}}), 5);
  mha.initialize(1);
  mla.initialize(1);
  for (const char* const name :
       {"model.embed_tokens.weight", "model.layers.3.mlp.up_proj.weight"}) {
    EXPECT_TRUE(std::ranges::equal(mha.parameters().value(mha.parameters().find(name)),
                                   mla.parameters().value(mla.parameters().find(name))))
        << name;
  }
}

// A model and its logits, by value.
struct Model {
  LanguageModel model;

  explicit Model(const nlohmann::json& settings, Index vocabulary = 11)
      : model(plan_of(settings), vocabulary) {
    model.initialize(1);
  }
  std::vector<Real> logits(const Tokens& tokens, Index sequences = 1) const {
    Tape tape(model.parameters());
    const Var y = model.logits(tape, tokens, sequences);
    EXPECT_EQ(y.shape(), (Shape{sequences, std::ssize(tokens) / sequences, model.vocabulary()}));
    return {y.value().begin(), y.value().end()};
  }
};

TEST(FreshModel, PredictsNothing) {
  for (const AttentionKind* kind : attention_kinds()) {
    const Model fresh({{"attention", kind->name}, {"layers", 2}, {"dim", 64}}, 65);
    Tokens tokens, targets;
    for (std::int32_t i = 0; i < 128; ++i) {
      tokens.push_back(i * 17 % 65);
      targets.push_back(i * 29 % 65);
    }
    Tape tape(fresh.model.parameters());
    const double loss = static_cast<double>(fresh.model.loss(tape, tokens, targets, 2).item());
    EXPECT_NEAR(loss, std::log(65.0), 0.1) << kind->name;
  }
}

TEST(ModelLogits, DoNotDependOnLaterTokens) {
  for (const AttentionKind* kind : attention_kinds()) {
    const Model m({{"attention", kind->name}, {"layers", 2}, {"dim", 16}, {"context", 9}});
    const auto y = m.logits({1, 2, 3, 4, 5, 6}), z = m.logits({1, 2, 3, 4, 10, 9});
    const Index seen = 4 * 11;
    EXPECT_TRUE(std::equal(y.begin(), y.begin() + seen, z.begin())) << kind->name;
    EXPECT_FALSE(std::equal(y.begin() + seen, y.end(), z.begin() + seen)) << kind->name;
  }
}

TEST(ModelLogits, OfASequenceDoNotDependOnTheRestOfTheBatch) {
  const Model m({{"layers", 2}, {"dim", 16}, {"positions", "learned"}, {"context", 4}});
  const auto alone = m.logits({5, 6, 7, 8});
  const auto second = m.logits({1, 2, 3, 4, 5, 6, 7, 8}, 2);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(second[alone.size() + i], alone[i], 1e-5F);
  }
}

TEST(ModelLogits, TellPositionsApartUnlessThereAreNone) {
  // Equal tokens at two positions.
  const auto differ = [](const char* positions) {
    Model m({{"layers", 1}, {"dim", 16}, {"positions", positions}});
    draw_weights(m.model.parameters());
    const auto y = m.logits({1, 2, 3, 2, 1, 3}), z = m.logits({2, 1, 3, 1, 2, 3});
    double worst = 0;  // of the last row
    for (std::size_t i = y.size() - 11; i < y.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(y[i] - z[i])));
    }
    return worst > 1e-3;
  };
  EXPECT_TRUE(differ("rope"));
  EXPECT_TRUE(differ("learned"));
  EXPECT_FALSE(differ("none"));
}

TEST(ModelLogits, WithTiedEmbeddingsUseTheTable) {
  Model m({{"layers", 1}, {"dim", 16}, {"tie-embeddings", "on"}});
  const auto y = m.logits({1, 2, 3});
  // Token 10 is not in the text, so its row matters to its own logits alone.
  ParameterStore& parameters = m.model.parameters();
  for (Real& x : parameters.value(parameters.find("model.embed_tokens.weight")).last(16)) x *= 2;
  const auto z = m.logits({1, 2, 3});
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(z[i], i % 11 == 10 ? 2 * y[i] : y[i]) << i;
}

TEST(ModelLogits, AreCappedSoftly) {
  const Model plain({{"layers", 1}, {"dim", 16}});
  const Model capped({{"layers", 1}, {"dim", 16}, {"logit-cap", 0.01}});
  const auto y = plain.logits({1, 2, 3}), z = capped.logits({1, 2, 3});
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(static_cast<double>(z[i]), 0.01 * std::tanh(static_cast<double>(y[i]) / 0.01),
                1e-8);
}

TEST(ModelLogits, OfATextLongerThanTheContextAreAnError) {
  const Model m({{"layers", 1}, {"dim", 16}, {"context", 4}});
  EXPECT_EQ(m.logits({1, 2, 3, 4}).size(), 44u);
  try {
    m.logits({1, 2, 3, 4, 5});
    FAIL() << "accepted";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "a sequence of 5 tokens is longer than the context of 4");
  }
}

TEST(ModelLoss, IsTheMeanSurpriseOfTheTargets) {
  const Model m({{"layers", 1}, {"dim", 16}});
  const Tokens tokens = {1, 2, 3, 4}, targets = {2, 3, 4, 10};
  const auto logits = m.logits(tokens, 2);
  double expected = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    double total = 0;
    for (std::size_t i = 0; i < 11; ++i) total += std::exp(static_cast<double>(logits[t * 11 + i]));
    const auto target = static_cast<std::size_t>(targets[t]);
    expected += (std::log(total) - static_cast<double>(logits[t * 11 + target])) / 4;
  }
  Tape tape(m.model.parameters());
  EXPECT_NEAR(static_cast<double>(m.model.loss(tape, tokens, targets, 2).item()), expected, 1e-6);
}

// Loss and gradients by computing all logits, or those alone that count: 2 or all but one of 16.
TEST(ModelLoss, IsOfTheLogitsAloneThatCount) {
  for (const auto& [tied, count] : {std::pair(false, 2), {true, 2}, {false, 15}, {true, 15}}) {
    Model m({{"layers", 2}, {"dim", 16}, {"tie-embeddings", tied ? "on" : "off"}});
    const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9, 4, 5, 6, 7, 8};
    Tokens targets(tokens.size(), count == 2 ? kNoTarget : 5);
    targets[6] = 3;
    targets[11] = 9;
    if (count == 15) targets[13] = kNoTarget;
    const auto macs = [&](const Tokens& counted) {
      Tape tape(std::as_const(m.model).parameters());
      const MacCounter counter;
      m.model.logits(tape, tokens, 2, {}, counted);
      return counter.count();
    };
    EXPECT_EQ(macs({}) - macs(targets), (16 - count) * 16 * 11);
    const auto gradients = [&](const auto& loss_on) {
      ParameterStore& parameters = m.model.parameters();
      parameters.clear_gradients();
      Tape tape(&parameters);
      const Var loss = loss_on(tape);
      tape.backward(loss);
      parameters.complete_gradients();
      std::vector<Real> all = {loss.item()};
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto gradient = std::as_const(parameters).gradient({i});
        all.insert(all.end(), gradient.begin(), gradient.end());
      }
      return all;
    };
    const auto few = gradients([&](Tape& tape) { return m.model.loss(tape, tokens, targets, 2); });
    const auto whole = gradients(
        [&](Tape& tape) { return cross_entropy(m.model.logits(tape, tokens, 2), targets); });
    ASSERT_EQ(few.size(), whole.size());
    for (std::size_t i = 0; i < few.size(); ++i) EXPECT_NEAR(few[i], whole[i], 1e-6) << i;
  }
}

TEST(ModelLoss, OfNoTargetIsZero) {
  const Model m({{"layers", 1}, {"dim", 16}});
  Tape tape(m.model.parameters());
  const Tokens tokens = {1, 2, 3, 4}, none(4, kNoTarget);
  EXPECT_EQ(m.model.loss(tape, tokens, none, 1).item(), 0);
}

}  // namespace
}  // namespace headcount
