// label: unsanitized
// Outputs that are closed, broken, or lead to a terminal.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <regex>
#include <tuple>

#include "models/checkpoint/checkpoint.h"
#include "train/compare/comparison_folder.h"

namespace headcount {
namespace {

TEST(ClosedStream, TakesNoFileOfTheRunForItself) {
  const TrainFolder folder;
  folder.trained("--out whole");
  for (const auto& [run, closed, code] : {std::tuple{std::string("a"), " 2>&-", 0},
                                          {"b", " <&- >&- 2>&-", 1},
                                          {"c", " --quiet >&-", 1}}) {
    const ProgramResult result =
        folder.shell("headcount " + TrainFolder::train_line("--out " + run + closed));
    EXPECT_EQ(result.exit_code, code) << closed << result.err;
    EXPECT_EQ(folder.contents(run + "/metrics.jsonl"), folder.contents("whole/metrics.jsonl"));
  }
  expect_refusal(folder.shell("headcount cost >&-"), 1, {"cannot write to standard output"},
                 "closed output");
}

TEST(BrokenPipe, StopsTrainingAfterAStepThatIsSaved) {
  const TrainFolder folder;
  const std::string flags = "--steps 60 --checkpoint-every 0 --eval-every 10 --out ";
  folder.trained(flags + "whole --quiet");
  // Its reader goes after step 15, and its next line is that of step 20 at the latest.
  const std::string pipe = folder / "err";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const pid_t child = folder.halted(TrainFolder::train_line(flags + "run"), 15);
  close(reader);
  kill(child, SIGCONT);
  EXPECT_EQ(exit_code_of(child), 128 + SIGPIPE);
  const Index step = *step_of(*find_checkpoint(folder / "run"));
  EXPECT_TRUE(step > 15 && step <= 20) << step;
  folder.done("train --quiet --resume run");
  EXPECT_EQ(folder.contents("run/metrics.jsonl"), folder.contents("whole/metrics.jsonl"));
}

// What a program writes to a terminal of 80 columns that is called `type`: on standard error, and
// with `all` on standard output, too.
std::string on_terminal(const TrainFolder& folder, const std::string& line, const char* type,
                        bool all = false) {
  const winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const std::string name = ptsname(terminal);
  const int open_end = open(name.c_str(), O_RDWR | O_NOCTTY);
  EXPECT_EQ(ioctl(open_end, TIOCSWINSZ, &size), 0);
  setenv("TERM", type, 1);
  const pid_t child = start_process(HEADCOUNT_PROGRAM, words(line), folder.path(),
                                    all ? std::string(name) : (folder / "out").string(), name);
  close(open_end);  // reading ends once the program has closed its own
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = ::read(terminal, bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  close(terminal);
  EXPECT_EQ(exit_code_of(child), 0) << text;
  return text;
}

// The lines that were rewritten, without the codes between them.
std::vector<std::string> rewritten(const std::string& text) {
  const std::regex line("\r\033\\[K([^\r\n]*)");
  return {std::sregex_token_iterator(text.begin(), text.end(), line, 1), {}};
}

TEST(Terminal, HasALineBreakAfterATextThatHasNone) {
  const TrainFolder folder;
  const std::string line = "data recall --tokens 40";
  const ProgramResult file = folder.done(line);
  EXPECT_EQ(file.out.find('\n'), std::string::npos);
  expect_parts(file.err, {"48 characters, in whole stories: --tokens 40 ends within one\n"});
  expect_parts(on_terminal(folder, line, "xterm", true), {file.out + "\r\n"});
  EXPECT_EQ(folder.done("data recall --tokens 48").err.find("whole stories"), std::string::npos);
}

TEST(Terminal, ShowsWholeFieldsAndTheTimeLeftInEightyColumns) {
  const TrainFolder folder;
  const std::string text = on_terminal(
      folder, TrainFolder::train_line("--steps 1000 --eval-every 100 --out run"), "xterm");
  const std::vector<std::string> lines = rewritten(text);
  ASSERT_GE(lines.size(), 10u) << text;
  for (const std::string& line : lines) {
    EXPECT_LT(line.size(), 80u) << line;
    if (line.starts_with("about ")) continue;  // what the run takes
    expect_parts(line, {"  ETA ", " tokens/s"});
    // No number is cut: what ends the line is a whole field.
    const std::size_t last = line.rfind("  ") + 2;
    EXPECT_TRUE(line.ends_with(" tokens/s") || line.substr(last).starts_with("grad ") ||
                (line.substr(last).starts_with("lr ") && line.size() - last == 11))
        << line;
  }
}

TEST(Terminal, ShowsAComparisonInEightyColumnsOrInPlainLines) {
  const TrainFolder folder;
  const auto line = [](const std::string& flags) {
    return ComparisonFolder::line("--attention mha,mqa,gqa,mla " + flags);
  };
  expect_no_parts(on_terminal(folder, line("--out plain"), "dumb"), {"\033"});
  int live = 0;
  for (const std::string& shown : rewritten(on_terminal(folder, line("--steps 1000"), "xterm"))) {
    if (shown.find(" | ") == shown.npos) continue;  // the end of a run, which stays
    ++live;
    EXPECT_LT(shown.size(), 80u) << shown;
    EXPECT_EQ(shown.rfind('.') + 5, shown.size()) << "a loss is cut: " << shown;
  }
  EXPECT_GT(live, 0);
}

}  // namespace
}  // namespace headcount
