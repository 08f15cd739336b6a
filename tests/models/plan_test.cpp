#include "models/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/base/error.h"
#include "models/language_model.h"
#include "nn/layer_config.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(ModelConfigWithoutOutputProjection, WantsHeadsThatFillTheWidth) {
  Given config(model_settings());
  set(config, "dim", 32);
  set(config, "head-dim", 6);
  set(config, "output-projection", false);
  EXPECT_EQ(message_of<ShapeError>([&] { resolve_model(config); }),
            "`output-projection` off needs heads that add up to `dim` 32, 4 heads of 6 do not");
}

TEST(ModelConfigWithSinks, HasThemInTheLayersOfAPatternWithScores) {
  Given config(model_settings());
  set(config, "attention", "3*delta/gqa2");
  set(config, "sinks", true);
  const ModelPlan model = resolve_model(config);
  EXPECT_FALSE(model->layer_attention(0).sinks);
  EXPECT_TRUE(model->layer_attention(3).sinks);
}

TEST(ModelConfigWithCanonLayers, TakesLettersInAnyOrder) {
  const auto canon = [](const std::string& text) {
    return resolve_model(Given(model_settings(), {{"canon", text}}))->settings["canon"];
  };
  EXPECT_EQ(canon("DAB"), "ABD");
  EXPECT_EQ(canon("off"), "off");
  for (const char* text : {"", "E", "AE", "a", "AA", "none", "ABCDA"}) {
    const std::string said = message_of<SettingError>([&] { canon(text); });
    EXPECT_NE(said.find("`canon`"), std::string::npos) << said;
    EXPECT_NE(said.find("letters of A, B, C and D"), std::string::npos);
  }
  EXPECT_THROW(resolve_model(Given(model_settings(), {{"canon", "A"}}), {.causal = false}),
               ShapeError);
}

// Beside the names that their authors gave them, those of the convolutions of a block.
TEST(ModelConfigWithCanonLayers, NamesTheirWeightsAndLetsThemNotDecay) {
  const ModelPlan plan =
      resolve_model(Given(model_settings(), {{"canon", "ABCD"}, {"layers", 1}, {"dim", 32}}));
  LanguageModel model(plan, 7);
  ParameterStore& store = model.parameters();
  const auto shape_of = [&](const std::string& name) {
    const ParameterId id = store.find("model.layers.0." + name + ".weight");
    EXPECT_FALSE(store.decays(id)) << name;
    return store.shape(id);
  };
  EXPECT_EQ(shape_of("canonA"), (Shape{32, 1, 4}));
  EXPECT_EQ(shape_of("self_attn.canonB"), (Shape{96, 1, 4}));
  EXPECT_EQ(shape_of("canonC"), (Shape{32, 1, 4}));
  EXPECT_EQ(shape_of("mlp.canonD"), (Shape{2 * plan->ffn_dim, 1, 4}));
  model.initialize(3);
  double least = 0, greatest = 0;
  for (const Real tap : store.value(store.find("model.layers.0.mlp.canonD.weight"))) {
    least = std::min(least, static_cast<double>(tap));
    greatest = std::max(greatest, static_cast<double>(tap));
  }
  EXPECT_GE(least, -0.5);
  EXPECT_LE(greatest, 0.5);
  EXPECT_GT(greatest - least, 0.95) << "uniform, as PyTorch's convolutions start";
}

TEST(ModelConfigWithCanonLayers, RefusesThoseOfFeedForwardLayersThatAreLeftOut) {
  for (const std::string places : {"A", "AB", "C", "BD"}) {
    const auto resolve = [&] {
      return resolve_model(Given(model_settings(), {{"canon", places}, {"ffn-dim", 0}}));
    };
    if (places.starts_with("A")) {
      EXPECT_EQ(kept_by_block(*resolve(), resolve()->cycle.front()).size(), 1u);
      continue;
    }
    EXPECT_TRUE(message_of<ShapeError>([&] { resolve(); }).starts_with("`canon` C and D"));
  }
}

std::string refusal(const std::string& attention, double value_residual) {
  Given config(model_settings());
  set(config, "attention", attention);
  config.put("value-residual", value_residual);
  return message_of<ShapeError>([&] { resolve_model(config); }, "accepted");
}

TEST(ModelConfigWithAValueResidual, WantsLayersThatKeepValuesOfOneShape) {
  EXPECT_EQ(refusal("gqa2/gqa2@4/share", 0.5), "accepted");
  EXPECT_EQ(refusal("mha/latent-bias", 0.5), "accepted");
  EXPECT_EQ(refusal("mha/mqa", 0), "accepted");
  EXPECT_EQ(refusal("mha/delta:value-residual=0", 0.5), "accepted");
  for (const std::string kind : {"mla", "gta", "tpa", "delta", "mha:tie-kv=on"}) {
    EXPECT_NE(refusal(kind, 0.5).find("`value-residual` mixes values of heads, which " +
                                      kind.substr(0, kind.find(':'))),
              std::string::npos)
        << refusal(kind, 0.5);
  }
  EXPECT_NE(refusal("mha/mqa", 0.5).find("the first layer are 4 heads of 32, not 1 of 32"),
            std::string::npos)
      << refusal("mha/mqa", 0.5);
  EXPECT_NE(refusal("delta/mqa:value-residual=0.5", 0).find("but delta keeps none"),
            std::string::npos);
}

TEST(ModelWithOtherSettings, KeepsTheEpsilonThatTheNormsOfEachKindHave) {
  Given config(model_settings());
  set(config, "attention", "kda/mla");
  const ModelPlan before = resolve_model(config), after = with_settings(before, {{"ffn-dim", 40}});
  ASSERT_NE(before->cycle[0].norm_epsilon, before->cycle[1].norm_epsilon);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(after->cycle[i].norm_epsilon, before->cycle[i].norm_epsilon) << i;
}

TEST(ModelWithOtherSettings, KeepsWhatNoSettingSays) {
  const ModelPlan before =
      resolve_model(Given(model_settings()), {.causal = false, .norm_epsilon = 1e-3});
  const ModelPlan after = with_settings(before, {{"layers", 2}});
  EXPECT_FALSE(after->cycle.front().causal);
  EXPECT_EQ(after->cycle.front().norm_epsilon, 1e-3);
}

TEST(IdleSetting, IsOneThatTheOthersOfItsLayerLeaveWithoutEffect) {
  const auto idle = [](const std::string& spec, const char* positions = "rope") {
    Given config(model_settings());
    set(config, "attention", spec);
    set(config, "positions", positions);
    return idle_setting(spec, resolve_model(config));
  };
  EXPECT_EQ(idle("mha:canon-taps=9"),
            "`canon-taps` 9 in mha:canon-taps=9 convolves nothing: `canon` is off");
  EXPECT_EQ(idle("mha:canon=B:canon-taps=9"), "");
  EXPECT_EQ(idle("mha:rope-theta=5"), "");
  const std::string theta = "rotates nothing: the layer has no rotary positions";
  EXPECT_TRUE(idle("mha:rope-theta=5", "none").ends_with(theta));
  EXPECT_TRUE(idle("fox:rope-theta=5").ends_with(theta));
  EXPECT_TRUE(idle("mha/fox:rope-theta=5").ends_with(theta));
  EXPECT_EQ(idle("mha:rope-theta=5/fox/share"), "");
  EXPECT_NE(idle("v4:o-rank=4:output-projection=off:head-dim=32").find("projects nothing"),
            std::string::npos);
}

}  // namespace
}  // namespace headcount
