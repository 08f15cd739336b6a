// What all tests of the program share: they include this file for gtest, JSON, strings and vectors,
// too.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/temporary_folder.h"

extern "C" char** environ;  // in POSIX, but in no header of macOS

namespace headcount {

inline std::string file_contents(const std::filesystem::path& path) {
  // The loop over the bytes is the library's: one of these files, compiled without optimization,
  // takes 200 times as long.
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(bytes).str();
}

/// Exit codes of the program.
constexpr int kRuntime = 1, kUsage = 2, kData = 3, kDiverged = 4;

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal if one ended it, as in a shell
  std::string out, err;
};

/// Starts `program` with `arguments` in `folder`, with its outputs going to files; returns its
/// process ID.
inline pid_t start_process(std::string program, std::vector<std::string> arguments,
                           const std::filesystem::path& folder, const std::string& out,
                           const std::string& err) {
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kNewFile = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kNewFile, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kNewFile, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + program);
  return child;
}

/// Waits for a process and returns its exit code: 128 + signal if a signal ended it, as in a shell.
inline int exit_code_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("lost a process");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs a program with `arguments` in `folder`; neither of its outputs is a terminal.
inline ProgramResult run_program(std::vector<std::string> arguments,
                                 const std::filesystem::path& folder,
                                 const std::string& program = HEADCOUNT_PROGRAM) {
  const TemporaryFolder outputs;
  const std::string out = outputs.path() / "out", err = outputs.path() / "err";
  const int code = exit_code_of(start_process(program, std::move(arguments), folder, out, err));
  return {code, file_contents(out), file_contents(err)};
}

/// Runs `script` in /bin/sh, where `headcount` is the program.
inline ProgramResult run_shell(const std::string& script, const std::filesystem::path& folder) {
  const std::string programs = std::filesystem::path(HEADCOUNT_PROGRAM).parent_path();
  return run_program({"-c", "PATH='" + programs + "':\"$PATH\"; " + script}, folder, "/bin/sh");
}

/// Expects that `text` has each of `parts`.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
}

/// Expects that `text` has none of `parts`.
inline void expect_no_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_EQ(text.find(part), std::string::npos) << part << " is in:\n" << text;
}

/// Expects that a JSON object has the keys of `values`, with their values.
inline void expect_values(const nlohmann::json& object, const nlohmann::json& values) {
  for (const auto& [key, value] : values.items()) EXPECT_EQ(object.at(key), value) << key;
}

/// Expects that the program refused `what` (for messages) properly: exit code `code`, nothing on
/// standard output, and one line on standard error that contains each of `parts`.
inline void expect_refusal(const ProgramResult& result, int code,
                           const std::vector<std::string>& parts, const std::string& what) {
  EXPECT_EQ(result.exit_code, code) << what << "\n" << result.err;
  EXPECT_EQ(result.out, "") << what;
  EXPECT_TRUE(result.err.starts_with("headcount: ")) << what << "\n" << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << what << "\n" << result.err;
  SCOPED_TRACE(what);
  expect_parts(result.err, parts);
}

/// Splits a command line into words at spaces.
inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The flags `given` after those of `defaults` ("--name value" each) that they do not name.
inline std::string over_defaults(const std::string& defaults, const std::string& given) {
  const std::vector<std::string> pairs = words(defaults);
  std::string line;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if ((" " + given).find(" " + pairs[i]) == given.npos)
      line += pairs[i] + " " + pairs[i + 1] + " ";
  }
  return line + given;
}

/// A folder with a text to train on, text.txt, and `headcount train` with a model that takes
/// milliseconds, unless its flags say otherwise. `program` is run for `headcount`.
class TrainFolder {
 public:
  explicit TrainFolder(const char* program = HEADCOUNT_PROGRAM) : program_(program) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += std::to_string(i * i) + " is a square.\n";
    folder_.file("text.txt", text);  // about 700 characters, 70 of them for validation
  }

  std::filesystem::path operator/(const std::string& name) const { return folder_.path() / name; }
  void file(const std::string& name, const std::string& bytes) const { folder_.file(name, bytes); }
  bool has(const std::string& name) const { return std::filesystem::exists(*this / name); }
  std::string contents(const std::string& name) const { return file_contents(*this / name); }
  nlohmann::json json(const std::string& name) const {
    return nlohmann::json::parse(contents(name));
  }
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy(*this / from, *this / to, std::filesystem::copy_options::recursive);
  }
  /// Settings of a run, as its record has them.
  nlohmann::json settings(const std::string& run) const {
    return json(run + "/run.json").at("settings");
  }
  /// Replaces the settings of a run.
  void settings(const std::string& run, const nlohmann::json& to) const {
    nlohmann::json record = json(run + "/run.json");
    record["settings"] = to;
    file(run + "/run.json", record.dump());
  }
  /// Lines of the metrics of a run.
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::vector<nlohmann::json> steps;
    for (const std::string& line : lines_of(contents(run + "/metrics.jsonl")))
      steps.push_back(nlohmann::json::parse(line));
    return steps;
  }
  /// Expects that two runs which end at `step` left equal files: weights, moments and all that
  /// follows from them.
  void expect_same_run(const std::string& run, const std::string& other, int step) const {
    const std::string name = "step-" + std::to_string(step), saved = "/checkpoints/" + name + "/";
    for (const std::string& file :
         {saved + "model.safetensors", saved + "optimizer.safetensors",
          saved + "trainer_state.json", std::string("/checkpoints/latest"),
          std::string("/metrics.jsonl"), "/samples/" + name + ".txt"}) {
      ASSERT_TRUE(has(run + file)) << run << file;
      EXPECT_EQ(contents(run + file), contents(other + file)) << run << file;
    }
    EXPECT_EQ(settings(run), settings(other)) << run;
  }
  /// Weights of the run in the folder `run` after `step` steps, as their file has them.
  std::string weights(const std::string& run, int step = 3) const {
    return contents(run + "/checkpoints/step-" + std::to_string(step) + "/model.safetensors");
  }

  const std::filesystem::path& path() const { return folder_.path(); }
  /// Runs a command line; `more` arguments may hold spaces.
  ProgramResult headcount(const std::string& line,
                          const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = words(line);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments, folder_.path(), program_);
  }
  /// Runs a line that must succeed.
  ProgramResult done(const std::string& line, const std::vector<std::string>& more = {}) const {
    ProgramResult result = headcount(line, more);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
    return result;
  }
  /// The object that a line prints as JSON.
  nlohmann::json object(const std::string& line, const std::vector<std::string>& more = {}) const {
    return nlohmann::json::parse(done(line + " --format json", more).out);
  }
  void expect_refusal(const std::string& line, int code,
                      const std::vector<std::string>& parts) const {
    headcount::expect_refusal(headcount(line), code, parts, line);
  }
  /// `flags` over those of the small model, alone, and behind `headcount train` or compare.
  static std::string small(const std::string& flags) {
    return over_defaults(
        "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3 "
        "--threads 1",
        flags);
  }
  static std::string train_line(const std::string& flags) { return "train " + small(flags); }
  static std::string compare_line(const std::string& flags) {
    return "compare --quiet " + small(over_defaults("--attention mha --seeds 2", flags));
  }
  ProgramResult train(const std::string& flags) const { return headcount(train_line(flags)); }
  ProgramResult trained(const std::string& flags) const { return done(train_line(flags)); }
  ProgramResult shell(const std::string& script) const { return run_shell(script, folder_.path()); }
  /// Starts the program without waiting for it; its outputs go to the files out and err, and
  /// `name` in front of both. In its environment HEADCOUNT_STOP_AT (see train/interrupt.h) is
  /// `stop_at`.
  pid_t start(const std::string& line, const std::string& stop_at = "",
              const std::string& name = "") const {
    std::vector<std::string> arguments = words(line);
    arguments.insert(arguments.begin(), {"HEADCOUNT_STOP_AT=" + stop_at, program_});
    return start_process("/usr/bin/env", arguments, path(), *this / (name + "out"),
                         *this / (name + "err"));
  }
  /// Exit code of the program if it gets `signal` in step `step`.
  int signalled(const std::string& line, int step, int signal) const {
    return exit_code_of(start(line, stop_at(step, signal)));
  }
  /// Starts the program and returns its process ID once it stands still in step `step`.
  pid_t halted(const std::string& line, int step) const {
    const pid_t child = start(line, stop_at(step, SIGSTOP));
    int status = 0;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
      throw std::runtime_error(line + " ended before step " + std::to_string(step));
    return child;
  }
  static std::string stop_at(int step, int signal) {
    return std::to_string(step) + ":" + std::to_string(signal);
  }

 private:
  const char* program_;
  TemporaryFolder folder_;
};

/// Tests of one command on the runs of a folder, which all tests of a suite share and none changes.
/// `Suite`, the class that derives from this one, trains them in `prepare`; command lines begin
/// with its `kCommand`.
template <class Suite>
class RunsOfASuite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TrainFolder>();
    Suite::prepare();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  /// Trains a run, which must succeed; returns its result.
  static nlohmann::json train(const std::string& run, const std::string& flags = "") {
    const std::string defaults = "--lr 0.01 --warmup 0 --out " + run;
    return folder_->object(TrainFolder::train_line(over_defaults(defaults, flags) + " --quiet"));
  }
  /// Calls the command; `more` arguments may hold spaces.
  static ProgramResult call(const std::string& flags, const std::vector<std::string>& more = {}) {
    return folder_->headcount(std::string(Suite::kCommand) + " " + flags, more);
  }
  /// Standard output of a call that must succeed and warn of nothing, as text and as JSON.
  static std::string text(const std::string& flags, const std::vector<std::string>& more = {}) {
    const ProgramResult result = call(flags, more);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  static nlohmann::json object(const std::string& flags,
                               const std::vector<std::string>& more = {}) {
    return nlohmann::json::parse(text("--format json " + flags, more));
  }
  static void expect_refusal(int code, const std::string& flags,
                             const std::vector<std::string>& parts) {
    headcount::expect_refusal(call(flags), code, parts, flags);
  }

  static inline std::unique_ptr<TrainFolder> folder_;
};

}  // namespace headcount
