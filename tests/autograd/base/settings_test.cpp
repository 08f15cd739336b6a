#include "autograd/base/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "models/language_model.h"
#include "support/message_of.h"

namespace headcount {
namespace {

constexpr const char* kTooLarge = "99999999999999999999";  // for 64 bits too

enum class Shade { light = 1, dark };
constexpr Named<Shade> kShades[] = {{"light", Shade::light}, {"dark", Shade::dark}};

nlohmann::json twice(const Given& values) { return 2 * values.whole("count"); }

// One setting of each kind, and one that follows from another.
const SettingList& example_settings() {
  static const SettingList list =
      settings_in(Scope::model, {{"count", "a count", WholeRange{1, 100}, 7},
                                 {"length", "a length", tokens(1, 1 << 24), 64},
                                 {"seed", "a seed", Naturals{}, 1U},
                                 {"rate", "a rate", NumberRange{0}, 0.5},
                                 {"share", "a share", kFraction, 0.25},
                                 {"bias", "biases", kOnOff, "off"},
                                 {"tie", "tied", kOnOff, "off", {.bare = true}},
                                 {"name", "a name", Text{}, "a"},
                                 {"shade", "a shade", kShades, "light"},
                                 {"twice", "count, doubled", WholeRange{1}, {"2 count", twice}}});
  return list;
}

struct Example {
  Given given{example_settings()};

  void parse(const std::string& setting, const std::string& text) { given.put(setting, text); }
  // What refusing `text` says; the value must not change.
  std::string error_of(const std::string& setting, const std::string& text) {
    const nlohmann::ordered_json before = given.values();
    try {
      parse(setting, text);
    } catch (const SettingError& error) {
      EXPECT_EQ(given.values(), before) << setting << " " << text;
      return error.what();
    }
    return "no error";
  }
};

TEST(SettingOfEachType, TakesItsRangeAndNothingElse) {
  Example e;
  for (const auto& [setting, text, value] :
       std::vector<std::tuple<std::string, std::string, nlohmann::json>>{
           {"count", "1", 1},
           {"count", "100", 100},
           {"length", "100", 100},
           {"length", "1k", 1024},
           {"length", "128k", 131072},
           {"length", "64K", 65536},
           {"length", "1M", 1048576},
           {"seed", "0", 0U},
           {"seed", "18446744073709551615", ~0ULL},
           {"rate", "1e-3", 1e-3},
           {"rate", "0", 0.0},
           {"share", "0.999", 0.999},
           {"shade", "dark", "dark"},
           {"bias", "on", "on"},
           {"bias", "off", "off"},
           {"tie", "on", "on"}}) {
    e.parse(setting, text);
    EXPECT_EQ(nlohmann::json(e.given.values()[setting]), value) << setting << " " << text;
  }
  EXPECT_EQ(e.given.chosen("shade", kShades), Shade::dark);
  EXPECT_FALSE(e.given.on("bias"));
  struct Refused {
    std::string setting, must;
    std::vector<std::string> texts;
    bool quotes = true;
  };
  for (const auto& [setting, must, texts, quotes] : std::vector<Refused>{
           {"count",
            "be between 1 and 100",
            {"0", "101", "-5", "18446744073709551617", kTooLarge},
            false},
           {"count",
            "be a whole number",
            {"", "ten", "1.5", "1e2", " 5", "5 ", "+5", "0x10", "5,6", "nan"}},
           {"length", "be a whole number", {"k", "1.5k", "1kk", "1m", "k1", "1 k", "1G"}},
           {"length",
            "be between 1 and 16777216",
            {"17M", "0k", "99999999999k", "-3000000k", "-9007199254740993k"},
            false},
           {"seed",
            "be a whole number from 0 to 2^64 - 1",
            {"18446744073709551616", kTooLarge, "-1", "1.0", "x", ""}},
           {"rate", "be at least 0", {"-0.1", "inf", "1e999"}, false},
           {"rate", "be a number", {"", "much", "0.1x", "nan", "0,5", "+1", " 1"}},
           {"share", "be at least 0 and below 1", {"-0.1", "1", "2", "inf"}, false},
           {"shade", "be one of light, dark", {"grey", ""}},
           {"bias", "be one of on, off", {"true"}},
           {"tie", "be one of on, off", {"1"}}}) {
    for (const std::string& text : texts)
      EXPECT_EQ(e.error_of(setting, text),
                "`" + setting + "` must " + must + ", is " + (quotes ? "'" + text + "'" : text));
  }
  EXPECT_TRUE(find_setting(example_settings(), "tie")->traits.bare);
  EXPECT_FALSE(find_setting(example_settings(), "bias")->traits.bare);
}

TEST(SettingsObject, RoundTripsThroughJson) {
  Example written;
  for (const auto& [setting, text] :
       std::vector<std::pair<std::string, std::string>>{{"count", "42"},
                                                        {"seed", "18446744073709551615"},
                                                        {"rate", "0.1"},
                                                        {"share", "1e-7"},
                                                        {"bias", "on"},
                                                        {"tie", "on"},
                                                        {"name", "\"\n\u00e9"},
                                                        {"shade", "dark"}}) {
    written.parse(setting, text);
  }
  Example read;
  read.given.put(nlohmann::json::parse(written.given.values_of(example_settings()).dump()));
  EXPECT_EQ(read.given.values_of(example_settings()), written.given.values_of(example_settings()));
  EXPECT_EQ(read.given.get("seed"), 18446744073709551615u);
  EXPECT_EQ(read.given.number("rate"), 0.1);
  EXPECT_EQ(read.given.text("name"), "\"\n\u00e9");
  EXPECT_EQ(read.given.whole("twice"), 84);
}

TEST(SettingsObject, RefusesUnknownKeysAndWrongTypes) {
  Example e;
  const auto error_of = [&](const nlohmann::json& object) {
    return message_of<SettingError>([&] { e.given.put(object); });
  };
  EXPECT_EQ(error_of({{"colour", 1}}), "'colour' is not a setting");
  EXPECT_EQ(error_of(nlohmann::json::array({1})), "a configuration must be a JSON object");
  EXPECT_EQ(error_of({{"count", 1.5}}), "`count` must be a whole number, is '1.5'");
  EXPECT_EQ(error_of({{"count", nullptr}}), "`count` must be a whole number, is 'null'");
  EXPECT_EQ(error_of({{"count", {1}}}), "`count` must be a whole number, is '[1]'");
  EXPECT_EQ(error_of({{"count", 1000}}), "`count` must be between 1 and 100, is 1000");
  EXPECT_EQ(error_of({{"bias", true}}), "`bias` must be one of on, off, is 'true'");
}

TEST(GivenSettings, OverrideThoseGivenBeforeAndLeaveTheRestToDefaults) {
  Example e;
  e.given.put({{"count", 3}, {"shade", "dark"}});
  e.given.put({{"count", 4}});
  EXPECT_EQ(e.given.whole("count"), 4);
  EXPECT_EQ(e.given.chosen("shade", kShades), Shade::dark);
  EXPECT_EQ(e.given.number("rate"), 0.5);
  EXPECT_EQ(e.given.whole("twice"), 8) << "it follows from what was given";
  EXPECT_FALSE(e.given.has("rate"));
  EXPECT_THROW(e.given.get("colour"), std::logic_error);
}

TEST(GivenSettings, OfAWordAreThoseThatItStandsFor) {
  Given given(model_settings(), {{"kv-heads", 4}, {"kv-rank", 9}});
  given.put("attention", "gqa2");
  EXPECT_EQ(given.values(),
            (nlohmann::ordered_json{{"kv-heads", 2}, {"kv-rank", 9}, {"attention", "gqa"}}));
}

// What is not resolved cannot be passed where a plan is wanted.
static_assert(!std::is_default_constructible_v<ModelPlan>);
static_assert(!std::is_constructible_v<ModelPlan, Given>);
static_assert(!std::is_constructible_v<ModelPlan, ResolvedModel>);
static_assert(!std::is_constructible_v<LanguageModel, Given, Index>);
static_assert(!std::is_default_constructible_v<AttentionPlan>);
static_assert(!std::is_constructible_v<AttentionPlan, LayerSettings>);

ModelPlan resolved(const nlohmann::json& values) {
  return resolve_model(Given(model_settings(), values));
}

TEST(ModelSettings, HaveUniqueNamesAndHelpAndAreThoseOfTheirKinds) {
  std::set<std::string> names;
  for (const Setting& setting : model_settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
  for (const AttentionKind* kind : attention_kinds()) {
    for (const Setting& own : kind->settings()) {
      EXPECT_TRUE(find_setting(model_settings(), own.name)->is_for(kind->name))
          << kind->name << " has no flag " << own.name;
    }
    for (const std::string_view name : kind->numbers) {
      const Setting* const setting = find_setting(model_settings(), name);
      EXPECT_TRUE(name.empty() || (setting != nullptr && setting->is_for(kind->name)))
          << kind->name << " has no " << name;
    }
  }
}

TEST(ModelSettings, DefaultsFollowFromTheOthers) {
  const ModelPlan llama = resolved({{"dim", 128}});
  EXPECT_EQ(llama->ffn_dim, 344);  // 8/3 128 = 341.3, rounded up to a multiple of 8
  EXPECT_EQ(llama->norm_epsilon, 1e-6);
  EXPECT_EQ(resolved({{"dim", 96}})->ffn_dim, 256);
  const ModelPlan gpt = resolved({{"dim", 128}, {"activation", "gelu"}, {"norm", "layer"}});
  EXPECT_EQ(gpt->ffn_dim, 512);
  EXPECT_EQ(gpt->norm_epsilon, 1e-5);
  const ModelPlan given = resolved({{"ffn-dim", 10}, {"norm-epsilon", 0.5}});
  EXPECT_EQ(given->ffn_dim, 10);
  EXPECT_EQ(given->norm_epsilon, 0.5);
}

TEST(ModelSettings, GiveTheLayerWhatItSharesWithTheModel) {
  const ModelPlan model =
      resolved({{"dim", 48}, {"context", 9}, {"bias", "on"}, {"positions", "learned"}});
  const AttentionPlan& attention = model->cycle.front();
  EXPECT_EQ(attention.dim, 48);
  EXPECT_EQ(attention.max_positions, 9);
  EXPECT_TRUE(attention.bias);
  EXPECT_FALSE(attention.rotary);
  EXPECT_TRUE(resolved({{"positions", "rope"}})->cycle.front().rotary);
  EXPECT_FALSE(resolved({{"positions", "none"}})->cycle.front().rotary);
}

TEST(ModelSettings, NameOnlyWhatTheAttentionHas) {
  const auto mha = resolved({{"attention", "mha"}})->settings;
  for (const char* const name : {"kv-heads", "kv-rank", "q-rank", "nope-dim", "latent-dim"}) {
    EXPECT_FALSE(mha.contains(name)) << name;
  }
  const auto mla = resolved({{"attention", "mla"}})->settings;
  for (const char* const name : {"kv-rank", "q-rank", "nope-dim", "rope-dim", "v-dim"}) {
    EXPECT_TRUE(mla.contains(name)) << name;
  }
  EXPECT_FALSE(mla.contains("kv-heads"));
  EXPECT_TRUE(resolved({{"attention", "gqa"}})->settings.contains("kv-heads"));
}

}  // namespace
}  // namespace headcount
