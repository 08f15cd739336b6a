// programs: gradcheck
// Whole two-layer models against central differences: the loss, with respect to every parameter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/finite_differences.h"
#include "autograd/parallel.h"
#include "models/language_model.h"
#include "nn/random_weights.h"

namespace headcount {
namespace {

constexpr double kModelTolerance = 1e-6;
constexpr Index kVocabulary = 7;

// Names and values of settings, as in a config.json.
nlohmann::json nanogpt_style() {
  return {{"norm", "layer"},
          {"activation", "gelu"},
          {"positions", "learned"},
          {"tie-embeddings", "on"}};
}
nlohmann::json llama_style() {
  return {{"norm", "rms"},
          {"activation", "swiglu"},
          {"positions", "rope"},
          {"tie-embeddings", "off"},
          {"logit-cap", 0.5}};
}

// Attention; nanoGPT-like with biases, or Llama-like without; with mqa the other way round.
using ModelCase = std::tuple<std::string, bool>;

class GradientOfModel : public testing::TestWithParam<ModelCase> {
 protected:
  // Shapes this small are not worth a second thread.
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(0); }

  static Given config() {
    const auto& [attention, nanogpt] = GetParam();
    const Index parts = std::ssize(parse_attention_spec(attention).cycle);
    Given config(model_settings(), {{"head-dim", 4},
                                    {"attention", attention},
                                    {"bias", nanogpt == (attention != "mqa") ? "on" : "off"},
                                    {"layers", std::max<Index>(2, parts)},
                                    {"dim", 8},
                                    {"ffn-dim", 9},
                                    {"context", 5}});
    config.put(nanogpt ? nanogpt_style() : llama_style());
    return config;
  }

  static void check(const Given& config, Real dropout = 0) {
    // What is normalised may be near zero, where it would change its direction within a step.
    LanguageModel model(resolve_model(config, {.norm_epsilon = 0.1}), kVocabulary);
    draw_weights(model.parameters());
    // Two sequences; every token occurs, some twice.
    const std::vector<std::int32_t> tokens = {0, 3, 3, 5, 1, 6, 2, 4, 0, 5};
    const std::vector<std::int32_t> targets = {3, 3, 5, 1, 2, 2, 4, 0, 5, 6};
    const auto function = [&](Tape& tape) {
      tape.set_training(true, dropout);
      tape.set_random(3, 1);
      return model.loss(tape, tokens, targets, 2).cross_entropy;
    };
    // Whole models bend more than single ops: with the usual step the stencil's own error, which
    // grows with its fourth power, reaches 2e-6. Some have a sharper bend still, of which a shorter
    // step tells a wrong gradient.
    const auto report_with = [&](double step) {
      return check_parameter_gradients(function, model.parameters(),
                                       {.every_element_up_to = 48, .directions = 3, .step = step});
    };
    GradientReport report = report_with(2e-4);
    if (report.error > kModelTolerance) report = report_with(2e-5);
    EXPECT_LE(report.error, kModelTolerance) << report.text();
    EXPECT_GT(report.derivatives, static_cast<Index>(model.parameters().size()));
  }
};
std::string name_of(const testing::TestParamInfo<ModelCase>& model_case) {
  auto [name, nanogpt] = model_case.param;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name + (nanogpt ? "_like_nanogpt" : "_like_llama");
}

// Layers of every kind have checks of their own, nn/attention_gradient_test.cpp: these are of what
// is around them.
INSTANTIATE_TEST_SUITE_P(Gradient, GradientOfModel,
                         testing::Combine(testing::Values("mha", "mqa", "mla", "csa", "delta"),
                                          testing::Bool()),
                         name_of);
// What is kept has the gradients of all layers that read it.
INSTANTIATE_TEST_SUITE_P(
    GradientOfPattern, GradientOfModel,
    testing::Combine(testing::Values("gqa2@3/2*share", "mla/share", "gqa2x6@3/mqa",
                                     "mqax6@2/latent-bias", "delta/gta2/share",
                                     "gqa2@3/mqa/share@3/share@0",
                                     "gqa2/gqa2:value-residual=0.3/share",
                                     "gqa2:canon=ABCD/share/mla:canon=BC", "hca2@3/share",
                                     "csa2+1@3/share", "dsa:index-topk=2/share", "fox/share",
                                     "tpa/share"),
                     testing::Values(false)),
    name_of);

TEST_P(GradientOfModel, OfTwoLayersAgreesWithFiniteDifferences) {
  for (const Real dropout : {Real{0}, Real{0.2}}) check(config(), dropout);
}

TEST_P(GradientOfModel, WithoutFeedForwardLayersAgreesWithFiniteDifferences) {
  Given without = config();
  without.put("ffn-dim", 0);
  if (std::get<0>(GetParam()).find("canon") != std::string::npos) {
    EXPECT_THROW(resolve_model(without), ShapeError) << "C and D are parts of these layers";
  } else {
    check(without);
  }
}

}  // namespace
}  // namespace headcount
