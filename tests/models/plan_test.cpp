#include "models/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autograd/base/error.h"
#include "nn/attention/layer_cache.h"
#include "support/message_of.h"

namespace headcount {
namespace {

ModelPlan plan_with(const nlohmann::json& settings) {
  return resolve_model(Given(model_settings(), settings));
}

std::string plan_refusal(const nlohmann::json& settings) {
  return message_of<Error>([&] { plan_with(settings); }, "accepted");
}

TEST(ModelConfigWithoutOutputProjection, WantsHeadsThatFillTheWidth) {
  EXPECT_EQ(plan_refusal({{"dim", 32}, {"head-dim", 6}, {"output-projection", "off"}}),
            "`output-projection` off needs heads that add up to `dim` 32, 4 heads of 6 do not");
}

TEST(ModelConfigWithSinks, HasThemInTheLayersOfAPatternWithScores) {
  const ModelPlan model = plan_with({{"attention", "3*delta/gqa2"}, {"sinks", "on"}});
  EXPECT_FALSE(model->layer_attention(0).sinks);
  EXPECT_TRUE(model->layer_attention(3).sinks);
}

TEST(ModelConfigWithCanonLayers, TakesLettersInAnyOrderThatTheModelHasPlacesFor) {
  EXPECT_EQ(plan_with({{"canon", "DAB"}})->settings["canon"], "ABD");
  for (const char* text : {"", "E", "AE", "a", "AA", "none", "ABCDA"}) {
    const std::string said = plan_refusal({{"canon", text}});
    EXPECT_NE(said.find("`canon`"), std::string::npos) << said;
    EXPECT_NE(said.find("letters of A, B, C and D"), std::string::npos);
  }
  EXPECT_THROW(resolve_model(Given(model_settings(), {{"canon", "A"}}), {.causal = false}),
               ShapeError);
  for (const char* text : {"A", "AB"}) {
    const ModelPlan model = plan_with({{"canon", text}, {"ffn-dim", 0}});
    EXPECT_EQ(kept_by_block(*model, model->cycle.front()).size(), 1u);
  }
  for (const char* text : {"C", "BD"})
    EXPECT_TRUE(plan_refusal({{"canon", text}, {"ffn-dim", 0}}).starts_with("`canon` C and D"));
}

TEST(ModelConfigWithAValueResidual, WantsLayersThatKeepValuesOfOneShape) {
  const auto said = [](const std::string& attention, double value_residual) {
    return plan_refusal({{"attention", attention}, {"value-residual", value_residual}});
  };
  EXPECT_EQ(said("gqa2/gqa2@4/share", 0.5), "accepted");
  EXPECT_EQ(said("mha/latent-bias", 0.5), "accepted");
  EXPECT_EQ(said("mha/mqa", 0), "accepted");
  EXPECT_EQ(said("mha/delta:value-residual=0", 0.5), "accepted");
  for (const std::string kind : {"mla", "gta", "tpa", "delta", "mha:tie-kv=on"}) {
    const std::string none = "`value-residual` mixes values of heads, which ";
    EXPECT_NE(said(kind, 0.5).find(none + kind.substr(0, kind.find(':'))), std::string::npos);
  }
  EXPECT_NE(said("mha/mqa", 0.5).find("the first layer are 4 heads of 32, not 1 of 32"),
            std::string::npos);
  EXPECT_NE(said("delta/mqa:value-residual=0.5", 0).find("but delta keeps none"),
            std::string::npos);
}

// SmolLM3's layers without positions; and vectors that are added before the first layer.
TEST(PositionsInAPart, AreThoseOfItsLayers) {
  const ModelPlan some = plan_with({{"attention", "gqa2/mqa:positions=none"}});
  EXPECT_TRUE(some->cycle[0].rotary);
  EXPECT_FALSE(some->cycle[1].rotary);
  const ModelPlan all = plan_with({{"attention", "mqa:positions=none/gqa2:positions=learned"}});
  EXPECT_EQ(all->positions, Positions::learned);
  for (const ModelPlan& plan : {some, all}) {
    const ModelPlan again = resolve_model(Given(model_settings(), plan->settings));
    EXPECT_EQ(again->settings, plan->settings);
    EXPECT_EQ(again->positions, plan->positions);
  }
}

TEST(ModelWithOtherSettings, KeepsWhatNoSettingSays) {
  const ModelPlan kinds = plan_with({{"attention", "kda/mla"}}),
                  wider = with_settings(kinds, {{"ffn-dim", 40}});
  ASSERT_NE(kinds->cycle[0].norm_epsilon, kinds->cycle[1].norm_epsilon);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(wider->cycle[i].norm_epsilon, kinds->cycle[i].norm_epsilon) << i;
  const ModelPlan unlisted =
      resolve_model(Given(model_settings()), {.causal = false, .norm_epsilon = 1e-3});
  const AttentionPlan layer = with_settings(unlisted, {{"layers", 2}})->cycle.front();
  EXPECT_FALSE(layer.causal);
  EXPECT_EQ(layer.norm_epsilon, 1e-3);
}

}  // namespace
}  // namespace headcount
