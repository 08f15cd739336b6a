// programs: own_kinds
// label: unsanitized
// A setting or a weight that somebody adds to an attention later: folders of other programs, which
// know nothing of it, do not lose it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/hugging_face.h"
#include "models/plan.h"
#include "nn/attention/attention.h"

namespace headcount {
namespace {

using nlohmann::json;

const AttentionKind& gqa_kind() { return attention_kind("gqa"); }

// The layer of gqa with the same settings.
AttentionPlan as_gqa(const AttentionPlan& c) {
  Given given(attention_settings());
  given.put_known(c.values());
  AttentionPlan gqa = resolve_attention(gqa_kind(), given, c);
  return c.shares() ? gqa.sharing({.rows = true}) : gqa;
}

// A Llama's layer with a setting that nobody lists.
const AttentionKind kSinking = [] {
  AttentionKind kind = attention_kind("gqa");
  kind.name = "sinking";
  kind.settings = [] {
    return together({gqa_kind().settings(), {{"drains", "a vector of scores", kOnOff, "off"}}});
  };
  kind.make = [](const AttentionPlan& c, LayerWeights& weights) {
    if (c.values().at("drains") == "on") weights.numbers("drains", {c.heads}, Initializer::ones());
    return gqa_kind().make(as_gqa(c), weights);
  };
  return kind;
}();

// One with a weight that follows from no setting.
const AttentionKind kWeighed = [] {
  AttentionKind kind = attention_kind("gqa");
  kind.name = "weighed";
  kind.make = [](const AttentionPlan& c, LayerWeights& weights) {
    weights.numbers("ballast", {c.heads}, Initializer::ones());
    return gqa_kind().make(c, weights);
  };
  return kind;
}();

const bool registered = [] {
  register_attention(kSinking);
  register_attention(kWeighed);
  return true;
}();

constexpr Index kCharacters = 11;

json folder_of(const json& settings) {
  const ModelPlan model = resolve_model(Given(model_settings(), settings));
  const json written = hugging_face_config(model, kCharacters);
  EXPECT_EQ(read_hugging_face_config(written).model->settings, model->settings) << written;
  return written;
}

TEST(UnlistedSettingsAndWeights, MakeAFolderOfTheirOwnUnlessTheyAreNeutral) {
  EXPECT_EQ(folder_of({{"attention", "sinking"}})["model_type"], "llama");
  const json own = folder_of({{"attention", "sinking"}, {"drains", "on"}});
  EXPECT_EQ(own["model_type"], "headcount");
  EXPECT_EQ(own["headcount"]["drains"], "on");
  EXPECT_EQ(folder_of({{"attention", "weighed"}})["model_type"], "headcount");
}

// Whatever settings there are: a folder is of another program's kind only if its keys say all of
// the model but what the attention is called.
TEST(UnlistedSettingsAndWeights, LeaveNothingForABlockThatOthersDoNotRead) {
  int claimed = 0, own = 0;
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture.empty()) continue;
    const Given plain(model_settings(), {{"attention", kind->name}, {"dim", 24}});
    for (const Setting& setting : model_settings()) {
      if (!setting.is_for(kind->name) || setting.name == "attention") continue;
      for (const char* value : {"on", "off", "1", "2", "6", "0.5", "none", "learned", "layer",
                                "gelu", "half", "interleaved", "qk-norm"}) {
        json written;
        try {
          Given config = plain;
          config.put(setting.name, value);
          written = hugging_face_config(resolve_model(config), kCharacters);
        } catch (const Error&) {
          continue;  // no value of it
        }
        ++(written["model_type"] == "headcount" ? own : claimed);
        if (written["model_type"] == "headcount") continue;
        const json block = written.value("headcount", json::object());
        for (const auto& [name, left] : block.items()) {
          EXPECT_TRUE(name == "attention" || name == "kv-heads" || left == "off" ||
                      (name == "head-dim" && kind->architecture == "deepseek_v3"))
              << name << " with " << setting.name << " " << value;
        }
      }
    }
  }
  EXPECT_GT(claimed, 50);
  EXPECT_GT(own, 50);
}

}  // namespace
}  // namespace headcount
