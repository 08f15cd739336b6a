#include "models/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/no_target.h"
#include "autograd/products/mac_counter.h"
#include "models/decoder.h"
#include "models/decoding.h"

namespace headcount::decoding {
namespace {

using Tokens = std::vector<std::int32_t>;

ModelPlan plan_of(const nlohmann::json& settings) {
  return resolve_model(Given(model_settings(), settings));
}

std::pair<double, double> mean_and_deviation(std::span<const Real> values) {
  double mean = 0, squares = 0;
  const auto count = static_cast<double>(values.size());
  for (const Real x : values) mean += static_cast<double>(x) / count;
  for (const Real x : values) squares += std::pow(static_cast<double>(x) - mean, 2) / count;
  return {mean, std::sqrt(squares)};
}

TEST(InitialWeights, HaveTheDeviationsOfGpt2) {
  for (const AttentionKind* kind : attention_kinds()) {
    LanguageModel model(plan_of({{"attention", kind->name},
                                 {"layers", 2},
                                 {"context", 64},
                                 {"norm", "layer"},
                                 {"activation", "gelu"},
                                 {"positions", "learned"},
                                 {"bias", "on"},
                                 {"canon", "ACD"}}),
                        65);
    model.initialize(1);
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      const std::string& name = model.parameters().name({i});
      const auto values = model.parameters().value({i});
      const auto [mean, deviation] = mean_and_deviation(values);
      if (name.ends_with("A_log")) continue;    // uniform before the logarithm
      if (name.ends_with("dt_bias")) continue;  // see nn/attention/kinds/delta_test.cpp
      const bool residual = name.ends_with("o_proj.weight") || name.ends_with("out_proj.weight") ||
                            name.ends_with("o_b_proj.weight") || name.ends_with("down_proj.weight");
      const bool norm =
          name.ends_with("norm.weight") || name.ends_with("temperature") || name.ends_with(".D");
      // Uniform, as PyTorch starts convolutions.
      const bool taps = name.find("canon") != name.npos ||
                        (kind->name == "ssd" && name.find("conv1d") != name.npos);
      const bool bias = !taps && (name.ends_with(".bias") || name.ends_with("position_bias"));
      const double expected = norm || bias ? 0
                              : taps       ? 0.5 / std::sqrt(3)
                              : residual   ? 0.02 / std::sqrt(2 * 2)
                                           : 0.02;
      // Five standard errors of a normal sample, and rounding.
      const double error = 5 * expected / std::sqrt(static_cast<double>(values.size())) + 1e-12;
      EXPECT_NEAR(mean, norm ? 1 : 0, error) << name;
      EXPECT_NEAR(deviation, expected, error) << name;
    }
  }
}

LanguageModel initialized(const nlohmann::json& settings) {
  LanguageModel model(plan_of(settings), kVocabulary);
  model.initialize(1);
  return model;
}

// Both layers read the same first token and have equal weights, but the later one forgets less.
TEST(LightningLayers, HaveTheDecaysOfTheirPlaceInTheModel) {
  Given settings = decoder_config("lightning");
  settings.put("ffn-dim", 0);
  const auto model = make_model(settings);
  ParameterStore& weights = model->parameters();
  for (const std::string name : {"input_layernorm.weight", "self_attn.qkv_proj.weight"}) {
    const auto first = weights.value(weights.find("model.layers.0." + name));
    std::ranges::copy(first, weights.value(weights.find("model.layers.1." + name)).begin());
  }
  std::ranges::fill(weights.value(weights.find("model.layers.0.self_attn.out_proj.weight")), 0);
  std::vector<LayerCache> caches = make_caches(model->plan(), {.capacity = 2}, {});
  Tape tape(std::as_const(weights));
  model->decode(tape, some_tokens(2), 1, caches, {});
  EXPECT_GT(difference(copy(caches[0].state("state")), copy(caches[1].state("state"))), 1e-3);
}

TEST(Biases, StandBesideAllWeightsButThoseOfEmbeddings) {
  LanguageModel model(plan_of({{"norm", "layer"},
                               {"activation", "gelu"},
                               {"positions", "learned"},
                               {"tie-embeddings", "on"},
                               {"bias", "on"}}),
                      5);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const std::string& name = model.parameters().name({i});
    if (!name.ends_with("weight") || name.find("embed") != name.npos) continue;
    EXPECT_NO_THROW(model.parameters().find(name.substr(0, name.size() - 6) + "bias")) << name;
  }
}

TEST(ModelLogits, AreCappedSoftly) {
  const nlohmann::json plain = {{"layers", 1}, {"dim", 16}};
  nlohmann::json capped = plain;
  capped["logit-cap"] = 0.01;
  const Tokens tokens = {1, 2, 3};
  std::vector<Real> expected = forward(initialized(plain), tokens);
  for (Real& y : expected) y = Real{0.01} * std::tanh(y / Real{0.01});
  EXPECT_LT(difference(forward(initialized(capped), tokens), expected), 1e-8);
}

// Loss and gradients by computing all logits, or those alone that count: 2 or all but one of 16.
TEST(ModelLoss, IsOfTheLogitsAloneThatCount) {
  for (const auto& [tied, count] : {std::pair(false, 2), {true, 2}, {false, 15}, {true, 15}}) {
    LanguageModel m =
        initialized({{"layers", 2}, {"dim", 16}, {"tie-embeddings", tied ? "on" : "off"}});
    const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9, 4, 5, 6, 7, 8};
    Tokens targets(tokens.size(), count == 2 ? kNoTarget : 5);
    targets[6] = 3;
    targets[11] = 9;
    if (count == 15) targets[13] = kNoTarget;
    const auto macs = [&](const Tokens& counted) {
      Tape tape(std::as_const(m).parameters());
      const MacCounter counter;
      m.logits(tape, tokens, 2, {}, counted);
      return counter.count();
    };
    EXPECT_EQ(macs({}) - macs(targets), (16 - count) * 16 * 11);
    const auto gradients = [&](const auto& loss_on) {
      ParameterStore& parameters = m.parameters();
      parameters.clear_gradients();
      Tape tape(&parameters);
      const Var loss = loss_on(tape);
      tape.backward(loss);
      std::vector<Real> all = copy(parameters.complete_gradients());
      all.push_back(loss.item());
      return all;
    };
    const auto few =
        gradients([&](Tape& tape) { return m.loss(tape, tokens, targets, 2).cross_entropy; });
    const auto whole =
        gradients([&](Tape& tape) { return cross_entropy(m.logits(tape, tokens, 2), targets); });
    EXPECT_LT(difference(few, whole), 1e-6);
  }
}

TEST(ModelLoss, OfNoTargetIsZero) {
  const LanguageModel m = initialized({{"layers", 1}, {"dim", 16}});
  Tape tape(m.parameters());
  const Tokens tokens = {1, 2, 3, 4}, none(4, kNoTarget);
  EXPECT_EQ(m.loss(tape, tokens, none, 1).cross_entropy.item(), 0);
}

}  // namespace
}  // namespace headcount::decoding
