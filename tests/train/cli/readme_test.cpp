// The command lines of README.md and of the help: a reader pastes them, so they must be right.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "train/run_program.h"

namespace headcount {
namespace {

const std::string kReadme = file_contents(HEADCOUNT_FIXTURE_FOLDER "/../../README.md");

struct Example {
  std::string line;    // "headcount cost ...", lines that go on and all
  std::string output;  // what README.md shows below it
};

// Commands that begin a line with `prompt`, in blocks between ``` lines that begin with `fence`.
std::vector<Example> examples(const std::string& fence, const std::string& prompt) {
  std::vector<Example> all;
  std::istringstream lines(kReadme);
  bool block = false, wanted = false, shown = false;  // the output of a command of this block
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block;
      wanted = block && line == fence;
      shown = false;
    } else if (wanted && line.starts_with(prompt + "headcount ")) {
      Example& example = all.emplace_back(Example{line.substr(prompt.size()), ""});
      while (example.line.ends_with('\\') && std::getline(lines, line)) example.line += "\n" + line;
      shown = true;
    } else if (wanted && shown) {
      all.back().output += line + "\n";
    }
  }
  return all;
}

// Runs a line in a shell, as if pasted, in a folder with the texts that the examples name.
ProgramResult paste(const TrainFolder& folder, const std::string& line) {
  folder.file("input.txt", folder.contents("text.txt"));
  folder.file("script", line + "\n");
  const std::string program = HEADCOUNT_PROGRAM;
  const int status =
      std::system(("cd '" + folder.path().string() + "' && PATH='" +
                   program.substr(0, program.rfind('/')) + "':$PATH sh script >out 2>err")
                      .c_str());
  return {WEXITSTATUS(status), folder.contents("out"), folder.contents("err")};
}

TEST(Readme, ItsCommandsRunWhenPasted) {
  std::vector<Example> all = examples("```", "$ ");
  const std::vector<Example> bare = examples("```sh", "");
  all.insert(all.end(), bare.begin(), bare.end());
  ASSERT_GE(all.size(), 3u);
  for (const Example& example : all) {
    const TrainFolder folder;
    if (example.line.starts_with("headcount cost")) {
      EXPECT_EQ(paste(folder, example.line).out, example.output) << example.line;
      continue;
    }
    // A folder that cannot be: what is wrong with any flag comes to light before it is made.
    const ProgramResult result = paste(folder, example.line + " --out input.txt/c");
    EXPECT_EQ(result.err, "headcount: cannot write input.txt/c: Not a directory\n") << example.line;
    EXPECT_EQ(result.exit_code, 1) << example.line;
  }
}

TEST(Readme, ItsCommandsInRunningTextHaveFlagsThatThereAre) {
  std::size_t found = 0;
  for (auto at = kReadme.find("`headcount "); at != std::string::npos;
       at = kReadme.find("`headcount ", at + 1)) {
    std::string line = kReadme.substr(at + 1, kReadme.find('`', at + 1) - at - 1);
    if (line.find("COMMAND") != std::string::npos || line.find("--version") != std::string::npos)
      continue;
    ++found;
    if (line.find("--help") == std::string::npos) line += " --help";
    const TrainFolder folder;
    const ProgramResult result = paste(folder, line);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
  }
  EXPECT_GT(found, 5u);
}

TEST(Help, ItsExamplesHaveFlagsThatThereAre) {
  const TrainFolder folder;
  for (const std::string command : {"train", "compare", "sample", "eval", "cost"}) {
    std::istringstream help(folder.headcount(command + " --help").out);
    std::size_t found = 0;
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  headcount " + command) || line.ends_with("[flags]")) continue;
      ++found;
      const ProgramResult result = paste(folder, line + " --help");
      EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    }
    EXPECT_GE(found, 2u) << command;
  }
}

}  // namespace
}  // namespace headcount
