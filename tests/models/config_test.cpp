#include "models/config.h"

#include <gtest/gtest.h>

#include "autograd/error.h"
#include "models/language_model.h"

namespace headcount {
namespace {

TEST(ModelConfigWithoutOutputProjection, HasNoOutputMatrix) {
  for (const AttentionKind* kind : attention_kinds()) {
    ModelConfig config;
    config.layers = 1;
    config.dim = 32;
    config.attention.kind = kind->name;
    config.attention.head_dim = 8;
    config.attention.output_projection = false;
    const LanguageModel model(config, 7);
    EXPECT_THROW(model.parameters().find("model.layers.0.self_attn.o_proj.weight"), ShapeError);
    EXPECT_NO_THROW(model.parameters().find("model.layers.0.mlp.down_proj.weight"));
  }
}

TEST(ModelConfigWithoutOutputProjection, WantsHeadsThatFillTheWidth) {
  ModelConfig config;
  config.dim = 32;
  config.attention.head_dim = 6;
  config.attention.output_projection = false;
  try {
    config.resolve();
    FAIL() << "4 heads of 6 are not 32";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "`output-projection` off needs heads that fill `dim` 32, 4 heads of 6 do not");
  }
}

}  // namespace
}  // namespace headcount
