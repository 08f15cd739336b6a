// Tables of the READMEs that follow `<!-- results: FILE -->` say what FILE says, the results.json
// of the comparison that made them, in tests/bench/results/. So does the command above a table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/base/text.h"
#include "train/run_program.h"
#include "train/statistics.h"

// Has a namespace of its own, since a unity build joins test files, whose names would clash.
namespace headcount::readme_tables {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Cells = std::vector<std::string>;

const fs::path kRoot = HEADCOUNT_FIXTURE_FOLDER "/../..";
const fs::path kResults = kRoot / "tests/bench/results";

struct Marked {
  std::string file;                // of the comment
  std::string command;             // empty if the text shows none
  std::vector<std::string> lines;  // of the block or table below the comment
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

std::vector<Marked> marked_tables(const std::string& page) {
  static const std::regex comment(R"(<!-- results: (\S+) -->)");
  std::vector<Marked> all;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, comment)) continue;
    Marked& marked = all.emplace_back(Marked{match.str(1), "", {}});
    while (std::getline(lines, line) && line.empty()) {
    }
    const bool block = line == "```";
    if (!block) marked.lines.push_back(line);
    while (std::getline(lines, line) && (block ? line != "```" : !line.empty())) {
      if (!block || !line.starts_with("$ ")) {
        marked.lines.push_back(replaced(line, "±", "+-"));
        continue;
      }
      marked.command = line.substr(2);
      while (marked.command.ends_with('\\') && std::getline(lines, line)) {
        marked.command.pop_back();
        marked.command += line;
      }
    }
  }
  return all;
}

// Cells of a Markdown table, or of a text table, whose columns are two spaces apart or more.
Cells cells_of(const std::string& line) {
  static const std::regex gap(R"( {2,}|\s*\|\s*)");
  Cells cells;
  const std::string text = replaced(line, "`", "");
  for (std::sregex_token_iterator at(text.begin(), text.end(), gap, -1), end; at != end; ++at) {
    if (at->length() > 0) cells.push_back(at->str());
  }
  return cells;
}

std::string estimate_text(const json& variant, const std::string& name, double unit,
                          const char* format) {
  if (variant.at(name + "_mean").is_null()) return "-";
  const auto number = [&](const std::string& key) {
    return formatted(format, unit * variant.at(key).get<double>());
  };
  const bool interval = !variant.at(name + "_ci95").is_null();
  const std::string half = interval ? replaced(number(name + "_ci95"), "+", "") : "";
  return number(name + "_mean") + (interval ? " +- " + half : "");
}

std::string lost_text(const json& variant) {
  if (variant.at("cost_median").is_null()) return "-";
  std::vector<double> costs;
  for (const json& cost : variant.at("costs")) costs.push_back(cost.at("cost"));
  const auto [least, most] = std::ranges::minmax(costs);
  return formatted("%+.1f (%+.1f to %+.1f)", variant.at("cost_median").get<double>(), least, most);
}

const std::string kNoColumn = "no column of results.json";

std::string swept_text(const json& variant, const std::string& heading) {
  for (const json& swept : variant.at("sweep")) {
    if (!heading.ends_with(" " + swept.at("value").get<std::string>())) continue;
    return formatted("%.4f", swept.at("loss").get<double>()) +
           (swept.at("chosen").get<bool>() ? " *" : "");
  }
  return kNoColumn;
}

// Element for `seed` of the list `key`, which has one for each seed; null if the seed is absent.
const json* of_seed(const json& variant, const char* key, const json& seed) {
  const auto at = std::ranges::find(variant.at("seeds"), seed);
  return at == variant.at("seeds").end()
             ? nullptr
             : &variant.at(key)[static_cast<std::size_t>(at - variant.at("seeds").begin())];
}

std::string mean_text(const char* format, std::span<const double> values) {
  const Estimate mean = estimate(values);
  return formatted(format, mean.mean) +
         (mean.half_width ? formatted(" +- %.4f", *mean.half_width) : "");
}

// Losses of a pair, the second one's subtracted from the first one's seed by seed.
std::string pair_text(const json& results, const std::string& spec, const std::string& than) {
  const auto find = [&](const std::string& name) {
    return std::ranges::find_if(results.at("variants"),
                                [&](const json& variant) { return variant.at("spec") == name; });
  };
  const auto first = find(spec), second = find(than);
  if (first == results.at("variants").end() || second == results.at("variants").end())
    return "a pair of attentions of results.json";
  std::vector<double> values;
  for (const json& seed : first->at("seeds")) {
    if (const json* const other = of_seed(*second, "val_losses", seed)) {
      values.push_back(of_seed(*first, "val_losses", seed)->get<double>() - other->get<double>());
    }
  }
  return mean_text("%+.4f", values);
}

// Under "from token N": the loss there minus that of the reference, which has its own loss.
std::string position_text(const json& results, const json& variant, Index from) {
  const auto is_reference = [&](const json& other) {
    return other.at("spec") == results.at("verdict").at("reference");
  };
  const json& reference = *std::ranges::find_if(results.at("variants"), is_reference);
  const auto loss = [&](const json& parts) {
    const auto at =
        std::ranges::find_if(parts, [from](const json& part) { return part.at("from") == from; });
    return at == parts.end() ? std::nan("") : at->at("loss").get<double>();
  };
  std::vector<double> values;
  for (const json& seed : variant.at("seeds")) {
    const json* const own = of_seed(variant, "losses_by_position", seed);
    const json* const than = of_seed(reference, "losses_by_position", seed);
    if (is_reference(variant)) {
      values.push_back(loss(*own));
    } else if (than != nullptr) {
      values.push_back(loss(*own) - loss(*than));
    }
  }
  return mean_text(is_reference(variant) ? "%.4f" : "%+.4f", values);
}

std::string label(const json& variant, bool adjusted) {
  const std::string made = variant.at("adjusted");
  return variant.at("spec").get<std::string>() +
         (adjusted && !made.empty() ? " (" + made + ")" : "");
}

// What a table says under `heading`, according to results.json.
std::string expected(const json& results, const json& variant, const std::string& heading) {
  const auto whole = [&](const char* key) { return std::to_string(variant.at(key).get<Index>()); };
  if (heading == "params") return whole("params");
  if (replaced(heading, ",", "") == "KV B/token at " + results.at("config").at("context").dump()) {
    const double bytes = variant.at("kv_cache_bytes_per_token");
    return formatted(bytes == std::floor(bytes) ? "%.0f" : "%.1f", bytes);
  }
  if (heading == "seeds") return whole("runs");
  if (heading == "val loss") return estimate_text(variant, "val_loss", 1, "%.4f");
  if (heading == "above floor")
    return formatted("%.4f", variant.at("excess_over_entropy").get<double>());
  if (heading == "answers right %") return estimate_text(variant, "answer_accuracy", 100, "%.1f");
  if (heading == "learned") return whole("learned") + " of " + whole("runs");
  if (heading == "minus " + results.at("verdict").at("reference").get<std::string>())
    return estimate_text(variant, "paired_difference", 1, "%+.4f");
  if (heading == "points lost") return lost_text(variant);
  if (heading == "verdict")
    return variant.at("verdict").is_null() ? "-" : variant.at("verdict").get<std::string>();
  constexpr std::string_view kFrom = "from token ";
  if (heading.starts_with(kFrom))
    return position_text(results, variant, std::stoll(heading.substr(kFrom.size())));
  return swept_text(variant, heading);
}

// Rows of pairs, below "attention", "minus" and "difference", that differ from `results`.
std::vector<std::string> wrong_pairs(const json& results, std::span<const std::string> rows) {
  std::vector<std::string> wrong;
  for (const std::string& shown : rows) {
    if (shown.starts_with("|--")) continue;
    const Cells row = cells_of(shown);
    const std::string difference = row.size() == 3 ? pair_text(results, row[0], row[1]) : "a pair";
    if (row.back() != difference) wrong.push_back(shown + " should be " + difference);
  }
  return wrong;
}

// Lines of tables that differ from `results`, each with what it should be. A table has one row
// for each attention, or is one of pairs.
std::vector<std::string> mistakes(const json& results, const std::vector<std::string>& lines) {
  std::vector<std::string> wrong;
  std::size_t tables = 0;
  const json& variants = results.at("variants");
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const Cells headings = cells_of(lines[at]);
    if (headings.empty() || headings.front() != "attention") continue;
    ++tables;
    if (headings == Cells{"attention", "minus", "difference"}) {
      const std::vector<std::string> found = wrong_pairs(results, std::span(lines).subspan(at + 1));
      wrong.insert(wrong.end(), found.begin(), found.end());
      break;
    }
    const bool of_sweep = headings.size() > 1 && swept_text(variants[0], headings[1]) != kNoColumn;
    if (at + 1 < lines.size() && lines[at + 1].starts_with("|--")) ++at;
    for (const json& variant : variants) {
      Cells row = {label(variant, !of_sweep)};
      for (std::size_t i = 1; i < headings.size(); ++i)
        row.push_back(expected(results, variant, headings[i]));
      const std::string shown = ++at < lines.size() ? lines[at] : "";
      if (cells_of(shown) != row) wrong.push_back(shown + " should be " + joined(row));
    }
  }
  if (tables == 0) wrong.push_back("there is no table");
  return wrong;
}

// Flags of a command, each with its value.
std::set<std::string> flags_of(const std::string& command) {
  static const std::regex flag(R"(--[\w-]+( +(?!--)\S+)*)");
  std::set<std::string> flags;
  for (std::sregex_iterator at(command.begin(), command.end(), flag), end; at != end; ++at)
    flags.insert(at->str());
  return flags;
}

// Flags other than those that change no result.
std::set<std::string> flags_that_count(const std::string& command) {
  std::set<std::string> flags = flags_of(command);
  std::erase_if(flags, [](const std::string& flag) {
    for (const char* name : {"--out", "--jobs", "--threads", "--progress", "--checkpoint-every"}) {
      if (flag.starts_with(name)) return true;
    }
    return false;
  });
  return flags;
}

struct OnPage {
  std::string page;
  Marked marked;
};

std::vector<OnPage> all_marked_tables() {
  std::vector<OnPage> all;
  for (const char* path :
       {"README.md", "train/README.md", "train/compare/README.md", "tests/bench/README.md"}) {
    for (Marked& marked : marked_tables(file_contents(kRoot / path)))
      all.push_back({path, std::move(marked)});
  }
  return all;
}

json results_of(const Marked& marked) { return json::parse(file_contents(kResults / marked.file)); }

TEST(ReadmeTables, AreWhatTheResultsSay) {
  std::set<std::string> used;
  for (const auto& [page, marked] : all_marked_tables()) {
    SCOPED_TRACE(page + ": " + marked.file);
    used.insert(marked.file);
    const json results = results_of(marked);
    EXPECT_EQ(joined(mistakes(results, marked.lines)), "");
    if (!marked.command.empty()) {
      EXPECT_EQ(flags_that_count(marked.command), flags_that_count(results.at("command")));
    }
  }
  for (const auto& file : fs::directory_iterator(kResults))
    EXPECT_TRUE(used.contains(file.path().filename())) << file.path() << " is in no text";
}

TEST(ReadmeTables, AreFoundToDifferFromOtherResults) {
  for (const auto& [page, marked] : all_marked_tables()) {
    SCOPED_TRACE(page + ": " + marked.file);
    const json results = results_of(marked);
    json named = results, counted = results;
    named["variants"].back()["spec"] = "other";
    for (json& value : counted["variants"].back()) {
      if (value.is_number()) value = 1.5 + value.get<double>();
    }
    for (json& loss : counted["variants"].back()["val_losses"]) loss = 1.5 + loss.get<double>();
    for (json& swept : counted["variants"].back()["sweep"])
      swept["loss"] = 1.5 + swept["loss"].get<double>();
    for (json& of_seed : counted["variants"].back()["losses_by_position"]) {
      for (json& part : of_seed) part["loss"] = 1.5 + part["loss"].get<double>();
    }
    EXPECT_NE(joined(mistakes(named, marked.lines)), "");
    EXPECT_NE(joined(mistakes(counted, marked.lines)), "");
    EXPECT_NE(joined(mistakes(results, {"no table"})), "");
  }
  EXPECT_NE(flags_that_count("headcount compare --seeds 2 --out a"),
            flags_that_count("headcount compare --seeds 3 --out a"));
  EXPECT_EQ(flags_that_count("headcount compare --lr 1  --out a --jobs 2"),
            flags_that_count("headcount compare --out b --lr 1"));
}

}  // namespace
}  // namespace headcount::readme_tables
