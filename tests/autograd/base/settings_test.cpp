#include "autograd/base/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "models/plan.h"
#include "support/message_of.h"

namespace headcount {
namespace {

enum class Shade { light = 1, dark };
constexpr Named<Shade> kShades[] = {{"light", Shade::light}, {"dark", Shade::dark}};

nlohmann::json twice(const Given& values) { return 2 * values.whole("count"); }

// One setting of each kind, and one that follows from another.
const SettingList& example_settings() {
  static const SettingList list =
      settings_in(Scope::model, {{"count", "a count", WholeRange{1, 100}, 7},
                                 {"length", "a length", WholeRange{1, 1 << 24}, 64},
                                 {"seed", "a seed", Naturals{}, 1U},
                                 {"rate", "a rate", NumberRange{0}, 0.5},
                                 {"share", "a share", kFraction, 0.25},
                                 {"bias", "biases", kOnOff, "off"},
                                 {"shade", "a shade", kShades, "light"},
                                 {"twice", "count, doubled", WholeRange{1}, {"2 count", twice}}});
  return list;
}

TEST(SettingOfEachType, TakesItsRangeAndNamesItBesideAnyOtherValue) {
  Given given(example_settings());
  for (const auto& [setting, text, value] :
       std::vector<std::tuple<const char*, const char*, nlohmann::json>>{
           {"count", "1", 1},
           {"count", "100", 100},
           {"length", "100", 100},
           {"length", "1k", 1024},
           {"length", "64K", 65536},
           {"length", "1M", 1048576},
           {"twice", "10k", 10240},
           {"seed", "18446744073709551615", ~0ULL},
           {"rate", "0e-400", 0.0},
           {"rate", "1e-3", 1e-3},
           {"share", "0.999", 0.999},
           {"shade", "dark", "dark"},
           {"bias", "on", "on"}}) {
    given.put(setting, text);
    EXPECT_EQ(given.get(setting), value) << setting << " " << text;
  }
  for (const auto& [setting, text, must] :
       {std::tuple{"count", "101", "be between 1 and 100, is 101"},
        {"count", "+5", "be a whole number, such as 12 or 4k (4096), is '+5'"},
        {"length", "1kk", "be a whole number, such as 12 or 4k (4096), is '1kk'"},
        {"length", "17M", "be between 1 and 16777216, is 17M"},
        {"length", "0k", "be between 1 and 16777216, is 0k"},
        {"seed", "-1", "be a whole number from 0 to 2^64 - 1, is '-1'"},
        {"rate", "-0.1", "be at least 0, is -0.1"},
        {"rate", "1e", "be a number, is '1e'"},
        {"rate", ".5e+", "be a number, is '.5e+'"},
        {"rate", "1e-400", "be 0 or at least 1.2e-38: 1e-400 is too small for single precision"},
        {"rate", "1e-50", "be 0 or at least 1.2e-38: 1e-50 is too small for single precision"},
        {"rate", "inf", "be at least 0, is inf"},
        {"rate", "+1", "be a number, is '+1'"},
        {"share", "1", "be at least 0 and below 1, is 1"},
        {"bias", "true", "be one of on, off, is 'true'"}})
    EXPECT_EQ(
        message_of<SettingError>([&, name = setting, value = text] { given.put(name, value); }),
        "`" + std::string(setting) + "` must " + must);
}

TEST(GivenSettings, OverrideThoseGivenBeforeAndLeaveTheRestToDefaults) {
  Given given(example_settings(), {{"count", 3}, {"shade", "dark"}});
  given.put({{"count", 4}});
  EXPECT_EQ(given.whole("count"), 4);
  EXPECT_EQ(given.chosen("shade", kShades), Shade::dark);
  EXPECT_EQ(given.number("rate"), 0.5);
  EXPECT_EQ(given.whole("twice"), 8) << "it follows from what was given";
  EXPECT_FALSE(given.has("rate"));
  EXPECT_THROW(given.get("colour"), std::logic_error);
}

struct Lamp {
  Index count;
  double rate;
  Shade shade;
  bool bias;

  void visit(const auto& setting) {
    setting({"twice", "a setting that is read elsewhere", WholeRange{0}, 0});
    setting(count, {"count", "lamps", WholeRange{1}, 2});
    setting(rate, {"rate", "flashes a second", NumberRange{0}, 0.25});
    setting(shade, {"shade", "colour", kShades, "light"}, kShades);
    setting(bias, {"bias", "whether they stand askew", kOnOff, "off"});
  }
};

TEST(StructOfSettings, ListsItsSettingsAndReadsTheirValues) {
  static const SettingList settings = settings_of<Lamp>();
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{"twice", "count", "rate", "shade", "bias"}));
  const auto lamp = read<Lamp>(Given(settings, {{"count", 3}, {"shade", "dark"}, {"bias", "on"}}));
  EXPECT_EQ(lamp.count, 3);
  EXPECT_EQ(lamp.rate, 0.25);
  EXPECT_EQ(lamp.shade, Shade::dark);
  EXPECT_TRUE(lamp.bias);
}

TEST(GivenSettings, OfAWordAreThoseThatItStandsFor) {
  Given given(model_settings(), {{"kv-heads", 4}, {"kv-rank", 9}});
  given.put("attention", "gqa2");
  EXPECT_EQ(given.values(),
            (nlohmann::ordered_json{{"kv-heads", 2}, {"kv-rank", 9}, {"attention", "gqa"}}));
}

ModelPlan resolved(const nlohmann::json& values) {
  return resolve_model(Given(model_settings(), values));
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

}  // namespace
}  // namespace headcount
