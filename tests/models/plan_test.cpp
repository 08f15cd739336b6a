#include "models/plan.h"

#include <gtest/gtest.h>

#include "autograd/base/error.h"
#include "models/language_model.h"
#include "nn/layer_config.h"

namespace headcount {
namespace {

TEST(ModelConfigWithoutOutputProjection, HasNoOutputMatrix) {
  for (const AttentionKind* kind : attention_kinds()) {
    Given config(model_settings());
    set(config, "layers", 1);
    set(config, "dim", 32);
    set(config, "attention", kind->name);
    set(config, "head-dim", 8);
    set(config, "output-projection", false);
    const LanguageModel model(resolve_model(config), 7);
    EXPECT_THROW(model.parameters().find("model.layers.0.self_attn.o_proj.weight"), ShapeError);
    EXPECT_NO_THROW(model.parameters().find("model.layers.0.mlp.down_proj.weight"));
  }
}

TEST(ModelConfigWithoutOutputProjection, WantsHeadsThatFillTheWidth) {
  Given config(model_settings());
  set(config, "dim", 32);
  set(config, "head-dim", 6);
  set(config, "output-projection", false);
  try {
    resolve_model(config);
    FAIL() << "4 heads of 6 are not 32";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(
        error.what(),
        "`output-projection` off needs heads that add up to `dim` 32, 4 heads of 6 do not");
  }
}

}  // namespace
}  // namespace headcount
