// What cannot be converted is refused with the setting that stands in the way.
#include <gtest/gtest.h>

#include "models/small_conversion.h"

namespace headcount {
namespace {

std::string refusal(const LanguageModel& from, const std::string& attention,
                    const Wanted& given = {}, const ConversionOptions& options = {}) {
  try {
    converted(from, attention, given, options);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_refusal(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

TEST(Conversion, OfOrToEachKindIsMadeOrRefusedWithItsReason) {
  const auto mha = small_model("mha");
  for (const AttentionKind* kind : attention_kinds()) {
    const std::string name(kind->name);
    if (kind->of_heads == nullptr) {
      expect_refusal(refusal(*mha, name),
                     {"heads cannot be converted to " + name + ": ", std::string(kind->no_heads)});
    } else {
      EXPECT_EQ(refusal(*mha, name, name == "gqa" ? Wanted{{"kv-heads", "2"}} : Wanted{}),
                "accepted")
          << name;
    }
    const auto own = small_model(name);
    if (kind->to_heads == nullptr) {
      expect_refusal(refusal(*own, "mha"), {"layer 1 cannot be converted from " + name + ": ",
                                            std::string(kind->no_heads)});
    }
  }
}

TEST(Conversion, RefusesWhatItCannotKeep) {
  const auto mha = small_model("mha"), mla = small_model("mla");
  expect_refusal(refusal(*mla, "mha"), {"from mla", "normed latent", "`latent-norm` off"});
  expect_refusal(refusal(*small_model("mfa"), "mha"), {"from mfa", "queries", "normed latent"});
  expect_refusal(refusal(*small_model("mqa/share"), "mha"),
                 {"layer 2", "shares", "no keys and values"});
  const auto shared = small_model("mha/share/mha/share", {{"layers", "4"}});
  expect_refusal(refusal(*shared, "mha/mha/share/mha", {{"layers", "4"}}),
                 {"layer 2", "to mha", "shares", "no keys and values"});
  const auto mixed = small_model("mha/mqax4", {{"layers", "2"}});
  expect_refusal(refusal(*mixed, "mha/share"), {"layer 1", "to mha", "layer 2", "another width"});
  expect_refusal(refusal(*mha, "mla/share"), {"layer 2", "to mla", "latent"});
  expect_refusal(refusal(*mha, "mqa", {{"head-dim", "4"}}), {"`head-dim`", "is 4", "it is 6"});
  expect_refusal(refusal(*mha, "mqa", {{"rope-dim", "4"}}), {"`rope-dim`", "is 4", "it is 6"});
  expect_refusal(refusal(*mha, "mla8+8"), {"`rope-dim` 8", "6"});
  expect_refusal(refusal(*mha, "mla8+2", {{"nope-dim", "6"}}), {"`nope-dim`", "is 8", "it is 6"});
  expect_refusal(refusal(*mha, "mla8+2", {{"v-dim", "4"}}), {"`v-dim`", "is 4", "it is 6"});
  expect_refusal(refusal(*mha, "mla25+2"), {"`kv-rank` 25", "24"});
  expect_refusal(refusal(*mha, "mla", {{"q-rank", "25"}}), {"`q-rank` 25", "24"});
  expect_refusal(refusal(*mha, "mla8", {}, {.energy = 0.9}), {"`energy`", "`kv-rank`"});
  expect_refusal(refusal(*mha, "gqa2", {}, {.energy = 0.9}), {"`energy`", "gqa2"});
  expect_refusal(refusal(*mha, "mqa", {{"layers", "3"}}), {"`layers` is 3", "it is 2"});
  expect_refusal(refusal(*mha, "mqa", {{"positions", "none"}}), {"`positions`"});
  expect_refusal(refusal(*small_model("mha", {{"value-residual", "0.5"}}), "mqa"),
                 {"from mha", "`value-residual`, which is 0.5"});
  expect_refusal(refusal(*mha, "mqa", {{"value-residual", "0.5"}}),
                 {"to mqa", "`value-residual`, which is 0.5"});
  expect_refusal(refusal(*small_model("mha", {{"qk-norm", "on"}}), "mqa"),
                 {"from mha", "`qk-norm`, which is on"});
  expect_refusal(refusal(*mha, "mqa", {{"qk-norm", "on"}}), {"to mqa", "`qk-norm`, which is on"});
  for (const std::string canon : {"A", "B", "CD"}) {
    expect_refusal(refusal(*small_model("mha", {{"canon", canon}}), "mqa"),
                   {"from mha", "`canon`, which is " + canon});
    expect_refusal(refusal(*mha, "mqa", {{"canon", canon}}),
                   {"to mqa", "`canon`, which is " + canon});
  }
  EXPECT_EQ(refusal(*mha, "mla/gqa2"), "accepted") << "sizes that fit one part are not the other's";
  EXPECT_EQ(refusal(*mha, "gqa2/mla"), "accepted");
  EXPECT_EQ(refusal(*small_model("mha@5/mha"), "mla@5/mla", {}, {.energy = 0.9}), "accepted");
  EXPECT_EQ(refusal(*small_model("mha/mha/share", {{"layers", "3"}}), "mla/gqa2/share", {},
                    {.energy = 0.9}),
            "accepted")
      << "the layer that shares has no keys and values of its own";
  const auto windows = small_model("mha@3/mha");
  expect_refusal(refusal(*windows, "gqa2"),
                 {"window of layer 1 is 3", "make it 0", "gqa2@32/gqa2"});
  EXPECT_EQ(refusal(*windows, "gqa2@0"), "accepted") << "no window, though that is the default";
  EXPECT_EQ(refusal(*windows, "gqa2", {{"window", "0"}}), "accepted");
  EXPECT_EQ(refusal(*windows, "gqa2@3/gqa2"), "accepted");
  EXPECT_EQ(refusal(*windows, "gqa2@3"), "accepted") << "one window for all layers";
  EXPECT_EQ(refusal(*small_model("mha@3"), "gqa2@0"), "accepted");
  EXPECT_EQ(refusal(*windows, "gqa2/gqa2@0"), "accepted") << "windows of its own";
  // Settings of single layers of a pattern.
  for (const std::string own : {"gate=on", "score-scale=none", "output-projection=off", "sinks=on",
                                "heads=2", "rope-theta=5"}) {
    const std::string name = "`" + own.substr(0, own.find('=')) + "` of layer 1";
    expect_refusal(refusal(*mha, "mha:" + own + "/mqa"), {name, "attention only"});
    if (own == "heads=2") continue;  // a model of such heads has another width of them
    expect_refusal(refusal(*small_model("mha:" + own + "/mqa"), "mha"), {name, "attention only"});
  }
}

TEST(Conversion, RefusesTiedHeadsThatCouldNotTellKeysFromValues) {
  const Wanted tied = {{"tie-kv", "on"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    return Wanted{{"positions", "none"}, {name, value}};
  };
  expect_refusal(refusal(*small_model("mha"), "mqa", tied), {"`tie-kv`", "`rope-dim`", "6"});
  expect_refusal(refusal(*small_model("mha", with("gate", "on")), "mqa", tied), {"`gate`"});
  expect_refusal(refusal(*small_model("mha", with("output-projection", "off")), "mqa", tied),
                 {"`output-projection`"});
  expect_refusal(refusal(*small_model("mha", with("score-scale", "qk-norm")), "mqa", tied),
                 {"`score-scale` qk-norm"});
  expect_refusal(refusal(*small_model("mha", with("layers", "2")), "mqa/share", tied), {"share"});
  expect_refusal(refusal(*small_model("mha", with("head-dim", "32")), "mha",
                         {{"positions", "none"}, {"head-dim", "32"}, {"tie-kv", "on"}}),
                 {"`tie-kv`", "32", "width, 24"});
  expect_refusal(refusal(*small_model("mqa", {{"tie-kv", "on"}, {"rope-dim", "4"}}), "mha",
                         {{"rope-dim", "4"}}),
                 {"`tie-kv`", "position"});
}

}  // namespace
}  // namespace headcount
