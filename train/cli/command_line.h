#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/settings.h"
#include "train/ranks.h"
#include "train/show/table.h"

namespace headcount {

/// A command line that cannot be understood; the message names the flag and the fix.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A flag that is not a setting of the run.
struct Flag {
  std::string name, help;
  bool takes_value = false;
  bool several = false;   ///< may be given more than once, and be followed by several words
  bool left_out = false;  ///< words that follow no flag are values of this one
  std::string bare = {};  ///< value of the flag alone; empty: it must be given one
  Scope scope = Scope::run;
};

/// Texts for the help of a subcommand.
struct CommandHelp {
  std::string name;      ///< "train"
  std::string summary;   ///< one line
  std::string examples;  ///< complete commands, one a line
  /// Settings and flags that --help shows; --help all shows the others, too. Empty: all.
  std::vector<std::string_view> usual = {};
};

/// The flags that were given, of settings and others, in the order of the command line.
struct CommandLine {
  std::vector<std::pair<std::string, std::string>> given;  ///< name, text ("" without a value)

  /// The flag's text; null if it was not given.
  const std::string* find(std::string_view flag) const;
  bool has(std::string_view flag) const { return find(flag) != nullptr; }
  /// The flag's text, or `otherwise`.
  std::string get(std::string_view flag, std::string otherwise = "") const;
  /// The texts of a flag that may be given more than once, in order.
  std::vector<std::string> all(std::string_view flag) const;

  /// The flag's text. Throws UsageError that ends with `remedy` if it was not given.
  std::string required(const std::string& flag, const std::string& remedy) const;
  /// Throws UsageError if one of `flags` was given beside the flag `other`. `why` ends the message.
  void refuse_beside(const std::string& other, const std::vector<std::string>& flags,
                     const std::string& why) const;
};

/// Throws UsageError for the first of `settings`, without `attention`, that was given as a flag and
/// that none of `models`, lists of settings that have an effect, has with this value. `chosen`
/// names what sets it to another value or does not have it: "--attention mla".
void refuse_unread(const CommandLine& line, const SettingList& settings,
                   const std::vector<nlohmann::ordered_json>& models,
                   const std::function<std::string(const Setting&)>& chosen);

/// Calls `body`, which reads the file or folder that `flag` names. Messages of its DataErrors then
/// begin with the flag, unless they begin with a setting.
template <class Body>
auto named_by(const std::string& flag, const Body& body) {
  try {
    return body();
  } catch (const DataError& error) {
    const std::string_view message = error.what();
    if (message.starts_with('`')) throw;
    throw DataError("--{}: {}", flag, message);
  }
}

/// Prints a note on standard error, its settings as flags, unless it is empty.
void tell(std::string_view note);

/// Line of text, with its newline, on a note, its settings as flags; empty without one.
std::string note_line(std::string_view note);

/// A command line as a shell takes it, for records and reports.
std::string command_text(const std::string& command, const std::vector<std::string>& arguments);

/// A message of the library, printable, in which settings, such as `kv-heads`, become flags:
/// --kv-heads.
std::string as_flags(std::string_view message);

/// The flag of `output_format`, which every command with results has.
inline const Flag kFormatFlag = {"format", "print results as text, json, csv or markdown", true};
/// The flag of `table_width`.
inline const Flag kWideFlag = {"wide", "show all columns and notes, wider than the terminal",
                               false};
/// Width that tables for people may have: 0 (any) with --wide; else that of COLUMNS, of the
/// terminal or, where there is none, 100 characters.
std::size_t table_width(const CommandLine& line);
/// Lines on the verdicts of a comparison, at most as wide: "verdict: mqa is enough: ...".
std::string verdict_lines(const std::vector<std::string>& clauses, std::size_t width);
/// The format that `line` asks for. Throws UsageError for an unknown one.
Format output_format(const CommandLine& line);
/// Prints `text`, what a command says to people, or `result` as JSON, or the table of its `rows` as
/// CSV or Markdown (see data_table). Returns the exit code, 0.
int print_result(Format format, const nlohmann::ordered_json& result,
                 const nlohmann::ordered_json& rows, std::string_view text);

/// Splits the arguments after the subcommand, "--name value", "--name=value" or "--name", into
/// flags. With --help or --help all among them it prints help. Throws UsageError: for
/// a flag that is unknown or given twice, and for a value that is empty or not UTF-8, which records
/// need.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const CommandHelp& command, const SettingList& settings,
                               const std::vector<Flag>& others);

/// What a command is called with.
struct Call {
  const CommandLine& line;
  const SettingList& settings;  ///< those of the command
  Format format;
  const std::vector<std::string>& arguments;  ///< as they were typed, for records
  Ranks& ranks;                               ///< several only for commands that share their work
};

/// A subcommand, declared in its one file. `run` writes results to standard output and progress to
/// standard error, and returns the exit code or throws.
struct Command {
  CommandHelp help;
  SettingList (*settings)();
  std::vector<Flag> flags;
  int (*run)(const Call& call);
  bool shared = false;  ///< ranks share its work, and rank 0 alone writes results
};

/// The setting `threads`, which run_command applies.
Setting threads_setting();

/// Parses `arguments`, those after the command's name, and runs it with the number of threads that
/// they name, or prints its help. Throws what parse_command_line, output_format, use_threads and
/// the command throw.
int run_command(const Command& command, const std::vector<std::string>& arguments, Ranks& ranks);

/// Copies into `given` the flags that it knows as settings; they replace its values. What the text
/// of --attention sets, as gqa2 does with --kv-heads, replaces other flags. Throws SettingError for
/// a bad value.
void put_flags(const CommandLine& line, Given& given);
/// Values of the command's settings that were given as flags.
Given flags_given(const Call& call);

}  // namespace headcount
