// label: unsanitized
// Values that no setting can have, and settings that have no effect, in every command line.
#include <algorithm>
#include <cmath>

#include "data/built_in.h"
#include "train/cli/commands.h"
#include "train/options.h"
#include "train/run_program.h"

namespace headcount {
namespace {

// What a command says as main does; "accepted" if it refuses nothing. Fails for an error that is
// not about usage.
std::string refusal(const Command& command, const std::vector<std::string>& arguments) {
  try {
    run_command(command, arguments, alone());
  } catch (const Error& error) {
    EXPECT_TRUE(dynamic_cast<const UsageError*>(&error) != nullptr ||
                dynamic_cast<const SettingError*>(&error) != nullptr ||
                dynamic_cast<const ShapeError*>(&error) != nullptr)
        << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return as_flags(error.what());
  }
  return "accepted";
}

// Texts that a setting cannot take, by its type.
std::vector<std::string> unusable(const Takes& takes) {
  std::vector<std::string> texts = {"", "x", "0x10", " 1", "1,5", "99999999999999999999", "nan"};
  if (const auto* whole = std::get_if<WholeRange>(&takes)) {
    texts.insert(texts.end(), {std::to_string(whole->low - 1), std::to_string(whole->high + 1),
                               "1.5", "1e3", "18446744073709551617"});
    // Units of negative numbers that would come out positive in 32 bits, and in 64.
    texts.insert(texts.end(), {"-3000000k", "-9007199254740993k"});
  } else if (const auto* range = std::get_if<NumberRange>(&takes)) {
    std::erase(texts, "99999999999999999999");
    texts.push_back(std::to_string(range->low - 1));
    for (const char* infinite : {"inf", "1e999"}) texts.push_back(infinite);
    if (range->below_high) texts.push_back(std::to_string(range->high));
    if (std::abs(range->high) < 1e9) {
      texts.push_back(std::to_string(range->high + 1));
      texts.push_back("99999999999999999999");
    }
  } else if (std::holds_alternative<Naturals>(takes)) {
    texts.insert(texts.end(), {"-1", "1.0", "18446744073709551616"});
  } else if (std::holds_alternative<Text>(takes)) {
    return {};
  }
  return texts;
}

TEST(EverySetting, RefusesWhatItsTypeDoesNotHave) {
  int tried = 0;
  for (const Command* command : kCommands) {
    for (const Setting& setting : command->settings()) {
      for (const std::string& text : unusable(setting.takes)) {
        const std::string flag = "--" + setting.name;
        std::vector<std::string> arguments = {flag + "=" + text};
        if (command == &kCostCommand && arguments[0] == "--context=1,5") continue;  // two of them
        if (command == &kDataCommand) arguments.emplace_back("tales");
        // Nothing is trained if the value is accepted.
        if (find_setting(command->settings(), "data")) arguments.emplace_back("--data=none.txt");
        const std::string said = refusal(*command, arguments);
        EXPECT_TRUE(said.starts_with(flag) && said.find("must be") != said.npos)
            << command->help.name << " " << flag << "=" << text << ": " << said;
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 1200);
}

TEST(EveryFlag, RefusesAnEmptyValue) {
  int tried = 0;
  for (const Command* command : kCommands) {
    for (const Flag& flag : command->flags) {
      if (!flag.takes_value) continue;
      EXPECT_EQ(refusal(*command, {"--" + flag.name + "="}),
                "--" + flag.name + " is empty; give it a value, or leave it out")
          << command->help.name;
      ++tried;
    }
  }
  EXPECT_GE(tried, 40);
}

// A value of the setting that its type has.
std::string usable(const Takes& takes) {
  if (const auto* whole = std::get_if<WholeRange>(&takes)) return std::to_string(whole->low);
  if (const auto* range = std::get_if<NumberRange>(&takes)) return std::to_string(range->low);
  if (const auto* choices = std::get_if<Choices>(&takes)) return choices->names.front();
  return "1";
}

TEST(EverySetting, IsRefusedBesideAnOwnerThatDoesNotHaveIt) {
  std::vector<std::pair<std::string, std::string>> owners = {{"optimizer", "adamw"},
                                                             {"optimizer", "muon"}};
  for (const AttentionKind* kind : attention_kinds()) owners.emplace_back("attention", kind->name);
  for (const BuiltInCorpus* corpus : built_in_corpora()) owners.emplace_back("data", corpus->name);
  int tried = 0;
  for (const auto& [flag, owner] : owners) {
    const auto is_owner = [&, kind = flag](const std::string& name) {
      return std::ranges::any_of(
          owners, [&](const auto& other) { return other.first == kind && other.second == name; });
    };
    for (const Setting& setting : training_settings()) {
      if (setting.is_for(owner) || !std::ranges::any_of(setting.only_for(), is_owner)) continue;
      std::vector<std::string> arguments = {"--" + flag,           owner,      "--" + setting.name,
                                            usable(setting.takes), "--layers", "2",
                                            "--print-config"};
      // A text whose positions are not learned, beside which a rotary width has no effect either.
      if (flag != "data") arguments.insert(arguments.end(), {"--data", "tales"});
      const std::string said = refusal(kTrainCommand, arguments);
      EXPECT_TRUE(said.starts_with("--" + setting.name + " has no effect with --" + flag + " " +
                                   owner + " "))
          << owner << " " << setting.name << ": " << said;
      ++tried;
    }
  }
  EXPECT_GT(tried, 200);
}

TEST(EverySetting, OfAWordIsRefusedIfTheOthersOfItsLayerLeaveItWithoutEffect) {
  const auto said = [](const std::string& spec, const char* preset = "shakespeare") {
    return refusal(kTrainCommand, {"--attention", spec, "--preset", preset, "--print-config"});
  };
  expect_parts(said("mha:canon-taps=9"),
               {"--canon-taps 9 in mha:canon-taps=9 has no effect with --canon off"});
  for (const std::string spec : {"fox:rope-theta=5", "mha/fox:rope-theta=5"})
    EXPECT_EQ(said(spec), "--rope-theta 5.0 in " + spec +
                              " rotates nothing: fox has no rotary positions; leave it out");
  for (const char* spec : {"mha:rope-theta=5", "mha:rope-dim=4"})
    expect_parts(said(spec, "nanogpt-cpu"), {"rotates nothing with --positions learned"});
  for (const char* spec : {"gta:rope-dim=4", "mla48+0"})  // the width of a cached row
    EXPECT_EQ(said(spec, "nanogpt-cpu"), "accepted");
  for (const char* spec :
       {"mha:canon=B:canon-taps=9", "mha:rope-theta=5", "mha:rope-theta=5/fox/share"})
    EXPECT_EQ(said(spec), "accepted");
}

}  // namespace
}  // namespace headcount
