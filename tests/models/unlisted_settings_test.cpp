// A setting or a weight that somebody adds to an attention later: folders of other programs and
// conversions, which know nothing of it, do not lose it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/hugging_face.h"
#include "models/small_conversion.h"
#include "nn/attention/kinds.h"

namespace headcount {
namespace {

using nlohmann::json;

struct AddedSettings {
  bool sinks = false, ballast = false;
};

void add_settings(AttentionConfig& c, Settings& s) {
  kGqa.settings(c, s);
  s.on_off("sinks", "a learned score that no token has", c.own<AddedSettings>().sinks);
  s.on_off("ballast", "a vector of each layer", c.own<AddedSettings>().ballast);
}

void add_vector(AttentionDescription& description, const std::string& name, Index size) {
  description.forms.front().projections.push_back(
      Projection::vector(name, size, Initializer::ones()));
}

AttentionDescription describe_added(const AttentionConfig& c) {
  AttentionDescription description = kGqa.describe(c);
  if (c.own<AddedSettings>().sinks) add_vector(description, "sinks", c.heads);
  if (c.own<AddedSettings>().ballast) add_vector(description, "ballast", c.heads);
  return description;
}

constexpr std::string_view kConverts[] = {"kv-heads", "rope-dim", "tie-kv", "ballast"};

// A Llama's layer with settings that nobody lists but for `ballast`, which its conversions do.
const AttentionKind kSinking = [] {
  AttentionKind kind = attention_kind("gqa");
  kind.name = "sinking";
  kind.settings = add_settings;
  kind.describe = describe_added;
  kind.converts = kConverts;
  return kind;
}();

// One with a weight that follows from no setting.
const AttentionKind kWeighed = [] {
  AttentionKind kind = attention_kind("gqa");
  kind.name = "weighed";
  kind.describe = [](const AttentionConfig& c) {
    AttentionDescription description = kGqa.describe(c);
    add_vector(description, "ballast", c.heads);
    return description;
  };
  kind.to_heads = nullptr;
  kind.of_heads = nullptr;
  return kind;
}();

const bool registered = [] {
  register_attention(kSinking);
  register_attention(kWeighed);
  return true;
}();

json folder_of(const std::string& attention, const Given& given = {}) {
  ModelConfig config = small_config(attention, given);
  config.resolve();
  const json written = hugging_face_config(config, kConvertedVocabulary);
  EXPECT_EQ(to_json(read_hugging_face_config(written).model), to_json(config)) << written;
  return written;
}

TEST(UnlistedSetting, MakesAFolderOfItsOwnUnlessItIsNeutral) {
  EXPECT_EQ(folder_of("sinking")["model_type"], "llama");
  const json own = folder_of("sinking", {{"sinks", "on"}});
  EXPECT_EQ(own["model_type"], "headcount");
  EXPECT_EQ(own["headcount"]["sinks"], "on");
}

TEST(UnlistedWeight, MakesAFolderOfItsOwn) {
  EXPECT_EQ(folder_of("weighed")["model_type"], "headcount");
}

std::string refusal(const LanguageModel& from, const std::string& attention, const Given& given) {
  try {
    converted(from, attention, given);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(UnlistedSetting, IsNotConvertedUnlessItIsNeutral) {
  EXPECT_EQ(refusal(*small_model("sinking"), "mha", {}), "accepted");
  EXPECT_EQ(refusal(*small_model("mha"), "sinking", {}), "accepted");
  const std::string why = "its conversion does not know `sinks`, which is on";
  EXPECT_EQ(refusal(*small_model("sinking", {{"sinks", "on"}}), "mha", {}),
            "layer 0 cannot be converted from sinking: " + why);
  EXPECT_EQ(refusal(*small_model("mha"), "sinking", {{"sinks", "on"}}),
            "layer 0 cannot be converted to sinking: " + why);
  EXPECT_EQ(refusal(*small_model("mha/sinking:sinks=on"), "mha", {}),
            "layer 1 cannot be converted from sinking: " + why);
}

TEST(UnlistedWeight, IsNotConverted) {
  const std::string why = "its conversion does not know the weights 'ballast'";
  EXPECT_EQ(refusal(*small_model("sinking", {{"ballast", "on"}}), "mha", {}),
            "layer 0 cannot be converted from sinking: " + why);
  EXPECT_EQ(refusal(*small_model("mha"), "sinking", {{"ballast", "on"}}),
            "layer 0 cannot be converted to sinking: " + why);
}

// Whatever settings there are: a folder is of another program's kind only if its keys say all of
// the model but what the attention is called.
TEST(UnlistedSetting, LeavesNothingForABlockThatOthersDoNotRead) {
  int claimed = 0, own = 0;
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture.empty()) continue;
    ModelConfig plain = small_config(std::string(kind->name));
    const Settings settings = plain.settings();
    for (const Setting& setting : settings.all()) {
      if (!setting.is_for(kind->name) || setting.name == "attention") continue;
      for (const char* value : {"on", "off", "1", "2", "6", "0.5", "none", "learned", "layer",
                                "gelu", "half", "interleaved", "qk-norm"}) {
        ModelConfig config = plain;
        try {
          config.settings().find(setting.name)->parse(value);
          config.resolve();
        } catch (const Error&) {
          continue;  // no value of it
        }
        json written = hugging_face_config(config, kConvertedVocabulary);
        ++(written["model_type"] == "headcount" ? own : claimed);
        if (written["model_type"] == "headcount") continue;
        written.erase("headcount");
        ModelConfig read = read_hugging_face_config(written).model;
        const json there = to_json(read), here = to_json(config);
        for (const auto& [name, had] : there.items()) {
          if (name == "attention" || name == "dropout" || name == "kv-heads") continue;
          if (name == "head-dim" && kind->architecture == "deepseek_v3") continue;
          EXPECT_EQ(had, here.value(name, json()))
              << name << " with " << setting.name << " " << value;
        }
        for (const auto& [name, had] : here.items()) {
          if (there.contains(name) || name == "kv-heads") continue;
          EXPECT_TRUE(had == "off") << name << " with " << setting.name << " " << value;
        }
      }
    }
  }
  EXPECT_GT(claimed, 50);
  EXPECT_GT(own, 50);
}

}  // namespace
}  // namespace headcount
