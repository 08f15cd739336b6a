// What every command line of headcount has in common: help that names all flags, formats, and
// records of command lines that a shell takes back.
#include "train/cli/command_line.h"

#include <algorithm>
#include <iostream>
#include <regex>
#include <set>

#include "autograd/base/text.h"
#include "train/cli/commands.h"
#include "train/run_program.h"

namespace headcount {
namespace {

// Names of flags in `text`, without their dashes.
std::set<std::string> flags_in(const std::string& text) {
  static const std::regex flag("--([a-z0-9-]{2,})");
  return {std::sregex_token_iterator(text.begin(), text.end(), flag, 1), {}};
}

// Flags in a command's help, without its examples.
std::set<std::string> flags_of(const Command& command) {
  const std::string help = TrainFolder().done(command.help.name + " --help all").out;
  return flags_in(help.substr(0, help.find("\nExamples:")));
}

// Returns true if the command takes the flag. Its value is read after the help is printed.
bool takes(const Command& command, const std::string& flag) {
  try {
    run_command(command, {"--" + flag + "=1", "--help"}, alone());
  } catch (const UsageError& error) {
    return std::string(error.what()).find("unknown flag") == std::string::npos;
  }
  return true;
}

TEST(Help, NamesEveryFlagThatTheCommandTakes) {
  std::set<std::string> known =
      flags_in(file_contents(HEADCOUNT_FIXTURE_FOLDER "/../../README.md"));
  for (const Command* command : kCommands) known.merge(flags_of(*command));
  ASSERT_GT(known.size(), 70u);
  std::cout.setstate(std::ios::badbit);  // several hundred helps are printed to nowhere
  for (const Command* command : kCommands) {
    const std::set<std::string> named = flags_of(*command);
    for (const std::string& flag : known)
      EXPECT_EQ(takes(*command, flag), named.contains(flag)) << command->help.name << " --" << flag;
  }
  std::cout.clear();
}

TEST(Help, ShowsTheUsualFlagsOnOneScreen) {
  const TrainFolder folder;
  for (const std::string command : {"train", "compare", "cost"}) {
    const std::string help = folder.headcount(command + " --help").out;
    EXPECT_LE(std::ranges::count(help, '\n'), 60) << help;
    expect_parts(help, {"--attention ", "--context ", " --help all lists "});
    EXPECT_LT(help.size(), folder.done(command + " --help all").out.size());
  }
}

TEST(Help, HasShortFormsForThoseWhoTryThem) {
  const TrainFolder folder;
  for (const auto& [line, whole] : {std::pair{"-h", "--help"},
                                    {"help", "--help"},
                                    {"train -h", "train --help"},
                                    {"help train", "train --help"}})
    EXPECT_EQ(folder.done(line).out, folder.done(whole).out) << line;
}

TEST(Help, OfAllCommandsSaysWhatToTypeFirstAndAlignsThem) {
  const ProgramResult none = TrainFolder().headcount("");
  EXPECT_EQ(none.exit_code, kUsage);
  EXPECT_EQ(none.out, "");
  const std::string help = TrainFolder().done("--help").out, commands = "\nCommands\n";
  EXPECT_EQ(none.err, help);
  expect_parts(help, {"Begin with\n  headcount compare ", commands});
  for (const std::string& line : lines_of(help.substr(help.find(commands) + commands.size()))) {
    if (line.empty()) break;
    EXPECT_EQ(line.find_first_not_of(' ', line.find(' ', 2)), 11u) << line;
    EXPECT_LT(line.size(), 100u) << line;
  }
}

TEST(Format, OfEveryCommandIsTextJsonCsvOrMarkdown) {
  const TrainFolder folder;
  folder.trained("--quiet --out run");
  for (const std::string& line :
       {TrainFolder::train_line("--quiet"), std::string("eval --from run"),
        std::string("sample --from run --tokens 3"), std::string("ask --from run --text 16"),
        std::string("attend --from run --text 16"), std::string("report run"),
        std::string("convert --from run --attention mqa --out mqa"),
        std::string("cost --dim 16 --heads 2")}) {
    const auto output = [&](const std::string& format) {
      std::filesystem::remove_all(folder / "mqa");
      return folder.done(line + " --format " + format).out;
    };
    EXPECT_TRUE(nlohmann::json::parse(output("json")).is_object()) << line;
    const std::vector<std::string> csv = lines_of(output("csv"));
    EXPECT_GE(csv.size(), 2u) << line;
    expect_no_parts(csv.front(), {" "});
    expect_parts(output("markdown"), {"---"});
    expect_no_parts(output("text"), {"---"});
    folder.expect_refusal(line + " --format yaml", kUsage,
                          {"--format must be text, json, csv or markdown, is 'yaml'"});
  }
}

TEST(Words, WithoutAFlagNameTheRunOrTheModel) {
  const TrainFolder folder;
  folder.trained("--quiet --out run");
  for (const auto& [bare, whole] : {std::pair{"eval run", "eval --from run"},
                                    {"sample --tokens 3 run", "sample --tokens 3 --from run"},
                                    {"ask run --text 16", "ask --from run --text 16"},
                                    {"attend run --text 16", "attend --from run --text 16"},
                                    {"cost llama-3.1-8b", "cost --config llama-3.1-8b"}})
    EXPECT_EQ(folder.done(bare).out, folder.done(whole).out) << bare;
  folder.done("convert run --attention mqa --out mqa");
}

TEST(ShellWord, ComesBackFromTheShellAsItWas) {
  const TrainFolder folder;
  std::vector<std::string> texts = {"", "\n", "a\n", "-x", "~", "#", "$(id)", "%s\\n", "\u4f60"};
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  texts.push_back(all);
  for (char c = ' '; c <= '~'; ++c) texts.push_back(std::string("a") + c + "b");
  for (const std::string& text : texts) {
    const std::string word = shell_word(text);
    EXPECT_EQ(folder.shell("printf '%s.' " + word).out, text + ".") << word;
    for (const char c : word)
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << word;
  }
  EXPECT_EQ(command_text("compare", {"--data=a b", "--sweep", "lr=3e-4,1e-3", "mla48+16"}),
            "headcount compare '--data=a b' --sweep lr=3e-4,1e-3 mla48+16");
}

}  // namespace
}  // namespace headcount
