#include "train/cli/command_line.h"

#include <unistd.h>

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

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/attention_spec.h"
#include "train/cli/progress.h"
#include "train/cli/use_threads.h"

namespace headcount {

const std::string* CommandLine::find(std::string_view flag) const {
  const auto found = std::ranges::find(given, flag, &std::pair<std::string, std::string>::first);
  return found == given.end() ? nullptr : &found->second;
}

std::string CommandLine::get(std::string_view flag, std::string otherwise) const {
  const std::string* const text = find(flag);
  return text == nullptr ? otherwise : *text;
}

std::vector<std::string> CommandLine::all(std::string_view flag) const {
  std::vector<std::string> texts;
  for (const auto& [name, text] : given) {
    if (name == flag) texts.push_back(text);
  }
  return texts;
}

std::string CommandLine::required(const std::string& flag, const std::string& remedy) const {
  if (!has(flag)) throw UsageError("--{} is missing; {}", flag, remedy);
  return get(flag);
}

void CommandLine::refuse_beside(const std::string& other, const std::vector<std::string>& which,
                                const std::string& why) const {
  for (const std::string& flag : which) {
    if (has(flag) && has(other)) throw UsageError("--{} does not go with --{}{}", flag, other, why);
  }
}

void refuse_unread(const CommandLine& line, const SettingList& settings,
                   const std::vector<nlohmann::ordered_json>& models,
                   const std::function<std::string(const Setting&)>& chosen) {
  for (const auto& [name, text] : line.given) {
    const Setting* const setting = find_setting(settings, name);
    if (setting == nullptr || name == "attention") continue;
    const nlohmann::ordered_json value = setting->value(text);
    const auto has = [&](const auto& model) { return model.contains(setting->name); };
    const auto heeds = [&](const auto& model) {
      return has(model) && model[setting->name] == value;
    };
    const bool known = std::ranges::any_of(models, has);
    const bool left_out =
        !known && setting->traits.quiet && nlohmann::json(value) == setting->standard.value;
    if (left_out || std::ranges::any_of(models, heeds)) continue;
    std::string by = chosen(*setting);
    if (known) {
      for (const std::string flag : {"match", "sweep"})
        if (line.has(flag)) by += " or --" + flag;
      throw UsageError("--{} {} changes nothing: {} sets another {}; leave it out", name, text, by,
                       name);
    }
    const std::string why = as_flags(setting->silenced_by(models.front()));
    if (!setting->for_all) by += " (it is for " + joined(setting->only_for()) + ")";
    throw UsageError("--{} {}", name, why.empty() ? "has no effect with " + by : why);
  }
}

void tell(std::string_view note) {
  if (!note.empty()) std::cerr << "headcount: " << as_flags(note) << '\n';
}

std::string note_line(std::string_view note) {
  return note.empty() ? "" : "note: " + as_flags(note) + '\n';
}

namespace {

// Headings in help, in the order of scopes. Flags stand under the heading of the run.
constexpr const char* kHeadings[] = {"Attention", "Model",    "Data",       "Optimizer",
                                     "Run",       "Run",      "Comparison", "Evaluation",
                                     "Sampling",  "Decoding", "Cache",      "Display"};
std::string heading(Scope scope) { return kHeadings[static_cast<std::size_t>(scope)]; }

// What other programs call a flag, and its name here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"attn", "attention"},        {"batch-size", "batch"},
    {"learning-rate", "lr"},      {"epochs", "steps"},
    {"max-iters", "steps"},       {"num-layers", "layers"},
    {"n-layer", "layers"},        {"num-heads", "heads"},
    {"n-head", "heads"},          {"hidden-size", "dim"},
    {"block-size", "context"},    {"seq-len", "context"},
    {"num-kv-heads", "kv-heads"}, {"prompt", "text"},
    {"text", "prompt"},           {"model", "from"},
    {"preset", "config"}};

// The error of `word`, an argument at `at` that is no flag of the command: it says what was typed,
// and what may have been meant.
UsageError unknown_flag(const std::vector<std::string>& arguments, std::size_t at,
                        const std::vector<std::string>& known, const SettingList& settings,
                        const std::string& hint) {
  const std::string& word = arguments[at];
  if (!word.starts_with('-')) {
    const std::string before = at >= 2 ? arguments[at - 1] : "-";
    const std::string list = before.starts_with('-')
                                 ? ""
                                 : "; commas separate the values of a list: " + before + "," + word;
    return UsageError("'{}' is not a flag{}{}", word, list, hint);
  }
  const std::string typed = word.substr(0, word.find('='));
  std::string name = typed.substr(std::min(typed.find_first_not_of('-'), typed.size()));
  std::ranges::replace(name, '_', '-');
  const auto renamed = std::ranges::find(
      settings, name, [](const Setting& setting) { return std::string(setting.traits.formerly); });
  if (!name.empty() && renamed != settings.end())
    return UsageError("unknown flag {}; it is --{} now", typed, renamed->name);
  for (const auto& [elsewhere, here] : kElsewhere)
    if (name == elsewhere && std::ranges::count(known, here) > 0)
      return UsageError("unknown flag {}; it is --{} here{}", typed, here, hint);
  return UsageError("unknown flag {}{}{}", typed, hint, suggestion(name, known, "--"));
}

// Throws UsageError for a text or path of `flag` that is empty or not UTF-8, which records need.
// The parsers of other values say what they want.
void check_text(const SettingList& settings, const std::string& flag, const std::string& value) {
  const Setting* const setting = find_setting(settings, flag);
  const Text* const text = setting == nullptr ? nullptr : std::get_if<Text>(&setting->takes);
  if (setting != nullptr && (text == nullptr || text->shortest != nullptr)) return;
  if (value.empty()) throw UsageError("--{} is empty; give it a value, or leave it out", flag);
  if (!utf8::is_valid(value)) throw UsageError("--{} must be UTF-8", flag);
}

// Defaults of `text` for those of `settings` that help has shown.
void print_defaults(const BuiltInCorpus& text, const SettingList& settings) {
  const nlohmann::json defaults = text.defaults();
  for (const auto& [name, value] : defaults.items()) {
    if (find_setting(settings, name) != nullptr)
      std::cout << " --" << name << ' ' << setting_text(value);
  }
  std::cout << '\n';
}

void print_defaults_of_texts(const SettingList& settings) {
  std::cout << "\nDefaults of the built-in texts, in place of those above:\n";
  for (const BuiltInCorpus* text : built_in_corpora()) {
    std::cout << "  " << std::left << std::setw(7) << text->name;
    print_defaults(*text, settings);
  }
}

}  // namespace

std::string command_text(const std::string& command, const std::vector<std::string>& arguments) {
  std::string text = "headcount " + command;
  for (const std::string& argument : arguments) text += " " + shell_word(argument);
  return text;
}

std::string as_flags(std::string_view raw) {
  const auto is_name = [](std::string_view text) {
    return !text.empty() &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
  };
  const std::string message = printable(raw);
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t open = message.find('`', at);
    const std::size_t close = open == message.npos ? open : message.find('`', open + 1);
    if (close == message.npos) return text += message.substr(at);
    const std::string name = message.substr(open + 1, close - open - 1);
    text += message.substr(at, open - at);
    if (is_name(name)) {
      text += "--" + name;
      at = close + 1;
    } else {  // no setting: another word between backquotes
      text += '`';
      at = open + 1;
    }
  }
  return text;
}

namespace {

// All flags of a command, those of its settings first.
std::vector<Flag> flags_of(const SettingList& settings, const std::vector<Flag>& others) {
  std::vector<Flag> flags;
  for (const Setting& s : settings) {
    const std::string owners = s.for_all ? "" : joined(s.only_for()) + ": ";
    flags.push_back({s.name, owners + help_text(s), true, false, false, s.traits.bare ? "on" : "",
                     *s.traits.scope});
  }
  flags.insert(flags.end(), others.begin(), others.end());
  flags.push_back(
      {"help", "show the usual flags; --help all: all of them", true, false, false, "usual"});
  return flags;
}

// `all`: also of what is not usual.
void print_help(const CommandHelp& command, SettingList settings, std::vector<Flag> flags,
                bool all) {
  const auto is_rare = [&](const auto& row) {
    return !all && !command.usual.empty() && row.name != "help" &&
           std::ranges::count(command.usual, row.name) == 0;
  };
  std::erase_if(settings, is_rare);
  const std::size_t rare = std::erase_if(flags, is_rare);
  cxxopts::Options options("headcount " + command.name, command.summary);
  options.custom_help("[flags]").set_width(100);
  const std::string run = heading(Scope::run);
  std::vector<std::string> groups;
  for (const Flag& f : flags) {
    const std::string group = heading(f.scope);
    if (group != run && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    const auto value = cxxopts::value<std::string>();
    const std::string name = f.name == "help" ? "h,help" : f.name;
    if (!f.takes_value) {
      options.add_options(group)(name, f.help);
    } else {
      options.add_options(group)(name, f.help,
                                 f.bare.empty() ? value : value->implicit_value(f.bare),
                                 f.name == "help" ? "all" : "");
    }
  }
  groups.push_back(run);  // last
  std::cout << options.help(groups);
  if (const Setting* const data = find_setting(settings, "data"); data != nullptr && rare == 0) {
    print_defaults_of_texts(settings);
  } else if (data != nullptr) {
    if (const auto* const text = find_built_in(setting_text(data->standard.value))) {
      std::cout << "\nDefaults with " << text->name << ':';
      print_defaults(*text, settings);
    }
  }
  const bool models = find_setting(settings, "layers") != nullptr;  // whole ones
  if (models && rare == 0)
    std::cout << "\nPatterns, such as mqa/share and 5*gqa2@64/gqa2:\n  " << kSpecGrammar << '\n';
  const auto counts = [](const Setting& s) { return std::holds_alternative<WholeRange>(s.takes); };
  std::cout << "\nExamples:\n" << command.examples << (models || rare > 0 ? "\n" : "");
  if (models) std::cout << "headcount help mla explains an attention. ";
  if (std::ranges::any_of(settings, counts))
    std::cout
        << "In flags and contexts 1k is 1024, 1M is 1024k; other printed counts are decimal.\n";
  if (rare > 0)
    std::cout << "headcount " << command.name << " --help all lists " << rare << " more flags.\n";
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const CommandHelp& command, const SettingList& settings,
                               const std::vector<Flag>& others) {
  const std::vector<Flag> flags = flags_of(settings, others);
  const std::string hint = "; see headcount " + command.name + " --help";
  std::vector<std::string> known;
  for (const Flag& f : flags) known.push_back(f.name);
  const auto flag_in = [&](const std::string& word) {  // the end if the word is no flag
    return std::ranges::find(
        flags, word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "", &Flag::name);
  };
  const auto left_out = std::ranges::find(flags, true, &Flag::left_out);
  CommandLine line;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const auto is_word = [&](std::size_t i) {
      return i < arguments.size() && !arguments[i].starts_with('-');
    };
    std::string word = arguments[at] == "-h" ? "--help" : arguments[at];
    const bool names_flag = left_out == flags.end() || !is_word(at);
    if (!names_flag) word = "--" + left_out->name + "=" + word;
    const auto flag = flag_in(word);
    if (flag == flags.end()) throw unknown_flag(arguments, at, known, settings, hint);
    const std::string& name = flag->name;
    std::string value = flag->bare;
    if (const std::size_t equals = word.find('='); equals != word.npos) {
      if (!flag->takes_value) throw UsageError("--{} takes no value{}", name, hint);
      value = word.substr(equals + 1);
    } else if (flag->takes_value && (value.empty() || is_word(at + 1))) {
      if (++at == arguments.size())
        throw UsageError("--{} has no value; give it one{}", name, hint);
      value = arguments[at];
      if (flag_in(value) != flags.end())
        throw UsageError("--{} has no value before {}; give it one, or write --{}={}", name, value,
                         name, value);
    }
    if (!flag->several && line.has(name)) {
      if (!names_flag) throw UsageError("'{}' is a word too many{}", value, hint);
      throw UsageError("--{} is given twice; give it once{}", name, hint);
    }
    line.given.emplace_back(name, value);
    while (flag->several && is_word(at + 1)) line.given.emplace_back(name, arguments[++at]);
    if (flag->takes_value)
      for (const std::string& each : line.all(name)) check_text(settings, name, each);
  }
  if (line.has("help")) {
    const std::string which = line.get("help");
    if (which != "usual" && which != "all")
      throw UsageError("--help takes no value but all, is '{}'{}", which, hint);
    print_help(command, settings, flags, which == "all");
  }
  return line;
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

std::string verdict_lines(const std::vector<std::string>& clauses, std::size_t width) {
  std::string text;
  for (const std::string& clause : clauses) text += wrapped("verdict: " + clause, width) + "\n";
  return text;
}

Format output_format(const CommandLine& line) {
  const std::string name = line.get(kFormatFlag.name, "text");
  constexpr std::string_view kNames[] = {"text", "json", "csv", "markdown"};  // as Format
  const auto found = std::ranges::find(kNames, name);
  if (found == std::end(kNames))
    throw UsageError("--format must be text, json, csv or markdown, is '{}'", name);
  return static_cast<Format>(found - std::begin(kNames));
}

int print_result(Format format, const nlohmann::ordered_json& result,
                 const nlohmann::ordered_json& rows, std::string_view text) {
  if (format == Format::text) {
    std::cout << text;
  } else if (format == Format::json) {
    std::cout << result.dump(2) << '\n';
  } else {
    std::cout << data_table(rows, format);
  }
  return 0;
}

void put_flags(const CommandLine& line, Given& given) {
  for (const bool attention : {false, true}) {  // whose text sets others, too: last
    for (const auto& [name, text] : line.given) {
      if ((name == "attention") == attention && find_setting(given.known(), name) != nullptr)
        given.put(name, text);
    }
  }
}

Given flags_given(const Call& call) {
  Given given(call.settings);
  put_flags(call.line, given);
  return given;
}

Setting threads_setting() {
  return {"threads",
          "CPU threads to use; 0: one per processor. Results do not depend on it",
          WholeRange{0, 1024},
          0,
          {.scope = Scope::run}};
}

int run_command(const Command& command, const std::vector<std::string>& arguments, Ranks& ranks) {
  const SettingList settings = command.settings();
  const CommandLine line = parse_command_line(arguments, command.help, settings, command.flags);
  if (line.has("help")) return 0;
  if (find_setting(settings, "threads") != nullptr) {
    Given given(settings);
    if (const std::string* const text = line.find("threads")) given.put("threads", *text);
    use_threads(given.whole("threads"));
  }
  return command.run({line, settings, output_format(line), arguments, ranks});
}

}  // namespace headcount
