// label: unsanitized
// The command lines of the READMEs and of the help: a reader pastes them, so they must be right. So
// must the names of files.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>

#include "nn/attention/kind.h"
#include "train/cli/commands.h"
#include "train/compare/verdict.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = HEADCOUNT_FIXTURE_FOLDER "/../..";

struct Page {
  fs::path path;
  std::string text;
};

std::vector<Page> pages() {
  std::vector<Page> all;
  for (const char* path :
       {"README.md", ".github/CONTRIBUTING.md", "autograd/README.md", "models/checkpoint/README.md",
        "models/examples/README.md", "nn/attention/ATTENTIONS.md", "nn/attention/README.md",
        "tests/bench/README.md", "tests/bench/results/README.md", "train/README.md",
        "train/compare/FINDINGS.md", "train/compare/QUESTION.md", "train/compare/README.md",
        "train/page/README.md"})
    all.push_back({kRoot / path, file_contents(kRoot / path)});
  return all;
}

struct Block {
  std::string fence;  // its first line, "```sh"
  std::string text;
};

// Blocks of a page and, without a fence, what stands between them.
std::vector<Block> blocks(const std::string& page) {
  std::vector<Block> all(1);
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) {
      all.push_back({all.back().fence.empty() ? line : "", ""});
    } else {
      all.back().text += line + "\n";
    }
  }
  return all;
}

struct Example {
  std::string line;    // "headcount cost ...", in one line
  std::string output;  // what the page shows below it
};

// Commands in blocks of shell, without comments.
std::vector<Example> examples(const std::string& page) {
  static const std::regex goes_on(R"(\\\n)"), prompt_or_comment(R"(^\$ | +# .*)");
  std::vector<Example> all;
  for (const Block& block : blocks(page)) {
    if (block.fence != "```" && block.fence != "```sh") continue;
    bool shown = false;  // the output of a command of this block
    for (const std::string& line : lines_of(std::regex_replace(block.text, goes_on, ""))) {
      const std::string command = std::regex_replace(line, prompt_or_comment, "");
      if (command.starts_with("headcount ")) {
        all.push_back({command, ""});
        shown = true;
      } else if (shown) {
        all.back().output += line + "\n";
      }
    }
  }
  return all;
}

std::vector<std::smatch> matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), {}};
}

// A folder with the texts that the examples name.
class Desk : public TrainFolder {
 public:
  Desk() {
    std::string text;  // long enough for the contexts of presets and examples
    for (char c = ' '; c <= '~'; ++c) text += c;  // what prompts have
    for (int i = 0; i < 24; ++i) text += contents("text.txt");
    for (const char* name : {"input.txt", "names.txt", "headers.txt", "dictionary.txt"})
      file(name, text);
  }
};

// What each command needs is not there: what is wrong with any flag comes to light before that.
void expect_that_only_its_files_are_missing(std::string line) {
  static const std::regex out(" --out (\\S+)"), from(" (--(?:init-)?from) (\\S+)");
  // A processor without instructions for bf16 refuses it, whatever the other flags are.
  line = std::regex_replace(line, std::regex(" --precision bf16"), " --precision f32");
  std::smatch run;
  const bool reads = std::regex_search(line, run, from);
  if (!reads) line = std::regex_replace(line, out, "") + " --out input.txt/c";
  const ProgramResult result = Desk().shell(line);
  EXPECT_EQ(result.err,
            reads ? "headcount: " + run.str(1) + ": '" + run.str(2) +
                        "' is no run folder and no checkpoint: it has neither checkpoints/step-N "
                        "nor model.safetensors; check the path\n"
                  : "headcount: cannot write input.txt/c: Not a directory\n")
      << line;
  EXPECT_EQ(result.exit_code, reads ? kData : kRuntime) << line;
}

TEST(Readme, ItsCommandsRunWhenPasted) {
  std::size_t found = 0;
  for (const Page& page : pages()) {
    for (const auto& [line, output] : examples(page.text)) {
      ++found;
      if (line.starts_with("headcount cost")) {
        EXPECT_EQ(Desk().shell(line).out, output) << line;
      } else {
        expect_that_only_its_files_are_missing(line);
      }
    }
  }
  EXPECT_GE(found, 8u);
}

// In one folder, with fewer steps: what a line reads, one before it has written.
TEST(Readme, ItsExamplesRunOneAfterTheOther) {
  const Desk desk;
  const std::vector<Example> all = examples(pages().front().text);
  ASSERT_GE(all.size(), 4u);
  for (const auto& [line, output] : all) {
    const bool trains = line.starts_with("headcount train");
    const ProgramResult result =
        desk.shell(line + (trains ? " --steps 3 --eval-characters 1k" : ""));
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
  }
}

// In running text of the pages, and in examples of the help.
TEST(Readme, ItsOtherCommandsAndThoseOfTheHelpHaveFlagsThatThereAre) {
  std::vector<std::string> lines;
  for (const Page& page : pages()) {
    for (const std::smatch& command : matches(page.text, std::regex("`(headcount [^`]*)`")))
      if (command.str().find("COMMAND") == std::string::npos) lines.push_back(command.str(1));
  }
  EXPECT_GT(lines.size(), 5u);
  for (const Command* command : kCommands) {
    const std::vector<std::string> shown = lines_of(command->help.examples);
    EXPECT_GE(shown.size(), 2u) << command->help.name;
    lines.insert(lines.end(), shown.begin(), shown.end());
  }
  for (const std::string& line : lines) {
    const bool asks = line.find("help") != std::string::npos;
    const ProgramResult result = Desk().shell(line + (asks ? "" : " --help"));
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
  }
}

// The anchor that a page of Markdown gives a heading.
std::string anchor_of(const std::string& heading) {
  std::string anchor = std::regex_replace(heading, std::regex("^#+ |[^\\w -]"), "");
  for (char& c : anchor) c = c == ' ' ? '-' : static_cast<char>(std::tolower(c));
  return anchor;
}

// Names of all source files and of their folders.
std::set<std::string> names_of_files() {
  std::set<std::string> names;
  for (const char* const folder : {"autograd", "nn", "models", "data", "train", "tests"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder))
      names.insert(entry.path().filename());
  }
  return names;
}

// [text](path#heading), seen from the page; `folder/file.ext` and `folder/`, seen from the project;
// and the name of a file alone, but for x.cpp and x_test.cpp, which stand for any.
TEST(Readme, ItsLinksAndPathsLeadToFilesAndHeadings) {
  const std::regex link(R"(\]\((?!https?:)([^)#:]*)#?([^)]*)\))"),
      path(R"(`([\w/.-]+/[\w.-]+\.(cpp|h|md|mjs|py|sh|svg))`)"),
      folder(R"(`((autograd|nn|models|data|train|tests)/([\w.-]+/)*)`)"),
      file(R"(`((?!x(_test)?\.)[\w.-]+\.(cpp|h|mjs|py|sh|svg))`)");
  const std::set<std::string> known = names_of_files();
  std::size_t files = 0, headings = 0;
  for (const Page& page : pages()) {
    for (const std::regex& form : {path, folder}) {
      for (const std::smatch& name : matches(page.text, form)) {
        EXPECT_TRUE(fs::exists(kRoot / name.str(1))) << name.str();
        ++files;
      }
    }
    for (const std::smatch& name : matches(page.text, file))
      EXPECT_TRUE(known.contains(name.str(1))) << name.str();
    for (const std::smatch& to : matches(page.text, link)) {
      const fs::path target = to[1].length() == 0 ? page.path : page.path.parent_path() / to.str(1);
      EXPECT_TRUE(fs::exists(target)) << to.str();
      ++files;
      if (to[2].length() == 0) continue;
      const std::vector<std::string> lines = lines_of(file_contents(target));
      EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) {
        return line.starts_with('#') && anchor_of(line) == to.str(2);
      })) << to.str();
      ++headings;
    }
  }
  EXPECT_GT(files, 20u);
  EXPECT_GT(headings, 8u);
}

// Three sentences on each attention stand in its source alone: what help prints and a page shows.
TEST(Readme, ItsPageOfAttentionsSaysWhatHelpSays) {
  std::string expected;
  for (const AttentionKind* const kind : attention_kinds()) {
    const std::string source(kind->source);
    const std::size_t year = source.find(" (");
    expected += "- **`" + std::string(kind->name) + "`**" +
                (source.empty()
                     ? ""
                     : " ([" + source.substr(year + 2, 4) + "](" + source.substr(0, year) + "))") +
                ": " + std::string(kind->summary) + "\n";
    EXPECT_EQ(matches(std::string(kind->summary), std::regex("\\.( |$)")).size(), 3u) << kind->name;
  }
  const std::string page = file_contents(kRoot / "nn/attention/ATTENTIONS.md");
  EXPECT_EQ(page.substr(page.find("- **")), expected);
}

// What verdicts mean, as help and reports say it.
TEST(Readme, SaysWhatVerdictsMean) {
  const std::string page = std::regex_replace(pages().front().text, std::regex("\\s+"), " ");
  EXPECT_NE(page.find(kVerdictMeaning), page.npos);
}

// The C++ blocks of the tutorial, one below the other, are the attention that tests build.
TEST(Readme, ItsTutorialShowsTheAttentionThatTestsBuild) {
  std::string shown;
  for (const Block& block : blocks(file_contents(kRoot / "nn/attention/README.md")))
    if (block.fence == "```cpp") shown += block.text;
  EXPECT_EQ(shown, file_contents(kRoot / "tests/nn/attention/own_attention.cpp"));
}

}  // namespace
}  // namespace headcount
