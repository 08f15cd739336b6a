// programs: gradcheck
// Whole two-layer models against central differences: the loss, with respect to every parameter.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/checks/finite_differences.h"
#include "autograd/parallel.h"
#include "models/language_model.h"
#include "nn/attention/random_weights.h"

namespace headcount {
namespace {

constexpr double kModelTolerance = 1e-6;
constexpr Index kVocabulary = 7;

// Settings of a model like nanoGPT, with biases, or like a Llama, without; with mqa the other way
// round.
Given config_of(const std::string& attention, bool nanogpt) {
  const Index parts = std::ssize(parse_attention_spec(attention).cycle);
  Given config(model_settings(), {{"head-dim", 4},
                                  {"attention", attention},
                                  {"bias", nanogpt == (attention != "mqa") ? "on" : "off"},
                                  {"layers", std::max<Index>(2, parts)},
                                  {"dim", 8},
                                  {"ffn-dim", 9},
                                  {"context", 5}});
  if (nanogpt) {
    config.put({{"norm", "layer"}, {"activation", "gelu"}});
    config.put({{"positions", "learned"}, {"tie-embeddings", "on"}});
  } else {
    config.put("logit-cap", 0.5);
  }
  return config;
}

void expect_gradients(const Given& config, Real dropout = 0) {
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

// Layers of every kind have checks of their own, nn/attention_gradient_test.cpp: these are of what
// is around them, and of patterns, where what is kept has the gradients of all layers that read it.
TEST(GradientOfModel, AgreesWithFiniteDifferences) {
  set_threads(1);  // shapes this small are not worth a second thread
  for (const std::string attention : {"mha",
                                      "mqa",
                                      "mla",
                                      "csa",
                                      "delta",
                                      "gqa2@3/2*share",
                                      "mla/share",
                                      "gqa2x6@3/mqa",
                                      "mqax6@2/latent-bias",
                                      "delta/gta2/share",
                                      "gqa2@3/mqa/share@3/share@0",
                                      "gqa2/gqa2:value-residual=0.3/share",
                                      "gqa2:canon=ABCD/share/mla:canon=BC",
                                      "hca2@3/share",
                                      "csa2+1@3/share",
                                      "dsa:index-topk=2/share",
                                      "bsa1+2:index-block=2/share",
                                      "dsa:index-topk=2/share-index",
                                      "csa2+1@3/share-pooled/share-pooled-index",
                                      "fox/share",
                                      "tpa/share"}) {
    const bool pattern = attention.find('/') != std::string::npos;
    for (const bool nanogpt : {false, true}) {
      if (pattern && nanogpt) continue;
      SCOPED_TRACE(attention + (nanogpt ? " like nanoGPT" : " like Llama"));
      Given config = config_of(attention, nanogpt);
      for (const Real dropout : {Real{0}, Real{0.2}}) expect_gradients(config, dropout);
      config.put("ffn-dim", 0);
      if (attention.find("canon") == std::string::npos) {
        expect_gradients(config);
      } else {
        EXPECT_THROW(resolve_model(config), ShapeError) << "C and D are parts of these layers";
      }
    }
  }
  set_threads(0);
}

}  // namespace
}  // namespace headcount
