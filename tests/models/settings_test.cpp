#include "nn/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/language_model.h"

namespace headcount {
namespace {

constexpr const char* kTooLarge = "99999999999999999999";  // for 64 bits too

// One setting of each kind.
struct Example {
  Index count = 7, length = 64;
  std::uint64_t seed = 1;
  double rate = 0.5, share = 0.25;
  bool bias = false, tie = false;
  std::string name = "a";
  int shade = 1;
  Settings settings;

  Example() {
    settings.integer("count", "a count", count, 1, 100);
    settings.token_count("length", "a length", length, 1, 1 << 24);
    settings.unsigned_integer("seed", "a seed", seed);
    settings.number("rate", "a rate", rate, 0);
    settings.number("share", "a share", share, 0, 1, true);
    settings.on_off("bias", "biases", bias);
    settings.flag("tie", "tied", tie);
    settings.text("name", "a name", name);
    settings.choice<int>("shade", "a shade", shade, {{"light", 1}, {"dark", 2}});
  }

  void parse(const std::string& setting, const std::string& text) {
    settings.find(setting)->parse(text);
  }
  // What refusing `text` says; the value must not change.
  std::string error_of(const std::string& setting, const std::string& text) {
    const nlohmann::ordered_json before = settings.values();
    try {
      parse(setting, text);
    } catch (const SettingError& error) {
      EXPECT_EQ(settings.values(), before) << setting << " " << text;
      return error.what();
    }
    return "no error";
  }
};

TEST(IntegerSetting, TakesItsRangeAndNothingElse) {
  Example e;
  e.parse("count", "1");
  EXPECT_EQ(e.count, 1);
  e.parse("count", "100");
  EXPECT_EQ(e.count, 100);
  for (const char* const text : {"0", "101", "-5", "4294967297", "18446744073709551617", kTooLarge,
                                 "-99999999999999999999"}) {
    EXPECT_EQ(e.error_of("count", text),
              std::string("`count` must be between 1 and 100, is ") + text);
  }
}

TEST(IntegerSetting, RefusesWhatIsNoWholeNumber) {
  Example e;
  for (const char* const text : {"", "ten", "1.5", "1e2", " 5", "5 ", "+5", "0x10", "5,6", "nan"}) {
    EXPECT_EQ(e.error_of("count", text),
              std::string("`count` wants a whole number, got '") + text + "'");
  }
}

TEST(TokenCountSetting, TakesUnitsOfPowersOfTwo) {
  Example e;
  for (const auto& [text, tokens] :
       {std::pair{"100", Index{100}}, std::pair{"1k", Index{1024}},
        std::pair{"128k", Index{131072}}, std::pair{"64K", Index{65536}},
        std::pair{"1M", Index{1048576}}}) {
    e.parse("length", text);
    EXPECT_EQ(e.length, tokens) << text;
    EXPECT_EQ(e.settings.find("length")->value(), tokens) << text;
  }
  EXPECT_EQ(e.error_of("length", "0k"), "`length` must be between 1 and 16777216, is 0");
  EXPECT_EQ(e.error_of("length", "17M"), "`length` must be between 1 and 16777216, is 17825792");
  for (const char* const text : {"k", "M", "1.5k", "1kk", "1m", "k1", "1 k", "1G", "99999999999k"})
    EXPECT_EQ(e.error_of("length", text),
              std::string("`length` wants a whole number, got '") + text + "'");
}

TEST(UnsignedSetting, TakesSixtyFourBitsAndNothingElse) {
  Example e;
  e.parse("seed", "18446744073709551615");
  EXPECT_EQ(e.seed, 18446744073709551615u);
  e.parse("seed", "0");
  EXPECT_EQ(e.seed, 0u);
  for (const char* const text : {"18446744073709551616", kTooLarge, "-1", "1.0", "x", ""}) {
    EXPECT_EQ(e.error_of("seed", text),
              std::string("`seed` wants a whole number from 0 to 2^64 - 1, got '") + text + "'");
  }
}

TEST(NumberSetting, TakesItsRangeAndNothingElse) {
  Example e;
  e.parse("rate", "1e-3");
  EXPECT_EQ(e.rate, 1e-3);
  e.parse("rate", "0");
  EXPECT_EQ(e.rate, 0);
  e.parse("share", "0.999");
  EXPECT_EQ(e.share, 0.999);
  for (const char* const text : {"-0.1", "inf", "1e999"}) {
    EXPECT_EQ(e.error_of("rate", text), std::string("`rate` must be at least 0, is ") + text);
  }
  for (const char* const text : {"-0.1", "1", "2", "inf"}) {
    EXPECT_EQ(e.error_of("share", text),
              std::string("`share` must be at least 0 and below 1, is ") + text);
  }
}

TEST(NumberSetting, RefusesWhatIsNoNumber) {
  Example e;
  for (const char* const text : {"", "much", "0.1x", "nan", "0,5", "+1", " 1"}) {
    EXPECT_EQ(e.error_of("rate", text), std::string("`rate` wants a number, got '") + text + "'");
  }
}

TEST(ChoiceSetting, TakesItsNamesAndListsThemOtherwise) {
  Example e;
  e.parse("shade", "dark");
  EXPECT_EQ(e.shade, 2);
  EXPECT_EQ(e.error_of("shade", "grey"), "`shade` must be one of light, dark, is 'grey'");
  EXPECT_EQ(e.error_of("shade", ""), "`shade` must be one of light, dark, is ''");
  e.parse("bias", "on");
  EXPECT_TRUE(e.bias);
  e.parse("bias", "off");
  EXPECT_FALSE(e.bias);
  EXPECT_EQ(e.error_of("bias", "true"), "`bias` must be one of on, off, is 'true'");
}

TEST(FlagSetting, IsOnOrOffAndMayStandAlone) {
  Example e;
  e.parse("tie", "on");
  EXPECT_TRUE(e.tie);
  EXPECT_EQ(e.error_of("tie", "1"), "`tie` must be one of on, off, is '1'");
  EXPECT_TRUE(e.settings.find("tie")->bare);
  EXPECT_FALSE(e.settings.find("bias")->bare);
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
  read.settings.read(nlohmann::json::parse(written.settings.values().dump()));
  EXPECT_EQ(read.settings.values(), written.settings.values());
  EXPECT_EQ(read.seed, 18446744073709551615u);
  EXPECT_EQ(read.rate, 0.1);
  EXPECT_EQ(read.name, "\"\n\u00e9");
}

TEST(SettingsObject, RefusesUnknownKeysAndWrongTypes) {
  Example e;
  const auto error_of = [&](const nlohmann::json& object) -> std::string {
    try {
      e.settings.read(object);
    } catch (const SettingError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({{"colour", 1}}), "'colour' is not a setting");
  EXPECT_EQ(error_of(nlohmann::json::array({1})), "a configuration must be a JSON object");
  EXPECT_EQ(error_of({{"count", 1.5}}), "`count` wants a whole number, got '1.5'");
  EXPECT_EQ(error_of({{"count", nullptr}}), "`count` wants a whole number, got 'null'");
  EXPECT_EQ(error_of({{"count", {1}}}), "`count` wants a whole number, got '[1]'");
  EXPECT_EQ(error_of({{"count", 1000}}), "`count` must be between 1 and 100, is 1000");
  EXPECT_EQ(error_of({{"bias", true}}), "`bias` must be one of on, off, is 'true'");
}

ModelConfig resolved(const nlohmann::json& values) {
  ModelConfig config;
  config.settings().read(values);
  config.resolve();
  return config;
}

TEST(ModelSettings, HaveUniqueNamesGroupsAndHelp) {
  ModelConfig config;
  const Settings settings = config.settings();
  std::set<std::string> names;
  for (const Setting& setting : settings.all()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.group.empty()) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
  for (const AttentionKind* kind : attention_kinds()) {
    for (const std::string& own : own_settings(*kind))
      EXPECT_TRUE(settings.find(own)->is_for(kind->name)) << kind->name << " has no flag " << own;
  }
}

TEST(ModelSettings, DefaultsFollowFromTheOthers) {
  const ModelConfig llama = resolved({{"dim", 128}});
  EXPECT_EQ(llama.ffn_dim, 344);  // 8/3 128 = 341.3, rounded up to a multiple of 8
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(resolved({{"dim", 96}}).ffn_dim, 256);
  const ModelConfig gpt = resolved({{"dim", 128}, {"activation", "gelu"}, {"norm", "layer"}});
  EXPECT_EQ(gpt.ffn_dim, 512);
  EXPECT_EQ(gpt.norm_epsilon, 1e-5);
  const ModelConfig given = resolved({{"ffn-dim", 10}, {"norm-epsilon", 0.5}});
  EXPECT_EQ(given.ffn_dim, 10);
  EXPECT_EQ(given.norm_epsilon, 0.5);
}

TEST(ModelSettings, GiveTheLayerWhatItSharesWithTheModel) {
  const ModelConfig config = resolved(
      {{"dim", 48}, {"context", 9}, {"bias", "on"}, {"dropout", 0.25}, {"positions", "learned"}});
  EXPECT_EQ(config.attention.dim, 48);
  EXPECT_EQ(config.attention.max_positions, 9);
  EXPECT_TRUE(config.attention.bias);
  EXPECT_EQ(config.attention.dropout, 0.25);
  EXPECT_FALSE(config.attention.rotary);
  EXPECT_TRUE(resolved({{"positions", "rope"}}).attention.rotary);
  EXPECT_FALSE(resolved({{"positions", "none"}}).attention.rotary);
}

// Written, read and resolved again: the same settings and the same model.
TEST(ModelSettings, RoundTripThroughJsonForEveryAttention) {
  for (const AttentionKind* kind : attention_kinds()) {
    for (const nlohmann::json& more : std::vector<nlohmann::json>{nlohmann::json::object(),
                                                                  {{"norm", "layer"},
                                                                   {"activation", "gelu"},
                                                                   {"positions", "learned"},
                                                                   {"bias", "on"},
                                                                   {"tie-embeddings", "on"},
                                                                   {"score-scale", 0.3},
                                                                   {"dropout", 0.1}},
                                                                  {{"head-dim", 6},
                                                                   {"rope-layout", "interleaved"},
                                                                   {"rope-theta", 500},
                                                                   {"score-scale", "length"},
                                                                   {"ffn-dim", 20},
                                                                   {"norm-epsilon", 1e-3}}}) {
      nlohmann::json values = {{"attention", kind->name}, {"dim", 16}, {"layers", 1}};
      values.update(more);
      if (!kind->attends) values.erase("score-scale");
      const ModelConfig written = resolved(values);
      const ModelConfig read = resolved(nlohmann::json::parse(to_json(written).dump()));
      EXPECT_EQ(to_json(read), to_json(written));
      LanguageModel a(written, 5), b(read, 5);
      a.initialize(1);
      b.initialize(1);
      Tape tape_a(a.parameters()), tape_b(b.parameters());
      const std::vector<std::int32_t> tokens = {0, 3, 1, 4, 2};
      const Var logits_a = a.logits(tape_a, tokens, 1), logits_b = b.logits(tape_b, tokens, 1);
      EXPECT_TRUE(std::ranges::equal(logits_a.value(), logits_b.value())) << to_json(written);
    }
  }
}

TEST(ModelSettings, NameOnlyWhatTheAttentionHas) {
  const auto mha = to_json(resolved({{"attention", "mha"}}));
  for (const char* const name : {"kv-heads", "kv-rank", "q-rank", "nope-dim", "latent-dim"}) {
    EXPECT_FALSE(mha.contains(name)) << name;
  }
  const auto mla = to_json(resolved({{"attention", "mla"}}));
  for (const char* const name : {"kv-rank", "q-rank", "nope-dim", "rope-dim", "v-dim"}) {
    EXPECT_TRUE(mla.contains(name)) << name;
  }
  EXPECT_FALSE(mla.contains("kv-heads"));
  EXPECT_TRUE(to_json(resolved({{"attention", "gqa"}})).contains("kv-heads"));
}

TEST(ModelSettings, ScoreScaleNamesItsFlagWhenWrong) {
  ModelConfig config;
  const Settings settings = config.settings();
  try {
    settings.find("score-scale")->parse("big");
    FAIL() << "accepted";
  } catch (const SettingError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("`score-scale`")) << error.what();
  }
}

}  // namespace
}  // namespace headcount
