#include "train/compare/columns.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "autograd/base/formatted.h"
#include "train/compare/learned.h"
#include "train/compare/result_text.h"
#include "train/compare/verdict.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;
using Variant = const VariantResult&;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

/// Formatting of numbers for a reader.
struct Words {
  bool page;

  std::string heading(const std::string& on_terminal, const std::string& on_page) const {
    return page ? on_page : on_terminal;
  }
  std::string nothing() const { return page ? "–" : "-"; }
  std::string number(double value, int decimals = 0) const {
    return page ? number_text(value, decimals) : formatted("%.*f", decimals, value);
  }
  std::string half_width(const Estimate& e, int decimals, double unit = 1) const {
    if (page) return half_width_text(e, decimals, unit);
    return e.half_width ? " +- " + formatted("%.*f", decimals, *e.half_width * unit) : "";
  }
  std::string estimate(const Estimate& e, int decimals, double unit = 1) const {
    return number(e.mean * unit, decimals) + half_width(e, decimals, unit);
  }
  std::string difference(const Estimate& e, int decimals = 4) const {
    return (page ? signed_text(e.mean, decimals) : formatted("%+.*f", decimals, e.mean)) +
           half_width(e, decimals);
  }
  std::string yes(bool value) const { return value ? "yes" : "no"; }
};

/// Collects columns. Figures that only finished runs have are empty for an attention without one.
class Columns {
 public:
  explicit Columns(Words words) : words_(words) {}

  void always(std::string heading, std::string key, std::function<std::string(Variant)> text,
              std::function<Json(Variant)> value, bool are_words = false) {
    all_.push_back(
        {std::move(heading), std::move(key), std::move(text), std::move(value), are_words});
  }
  void of_runs(std::string heading, std::string key, std::function<std::string(Variant)> text,
               std::function<Json(Variant)> value) {
    always(
        std::move(heading), std::move(key),
        [text, none = words_.nothing()](Variant v) { return v.runs.empty() ? none : text(v); },
        [value](Variant v) { return v.runs.empty() ? Json() : value(v); });
  }
  /// Adds the columns `name`_mean, which has the text of both, and `name`_ci95. `get` returns null
  /// if there is no estimate.
  void estimate(std::string heading, const std::string& name,
                const std::function<const Estimate*(Variant)>& get,
                const std::function<std::string(const Estimate&)>& text) {
    of_runs(
        std::move(heading), name + "_mean",
        [=, none = words_.nothing()](Variant v) { return get(v) ? text(*get(v)) : none; },
        [get](Variant v) { return get(v) ? Json(get(v)->mean) : Json(); });
    of_runs(
        "", name + "_ci95", [](Variant) { return ""; },
        [get](Variant v) { return get(v) ? or_null(get(v)->half_width) : Json(); });
  }
  /// Adds a column for programs only.
  void data(std::string key, std::function<Json(Variant)> value) {
    always(
        "", std::move(key), [](Variant) { return ""; }, std::move(value));
  }

  std::vector<Column<VariantResult>> take() { return std::move(all_); }

 private:
  Words words_;
  std::vector<Column<VariantResult>> all_;
};

const Estimate* pointer(const std::optional<Estimate>& e) { return e ? &*e : nullptr; }

// Columns that are known before any run: attention, parameters, cache.
void add_sizes(Columns& columns, Words words, const ComparisonResult& result) {
  columns.always(
      "attention", "attention", [words](Variant v) { return words.page ? v.spec : v.label(); },
      [](Variant v) { return v.spec; }, true);
  columns.data("spec", [](Variant v) { return v.spec; });
  if (std::ranges::any_of(result.variants, [](Variant v) { return v.trained_on.has_value(); })) {
    columns.data("trained_on_percent",
                 [](Variant v) { return v.trained_on ? Json(*v.trained_on) : Json(); });
  }
  columns.always(
      "adjusted", "adjusted", [](Variant v) { return v.adjusted; },
      [](Variant v) { return v.adjusted; }, true);
  columns.always(
      words.heading("params", "parameters"), "params",
      [words](Variant v) { return words.number(static_cast<double>(v.parameters)); },
      [](Variant v) { return v.parameters; });
  const std::string context = number_text(static_cast<double>(result.context));
  columns.always(
      words.heading("KV B/token at " + context,
                    "KV cache, bytes a token at " + context + " tokens"),
      "kv_cache_bytes_per_token",
      [words](Variant v) {
        const bool whole = v.cache_bytes_per_token == std::floor(v.cache_bytes_per_token);
        return words.number(v.cache_bytes_per_token, whole ? 0 : 1);
      },
      [](Variant v) { return json_number(v.cache_bytes_per_token); });
}

void add_runs(Columns& columns, Words words) {
  columns.always(
      words.heading("seeds", "seeds finished"), "runs",
      [words](Variant v) { return words.number(static_cast<double>(v.runs.size())); },
      [](Variant v) { return v.runs.size(); });
  columns.data("seeds", [](Variant v) {
    Json seeds = Json::array();
    for (const RunResult& run : v.runs) seeds.push_back(run.seed);
    return seeds;
  });
  columns.data("val_losses", [](Variant v) {
    Json losses = Json::array();
    for (const RunResult& run : v.runs) losses.push_back(run.validation_loss);
    return losses;
  });
  columns.data("failures", [](Variant v) { return v.failures; });
  columns.data("sweep", [](Variant v) {
    Json values = Json::array();
    for (const SweptValue& swept : v.swept) {
      values.push_back(
          {{"value", swept.value}, {"loss", or_null(swept.loss)}, {"chosen", swept.chosen}});
    }
    return values;
  });
}

void add_losses(Columns& columns, Words words, const ComparisonResult& result) {
  const auto four_decimals = [words](const Estimate& e) { return words.estimate(e, 4); };
  columns.estimate(
      words.heading("val loss", "validation loss"), "val_loss", [](Variant v) { return &v.loss; },
      four_decimals);
  if (result.entropy_per_character) {
    const double floor = *result.entropy_per_character;
    columns.of_runs(
        words.heading("above floor", "above the floor"), "excess_over_entropy",
        [=](Variant v) { return words.number(v.loss.mean - floor, 4); },
        [=](Variant v) { return v.loss.mean - floor; });
  }
  if (!result.only_answers) {
    columns.of_runs(
        words.heading("bits/char", "bits per character"), "bits_per_character",
        [words](Variant v) { return words.number(v.loss.mean / std::numbers::ln2, 4); },
        [](Variant v) { return v.loss.mean / std::numbers::ln2; });
  }
  const auto answers = [](Variant v) { return pointer(v.answer_accuracy); };
  if (std::ranges::any_of(result.variants, answers)) {
    columns.estimate(words.heading("answers right %", "answers right, %"), "answer_accuracy",
                     answers, [words](const Estimate& e) { return words.estimate(e, 1, 100); });
    const auto learned = [chance = result.answer_chance](Variant v) {
      return runs_that_learned(v, chance);
    };
    columns.of_runs(
        words.heading("learned", "seeds that learned it"), "learned",
        [=](Variant v) {
          return learned(v) ? words.number(static_cast<double>(*learned(v))) + " of " +
                                  words.number(static_cast<double>(v.runs.size()))
                            : words.nothing();
        },
        [=](Variant v) { return learned(v) ? Json(*learned(v)) : Json(); });
    columns.data("answer_accuracies", [](Variant v) {
      Json shares = Json::array();
      for (const RunResult& run : v.runs) shares.push_back(run.answer_accuracy.value_or(0));
      return shares;
    });
  }
}

double cost_of_seed(const std::pair<std::uint64_t, double>& cost) { return cost.second; }

// Columns that compare an attention with the reference.
void add_comparison(Columns& columns, Words words, const ComparisonResult& result) {
  columns.estimate(
      "minus " + reference(result).spec, "paired_difference",
      [](Variant v) { return pointer(v.difference); },
      [words](const Estimate& e) { return words.difference(e); });
  const auto decided = [](Variant v) {
    return v.difference ? excludes_zero(*v.difference) : std::nullopt;
  };
  columns.of_runs(
      words.heading("not zero", "excludes zero"), "difference_excludes_zero",
      [=](Variant v) { return decided(v) ? words.yes(*decided(v)) : words.nothing(); },
      [=](Variant v) { return decided(v) ? Json(*decided(v)) : Json(); });
  columns.data("costs", [](Variant v) {
    Json costs = Json::array();
    for (const auto& [seed, cost] : v.costs) costs.push_back({{"seed", seed}, {"cost", cost}});
    return costs;
  });
  columns.data("cost_mean", [](Variant v) { return v.cost ? Json(v.cost->mean) : Json(); });
  columns.data("cost_ci95",
               [](Variant v) { return v.cost ? or_null(v.cost->half_width) : Json(); });
  columns.of_runs(
      words.heading("points lost", "answers lost, points: median (least to most)"), "cost_median",
      [words](Variant v) {
        if (v.costs.empty()) return words.nothing();
        const auto number = [&](double value) { return words.difference({value, {}}, 1); };
        const auto [least, most] = std::ranges::minmax(v.costs, {}, cost_of_seed);
        return number(middle_cost(v, Metric::answers)) + " (" + number(least.second) + " to " +
               number(most.second) + ")";
      },
      [](Variant v) { return v.costs.empty() ? Json() : Json(middle_cost(v, Metric::answers)); });
  columns.of_runs(
      "verdict", "verdict",
      [words](Variant v) { return v.cost ? verdict_word(v.verdict) : words.nothing(); },
      [](Variant v) { return v.cost ? Json(verdict_word(v.verdict)) : Json(); });
}

void add_speeds(Columns& columns, Words words, const ComparisonResult& result) {
  columns.of_runs(
      words.heading("train tok/s", "training, tokens/s"), "train_tokens_per_second",
      [words](Variant v) {
        return v.train_tokens_per_second ? words.number(*v.train_tokens_per_second)
                                         : words.nothing();
      },
      [](Variant v) { return or_null(v.train_tokens_per_second); });
  const std::string context = number_text(static_cast<double>(result.context));
  columns.always(
      words.heading("decode tok/s", "decoding, tokens/s at " + context + " tokens"),
      "decode_tokens_per_second",
      [words](Variant v) {
        return v.runs.empty() ? words.nothing() : words.number(v.decode_tokens_per_second);
      },
      [](Variant v) { return v.decode_tokens_per_second; });
  columns.data("decode", [](Variant v) {
    Json speeds = Json::array();
    for (const DecodeSpeed& d : v.decode)
      speeds.push_back({{"context", d.context}, {"tokens_per_second", d.tokens_per_second}});
    return speeds;
  });
  columns.always(
      words.heading("Pareto", "on the Pareto front"), "pareto",
      [words](Variant v) { return v.runs.empty() ? words.nothing() : words.yes(v.pareto); },
      [](Variant v) { return v.pareto; });
}

}  // namespace

std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result,
                                                      Reader reader) {
  const Words words{reader == Reader::page};
  Columns columns(words);
  add_sizes(columns, words, result);
  add_runs(columns, words);
  add_losses(columns, words, result);
  add_comparison(columns, words, result);
  add_speeds(columns, words, result);
  return columns.take();
}

}  // namespace headcount
