#include "models/attention_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "nn/own_settings.h"

namespace headcount {
namespace {

AttentionConfig applied(const std::string& text) {
  ModelConfig config;
  parse_attention_spec(text).apply(config);
  config.resolve();
  return config.attention;
}

std::string refusal(const std::string& text) {
  try {
    parse_attention_specs(text);
  } catch (const SettingError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(AttentionSpec, IsTheNameOfEveryKind) {
  for (const AttentionKind* kind : attention_kinds()) {
    EXPECT_EQ(applied(std::string(kind->name)).kind, kind->name);
  }
}

TEST(AttentionSpec, GivesKeyValueHeadsToGqa) { EXPECT_EQ(get(applied("gqa2"), "kv-heads"), 2); }

TEST(AttentionSpec, GivesRankAndRotaryWidthToMla) {
  const AttentionConfig config = applied("mla48+16");
  EXPECT_EQ(config.kind, "mla");
  EXPECT_EQ(get(config, "kv-rank"), 48);
  EXPECT_EQ(get(config, "rope-dim"), 16);
  EXPECT_EQ(get(applied("mla40"), "kv-rank"), 40);
  EXPECT_EQ(get(applied("mla40"), "rope-dim"), get(applied("mla"), "rope-dim"));
}

TEST(AttentionSpec, GivesItsNumberToEachOfTheOthers) {
  EXPECT_EQ(applied("mfa48").head_dim, 48);
  EXPECT_EQ(get(applied("gta1"), "kv-heads"), 1);
  EXPECT_EQ(get(applied("tpa3"), "kv-factors"), 3);
}

TEST(AttentionSpec, GivesTheWidthOfZToLatentBias) {
  EXPECT_EQ(get(applied("latent-bias8"), "latent-dim"), 8);
}

TEST(AttentionSpec, LeavesOtherSettingsAlone) {
  ModelConfig config;
  config.attention.heads = 8;
  config.attention.rope_theta = 500;
  parse_attention_spec("gqa4").apply(config);
  EXPECT_EQ(config.attention.heads, 8);
  EXPECT_EQ(config.attention.rope_theta, 500);
}

TEST(AttentionSpec, UnknownOnesAreRefusedWithTheKnownOnesAndExamples) {
  const std::string known =
      "'nosuch' is no attention; known are mha, mqa, gqa or gqa2 (`kv-heads` 2), mfa or mfa64 "
      "(`head-dim` 64), gta or gta2 (`kv-heads` 2), mla or mla48+16 (`kv-rank` 48 `rope-dim` 16), "
      "tpa or tpa2 (`kv-factors` 2), latent-bias or latent-bias16 (`latent-dim` 16)";
  EXPECT_TRUE(refusal("mha,nosuch").starts_with(known)) << refusal("mha,nosuch");
  for (const char* text : {"", "mha2", "gqa2+1", "gqa-2", "gqa2.5", "mla48+", "mla+16", "mla1+2+3",
                           "GQA", " mha", "mha,,mqa", "mha,"}) {
    EXPECT_NE(refusal(text).find("is no attention; known are"), std::string::npos) << text;
  }
}

TEST(AttentionSpec, NumbersOutOfRangeNameTheFlag) {
  EXPECT_NE(refusal("gqa0").find("`kv-heads`"), std::string::npos);
  EXPECT_NE(refusal("gqa99999999999999999999").find("`kv-heads`"), std::string::npos);
}

TEST(AttentionSpec, IsRefusedTwiceInAList) {
  EXPECT_EQ(refusal("mha,gqa2,mha"), "'mha' is in the list twice");
}

}  // namespace
}  // namespace headcount
