#include "train/cli/command_line.h"

#include <unistd.h>

#include <cstring>

// cxxopts is compiled without regular expressions: its own recurse for each character of an
// argument.
#define CXXOPTS_NO_REGEX
#include <utf8.h>

#include <algorithm>
#include <cstdlib>
#include <cxxopts.hpp>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/attention_spec.h"
#include "train/cli/progress.h"

namespace headcount {

namespace {

// The text of the flag or setting `name`; null if it was not given.
const std::string* text_of(const std::vector<std::pair<std::string, std::string>>& given,
                           std::string_view name) {
  const auto found = std::ranges::find(given, name, &std::pair<std::string, std::string>::first);
  return found == given.end() ? nullptr : &found->second;
}

}  // namespace

bool CommandLine::has(std::string_view flag) const { return text_of(flags, flag) != nullptr; }

std::string CommandLine::get(std::string_view flag, std::string otherwise) const {
  const std::string* const text = text_of(flags, flag);
  return text == nullptr ? otherwise : *text;
}

std::vector<std::string> CommandLine::all(std::string_view flag) const {
  std::vector<std::string> texts;
  for (const auto& [name, text] : flags) {
    if (name == flag) texts.push_back(text);
  }
  return texts;
}

const std::string* CommandLine::setting(std::string_view name) const {
  return text_of(settings, name);
}

std::string CommandLine::required(const std::string& flag, const std::string& remedy) const {
  if (get(flag).empty())
    throw UsageError("--", flag, has(flag) ? " is empty; " : " is missing; ", remedy);
  return get(flag);
}

void CommandLine::refuse_beside(const std::string& other, const std::vector<std::string>& which,
                                const std::string& why) const {
  for (const std::string& flag : which) {
    if (has(flag) && has(other)) throw UsageError("--", flag, " does not go with --", other, why);
  }
}

UsageError changes_nothing(const std::string& name, const std::string& text,
                           const std::string& by) {
  return UsageError("--", name, " ", text, " changes nothing: ", by, " sets another ", name,
                    "; leave it out");
}

void tell(std::string_view note) {
  if (!note.empty()) std::cerr << "headcount: " << as_flags(note) << '\n';
}

void refuse_idle(const std::string& sentence) {
  if (!sentence.empty()) throw UsageError(as_flags(sentence), "; leave it out");
}

namespace {

// Headings in help, in the order of scopes. Flags stand under the heading of the run.
constexpr const char* kHeadings[] = {"Attention", "Model",    "Data",       "Optimizer",
                                     "Run",       "Run",      "Comparison", "Evaluation",
                                     "Sampling",  "Decoding", "Cache",      "Display"};
std::string heading(Scope scope) { return kHeadings[static_cast<std::size_t>(scope)]; }

// Arguments with "--bias off" as "--bias=off": to cxxopts, the word after a flag that can stand
// alone is another argument. No command has arguments without a flag.
std::vector<std::string> join_bare(const std::vector<std::string>& arguments,
                                   const SettingList& settings) {
  std::vector<std::string> joined;
  for (const std::string& argument : arguments) {
    const bool value = !argument.starts_with("-");
    const Setting* before = value && !joined.empty() && joined.back().starts_with("--")
                                ? find_setting(settings, std::string_view(joined.back()).substr(2))
                                : nullptr;
    const bool help = value && !joined.empty() && joined.back() == "--help";
    if (help || (before != nullptr && before->traits.bare)) {
      joined.back() += "=" + argument;
    } else {
      joined.push_back(argument);
    }
  }
  return joined;
}

// A message of cxxopts with plain quotation marks; a terminal may not have its typographic ones.
std::string plain(std::string message) {
  for (const std::string_view mark : {"\u2018", "\u2019"}) {
    for (std::size_t at; (at = message.find(mark)) != std::string::npos;)
      message.replace(at, mark.size(), "'");
  }
  return message;
}

// The error of `unmatched`, which is no flag of the command: it says what was typed, and what may
// have been meant. If that is several letters after one dash, -steps, `unmatched` is one of them.
UsageError unknown_flag(const std::string& unmatched, const std::vector<std::string>& arguments,
                        const std::vector<std::string>& known, const std::string& hint) {
  if (!unmatched.starts_with('-')) {
    const auto at = std::ranges::find(arguments, unmatched);
    const bool follows = at - arguments.begin() >= 2 && !(at - 1)->starts_with('-');
    const std::string list =
        follows ? "; commas separate the values of a list: " + *(at - 1) + "," + unmatched : "";
    return UsageError("'", unmatched, "' is not a flag", list, hint);
  }
  const auto has_letter = [&](const std::string& argument) {
    return argument.starts_with('-') && !argument.starts_with("--") &&
           argument.find(unmatched.back()) != argument.npos;
  };
  const auto whole = std::ranges::find_if(arguments, has_letter);
  const bool letter = unmatched.size() == 2 && whole != arguments.end();
  const std::string typed = (letter ? *whole : unmatched).substr(0, unmatched.find('='));
  const std::string name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  return UsageError("unknown flag ", typed, hint, suggestion(name, known, "--"));
}

// Throws UsageError if the value of `flag` is the next flag: its own was forgotten.
void refuse_flag_as_value(const std::string& flag, const std::string& value,
                          const std::vector<std::string>& arguments,
                          const std::vector<std::string>& known) {
  if (!value.starts_with("--")) return;
  const std::string joined = "--" + flag + "=" + value, name = value.substr(2, value.find('=') - 2);
  if (std::ranges::find(known, name) == known.end()) return;
  if (std::ranges::find(arguments, joined) != arguments.end()) return;
  throw UsageError("--", flag, " has no value before ", value, "; give it one, or write ", joined);
}

}  // namespace

void check_path(const std::string& flag, const std::string& path) {
  if (path.empty()) throw UsageError("--", flag, " is empty; give a path, or leave it out");
  if (!utf8::is_valid(path)) throw UsageError("--", flag, " must be UTF-8; name another path");
}

namespace {

void check_paths(const CommandLine& line) {
  for (const std::string name :
       {"from", "out", "resume", "config", "logits", "data", "validation", "init"}) {
    if (line.has(name)) check_path(name, line.get(name));
    if (const std::string* const path = line.setting(name)) check_path(name, *path);
  }
}

void print_attentions(bool patterns) {
  std::cout << "\nAttentions, which headcount help NAME explains:\n  "
            << joined(attention_kinds(), [](const AttentionKind* kind) { return kind->name; })
            << '\n';
  if (patterns)
    std::cout << "Patterns, such as mqa/share and 5*gqa2@64/gqa2:\n  " << kSpecGrammar << '\n';
}

void print_defaults_of_texts() {
  std::cout << "\nDefaults of the built-in texts, in place of those above:\n";
  for (const BuiltInCorpus* text : built_in_corpora()) {
    std::cout << "  " << std::left << std::setw(8) << text->name;
    const nlohmann::json defaults = text->defaults();
    for (const auto& [name, value] : defaults.items())
      std::cout << "--" << name << ' ' << setting_text(value) << ' ';
    std::cout << '\n';
  }
}

}  // namespace

std::string command_text(const std::string& command, const std::vector<std::string>& arguments) {
  std::string text = "headcount " + command;
  for (const std::string& argument : arguments) text += " " + shell_word(argument);
  return text;
}

std::string as_flags(std::string_view message) {
  const auto is_name = [](std::string_view text) {
    return !text.empty() &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
  };
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t open = message.find('`', at);
    const std::size_t close = open == message.npos ? open : message.find('`', open + 1);
    if (close == message.npos) return text += message.substr(at);
    const std::string_view name = message.substr(open + 1, close - open - 1);
    text += message.substr(at, open - at);
    if (is_name(name)) {
      text += "--" + std::string(name);
      at = close + 1;
    } else {  // no setting: another word between backquotes
      text += '`';
      at = open + 1;
    }
  }
  return text;
}

namespace {

cxxopts::Options declare(const CommandHelp& command, const SettingList& settings,
                         const std::vector<Flag>& flags) {
  cxxopts::Options options("headcount " + command.name, command.summary);
  options.custom_help("[flags]").set_width(100).allow_unrecognised_options();
  // Every value is read as text: Setting::value checks ranges, cxxopts would wrap large numbers.
  const std::string run = heading(Scope::run);
  for (const Setting& s : settings) {
    const auto value = cxxopts::value<std::string>();
    const std::string owners = s.only_for.empty() ? "" : joined(s.only_for) + ": ";
    options.add_options(heading(*s.traits.scope))(
        s.name, owners + help_text(s), s.traits.bare ? value->implicit_value("on") : value);
  }
  for (const Flag& f : flags) {
    if (f.takes_value) {
      options.add_options(run)(f.name, f.help, cxxopts::value<std::string>());
    } else {
      options.add_options(run)(f.name, f.help);
    }
  }
  options.add_options(run)("h,help", "show the usual flags; --help all: all of them",
                           cxxopts::value<std::string>()->implicit_value("usual"), "all");
  return options;
}

// `all`: also of what is not usual.
void print_help(const CommandHelp& command, SettingList settings, std::vector<Flag> flags,
                bool all) {
  const std::size_t known = settings.size() + flags.size();
  const auto is_rare = [&](const auto& row) {
    return !all && !command.usual.empty() && std::ranges::count(command.usual, row.name) == 0;
  };
  std::erase_if(settings, is_rare);
  std::erase_if(flags, is_rare);
  const cxxopts::Options options = declare(command, settings, flags);
  const std::size_t rare = known - settings.size() - flags.size();
  const std::string run = heading(Scope::run);
  std::vector<std::string> groups;
  for (const Setting& s : settings) {
    const std::string group = heading(*s.traits.scope);
    if (group != run && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  groups.push_back(run);  // last
  std::cout << options.help(groups);
  if (find_setting(settings, "data") != nullptr && rare == 0) print_defaults_of_texts();
  if (find_setting(settings, "layers") != nullptr) print_attentions(rare == 0);  // of whole models
  std::cout << "\nExamples:\n" << command.examples;
  if (rare > 0)
    std::cout << "\nheadcount " << command.name << " --help all lists " << rare << " more flags.\n";
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const CommandHelp& command, const SettingList& settings,
                               const std::vector<Flag>& flags) {
  cxxopts::Options options = declare(command, settings, flags);
  const std::vector<std::string> joined = join_bare(arguments, settings);
  std::vector<const char*> argv = {"headcount"};
  for (const std::string& argument : joined) argv.push_back(argument.c_str());
  CommandLine line;
  const std::string hint = "; see headcount " + command.name + " --help";
  try {
    const cxxopts::ParseResult result = options.parse(static_cast<int>(argv.size()), argv.data());
    std::vector<std::string> known = {"help"};
    for (const Setting& s : settings) known.push_back(s.name);
    for (const Flag& f : flags) known.push_back(f.name);
    if (!result.unmatched().empty())
      throw unknown_flag(result.unmatched().front(), joined, known, hint);
    std::set<std::string> names;
    for (const cxxopts::KeyValue& given : result.arguments()) {
      const bool setting = find_setting(settings, given.key()) != nullptr;
      const auto same = std::ranges::find(flags, given.key(), &Flag::name);
      const bool several = same != flags.end() && same->several;
      if (!names.insert(given.key()).second && !several)
        throw UsageError("--", given.key(), " is given twice; give it once", hint);
      if (same != flags.end() && !same->takes_value && given.value() != "true")
        throw UsageError("--", given.key(), " takes no value", hint);
      refuse_flag_as_value(given.key(), given.value(), joined, known);
      (setting ? line.settings : line.flags).emplace_back(given.key(), given.value());
    }
  } catch (const cxxopts::exceptions::exception& error) {
    throw UsageError(plain(error.what()), hint);
  }
  check_paths(line);
  if (line.has("help")) {
    const std::string which = line.get("help");
    if (which != "usual" && which != "all")
      throw UsageError("--help takes no value but all, is '", which, "'", hint);
    print_help(command, settings, flags, which == "all");
  }
  return line;
}

std::vector<Flag> with_format_flags(std::vector<Flag> flags) {
  flags.push_back({"wide", "show all columns of a table, wider than the terminal", false});
  flags.push_back({"format", "print results as text, json, csv or markdown", true});
  flags.push_back({"json", "short for --format json", false});
  flags.push_back({"csv", "short for --format csv", false});
  return flags;
}

std::size_t table_width(const CommandLine& line) {
  constexpr Index kUsual = 100;
  if (line.has("wide")) return 0;
  double columns = 0;
  const char* const set = std::getenv("COLUMNS");
  if (set != nullptr && parse_number(set, columns) == std::errc() && columns >= 1)
    return static_cast<std::size_t>(columns);
  return static_cast<std::size_t>(terminal_columns(STDOUT_FILENO).value_or(kUsual));
}

Format output_format(const CommandLine& line) {
  line.refuse_beside("json", {"csv", "format"}, ": both say how to print; name one of them");
  line.refuse_beside("csv", {"format"}, ": both say how to print; name one of them");
  const std::string name = line.has("json")  ? "json"
                           : line.has("csv") ? "csv"
                                             : line.get("format", "text");
  constexpr std::string_view kNames[] = {"text", "json", "csv", "markdown"};  // as Format
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    throw UsageError("--format must be text, json, csv or markdown, is '", name, "'");
  return static_cast<Format>(found - std::begin(kNames));
}

void put_flags(const CommandLine& line, Given& given) {
  const auto is_other = [&](const std::string& name) {
    return name != "attention" && find_setting(given.known(), name) != nullptr;
  };
  for (const auto& [name, text] : line.settings) {
    if (is_other(name)) given.put(name, text);
  }
  const std::string* const attention = line.setting("attention");
  if (attention == nullptr) return;
  const nlohmann::ordered_json before = given.values();
  given.put("attention", *attention);
  for (const auto& [name, text] : line.settings) {
    if (is_other(name) && given.values()[name] != before[name])
      throw changes_nothing(name, text, "--attention " + *attention);
  }
}

Given flags_given(const CommandLine& line, const SettingList& settings) {
  Given given(settings);
  put_flags(line, given);
  return given;
}

}  // namespace headcount
