// label: unsanitized
// The command lines of the READMEs and of the help: a reader pastes them, so they must be right. So
// must the names of files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "nn/attention/kind.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = HEADCOUNT_FIXTURE_FOLDER "/../..";

struct Page {
  fs::path folder;
  std::string text;
};

std::vector<Page> pages() {
  std::vector<Page> all;
  for (const char* path :
       {"README.md", ".github/CONTRIBUTING.md", "autograd/README.md", "models/checkpoint/README.md",
        "nn/attention/README.md", "tests/bench/README.md", "tests/bench/results/README.md",
        "train/README.md", "train/compare/FINDINGS.md", "train/compare/README.md",
        "train/page/README.md"}) {
    all.push_back({(kRoot / path).parent_path(), file_contents(kRoot / path)});
  }
  return all;
}

struct Example {
  std::string line;    // "headcount cost ...", lines that go on and all
  std::string output;  // what the page shows below it
};

// Commands without comments that begin a line with `prompt`, in blocks between ``` lines that begin
// with `fence`.
std::vector<Example> examples(const std::string& page, const std::string& fence,
                              const std::string& prompt) {
  std::vector<Example> all;
  std::istringstream lines(page);
  bool block = false, wanted = false, shown = false;  // the output of a command of this block
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block;
      wanted = block && line == fence;
      shown = false;
    } else if (wanted && line.starts_with(prompt + "headcount ")) {
      Example& example = all.emplace_back(Example{line.substr(prompt.size()), ""});
      while (example.line.ends_with('\\') && std::getline(lines, line)) example.line += "\n" + line;
      example.line = std::regex_replace(example.line, std::regex(" +# .*"), "");
      shown = true;
    } else if (wanted && shown) {
      all.back().output += line + "\n";
    }
  }
  return all;
}

// Runs a line in a shell, as if pasted, in a folder with the texts that the examples name.
ProgramResult paste(const TrainFolder& folder, const std::string& line) {
  std::string text;  // long enough for the contexts of presets and examples
  for (char c = ' '; c <= '~'; ++c) text += c;  // what prompts have
  for (int i = 0; i < 24; ++i) text += folder.contents("text.txt");
  folder.file("input.txt", text);
  folder.file("script", line + "\n");
  const std::string program = HEADCOUNT_PROGRAM;
  const int status =
      std::system(("cd '" + folder.path().string() + "' && PATH='" +
                   program.substr(0, program.rfind('/')) + "':$PATH sh script >out 2>err")
                      .c_str());
  return {WEXITSTATUS(status), folder.contents("out"), folder.contents("err")};
}

// What each command needs is not there: what is wrong with any flag comes to light before that.
void expect_that_only_its_files_are_missing(const TrainFolder& folder, std::string line) {
  static const std::regex out(" --out (\\S+)"), from(" (--(?:init-)?from) (\\S+)");
  // A processor without instructions for bf16 refuses it, whatever the other flags are.
  line = std::regex_replace(line, std::regex(" --precision bf16"), " --precision f32");
  std::smatch run;
  const bool reads = std::regex_search(line, run, from);
  if (!reads) line = std::regex_replace(line, out, "") + " --out input.txt/c";
  const ProgramResult result = paste(folder, line);
  EXPECT_EQ(result.err,
            reads ? "headcount: " + run.str(1) + ": '" + run.str(2) +
                        "' is no run folder and no checkpoint: it has neither checkpoints/step-N "
                        "nor model.safetensors; check the path\n"
                  : "headcount: cannot write input.txt/c: Not a directory\n")
      << line;
  EXPECT_EQ(result.exit_code, reads ? 3 : 1) << line;
}

TEST(Readme, ItsCommandsRunWhenPasted) {
  std::size_t found = 0;
  for (const Page& page : pages()) {
    std::vector<Example> all = examples(page.text, "```", "$ ");
    const std::vector<Example> bare = examples(page.text, "```sh", "");
    all.insert(all.end(), bare.begin(), bare.end());
    found += all.size();
    for (const Example& example : all) {
      const TrainFolder folder;
      if (example.line.starts_with("headcount cost")) {
        EXPECT_EQ(paste(folder, example.line).out, example.output) << example.line;
      } else {
        expect_that_only_its_files_are_missing(folder, example.line);
      }
    }
  }
  EXPECT_GE(found, 8u);
}

// In one folder, with fewer steps: what a line reads, one before it has written.
TEST(Readme, ItsExamplesRunOneAfterTheOther) {
  const TrainFolder folder;
  const std::vector<Example> all = examples(pages().front().text, "```sh", "");
  ASSERT_GE(all.size(), 4u);
  for (const Example& example : all) {
    const bool trains = example.line.starts_with("headcount train");
    const ProgramResult result =
        paste(folder, example.line + (trains ? " --steps 3 --eval-characters 1k" : ""));
    EXPECT_EQ(result.exit_code, 0) << example.line << "\n" << result.err;
  }
}

TEST(Readme, ItsCommandsInRunningTextHaveFlagsThatThereAre) {
  std::size_t found = 0;
  for (const Page& page : pages()) {
    for (auto at = page.text.find("`headcount "); at != std::string::npos;
         at = page.text.find("`headcount ", at + 1)) {
      std::string line = page.text.substr(at + 1, page.text.find('`', at + 1) - at - 1);
      if (line.find("COMMAND") != std::string::npos) continue;
      ++found;
      if (line.find("--help") == std::string::npos) line += " --help";
      const TrainFolder folder;
      const ProgramResult result = paste(folder, line);
      EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    }
  }
  EXPECT_GT(found, 5u);
}

// [text](path#heading), seen from the page, and `folder/file.ext`, seen from the project.
TEST(Readme, ItsLinksAndPathsLeadToFiles) {
  const std::regex path(
      R"(\]\((?!https?:)([^)#:]+)[^)]*\)|`([\w/.-]+/[\w.-]+\.(cpp|h|md|mjs|py|sh|svg))`)");
  std::size_t found = 0;
  for (const Page& page : pages()) {
    for (std::sregex_iterator at(page.text.begin(), page.text.end(), path), end; at != end; ++at) {
      const bool link = (*at)[1].matched;
      EXPECT_TRUE(fs::exists(link ? page.folder / at->str(1) : kRoot / at->str(2))) << at->str();
      ++found;
    }
  }
  EXPECT_GT(found, 20u);
}

// The anchor that a page of Markdown gives a heading.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find(' ') + 1)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (c >= 'A' && c <= 'Z') anchor += static_cast<char>(c - 'A' + 'a');
    if (letter || c == ' ') anchor += c == ' ' ? '-' : c;
  }
  return anchor;
}

TEST(Readme, ItsLinksLeadToHeadings) {
  const std::regex link(R"(\]\((?!https?:)([^)#]*)#([^)]+)\))");
  std::size_t found = 0;
  for (const Page& page : pages()) {
    for (std::sregex_iterator at(page.text.begin(), page.text.end(), link), end; at != end; ++at) {
      const std::string file = at->str(1);
      std::istringstream lines(file.empty() ? page.text : file_contents(page.folder / file));
      bool leads = false;
      for (std::string line; std::getline(lines, line);)
        leads = leads || (line.starts_with('#') && anchor_of(line) == at->str(2));
      EXPECT_TRUE(leads) << at->str();
      ++found;
    }
  }
  EXPECT_GT(found, 8u);
}

TEST(Readme, NamesEachAttentionInATable) {
  std::istringstream lines(pages().front().text);
  std::string tables;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) tables += line.substr(0, line.find(" | ", 2));
  }
  for (const AttentionKind* const kind : attention_kinds())
    EXPECT_NE(tables.find("`" + std::string(kind->name) + "`"), std::string::npos) << kind->name;
}

// Lines of text fit a terminal. Tables, links and code do as they must.
TEST(Readme, ItsLinesAreShort) {
  for (const Page& page : pages()) {
    std::istringstream lines(page.text);
    bool block = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```")) block = !block;
      const bool free = block || line.starts_with("|") || line.find("](") != std::string::npos;
      EXPECT_TRUE(free || decode_utf8(line, "a page").size() <= 110) << page.folder << ": " << line;
    }
  }
}

// Steps of the workflows call scripts of this tree, which may be run.
TEST(Workflows, CallScriptsThatThereAre) {
  const std::regex step(R"(\n *- run: (?:.* )?([\w.-]+/[\w./-]+)\n)");
  std::size_t found = 0;
  for (const char* const name : {"ci.yml", "page.yml"}) {
    const std::string text = file_contents(kRoot / ".github/workflows" / name);
    for (std::sregex_iterator at(text.begin(), text.end(), step), end; at != end; ++at) {
      const fs::perms may = fs::status(kRoot / at->str(1)).permissions();
      EXPECT_NE(may & fs::perms::owner_exec, fs::perms::none) << at->str();
      ++found;
    }
  }
  EXPECT_EQ(found, 4u);
}

// The C++ blocks of the tutorial, one below the other, are the attention that tests build.
TEST(Readme, ItsTutorialShowsTheAttentionThatTestsBuild) {
  std::istringstream lines(file_contents(kRoot / "nn/attention/README.md"));
  std::string shown;
  bool block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block && line == "```cpp";
    } else if (block) {
      shown += line + "\n";
    }
  }
  EXPECT_EQ(shown, file_contents(kRoot / "tests/nn/own_attention.cpp"));
}

TEST(Readme, ExamplesOfTheHelpHaveFlagsThatThereAre) {
  const TrainFolder folder;
  for (const std::string command : {"train", "compare", "report", "sample", "eval", "attend",
                                    "convert", "cost", "ask", "data"}) {
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
