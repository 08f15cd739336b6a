#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/show/units.h"

namespace headcount {

namespace {

using Variant = const VariantResult&;
using Value = std::function<Json(Variant)>;
using Text = std::function<std::string(Variant)>;

using Columns = std::vector<Column<VariantResult>>;

// Adds a figure of finished runs: a dash and null where there is none.
void measured(Columns& all, const std::string& heading, std::string key, const Value& value,
              int decimals = 0, const Text& text = {}) {
  const auto figure = [=](Variant v) { return v.runs.empty() ? Json() : value(v); };
  all.push_back({heading, std::move(key), {}, figure, false, 0, decimals});
  if (text) all.back().text = [=](Variant v) { return figure(v).is_null() ? "-" : text(v); };
}

// Adds the columns `name`_mean, which has the text of both, and `name`_ci95.
void estimated(Columns& all, const std::string& heading, const std::string& name,
               std::optional<Estimate> VariantResult::*of,
               const std::function<std::string(const Estimate&)>& text) {
  measured(
      all, heading, name + "_mean", [=](Variant v) { return v.*of ? Json((v.*of)->mean) : Json(); },
      0, [=](Variant v) { return text(*(v.*of)); });
  measured(all, {}, name + "_ci95",
           [=](Variant v) { return v.*of ? or_null((v.*of)->half_width) : Json(); });
}

// Columns of sizes, which are known before any run, and of how the runs ended.
void add_sizes(Columns& columns, const ComparisonResult& result) {
  columns = {{"attention", "spec", [](Variant v) { return v.label(); },
              [](Variant v) { return v.spec; }, true},
             {"adjusted", "adjusted", {}, [](Variant v) { return v.adjusted; }, true},
             {"seeds", "seeds", {}, [](Variant v) { return v.runs.size(); }},
             {"params", "params", {}, [](Variant v) { return v.parameters; }},
             {"KV B/token\nat " + std::to_string(result.context),
              "kv_cache_bytes_per_token",
              {},
              [](Variant v) { return json_number(v.cache_bytes_per_token); },
              false,
              0,
              1}};
}

void add_losses(Columns& columns, const ComparisonResult& result) {
  estimated(columns, "val loss", "val_loss", &VariantResult::loss,
            [](const Estimate& e) { return estimate_text(e, 4); });
  if (const auto floor = result.entropy_per_character) {
    measured(
        columns, "above floor", "excess_over_entropy",
        [=](Variant v) { return v.loss->mean - *floor; }, 4);
  }
  const auto has_answers = [](Variant v) { return v.answer_accuracy.has_value(); };
  if (std::ranges::none_of(result.variants, has_answers)) return;
  estimated(columns, "answers right %", "answer_accuracy", &VariantResult::answer_accuracy,
            [](const Estimate& e) { return estimate_text(e, 1, 100); });
  const auto learned = [&result](Variant v) { return Json(runs_that_learned(v, result)); };
  measured(columns, "learned", "learned", learned, 0, [=](Variant v) {
    return cell_text(learned(v), 0) + " of " + cell_text(v.runs.size() + v.diverged.size(), 0);
  });
}

// The median of the steps to learn, with the least and the most, over all runs of an attention. A
// run that diverged takes more steps than any.
void add_steps(Columns& columns) {
  const auto steps = [](Variant v) {
    std::vector<double> all(v.diverged.size(), kDivergedCost);
    for (const RunResult& run : v.runs)
      all.push_back(run.learned_at ? static_cast<double>(*run.learned_at) : kDivergedCost);
    return all;
  };
  const auto text = [=](Variant v) {
    if (v.runs.empty()) return std::string("-");
    const std::vector<double> all = steps(v);
    Index given = 0;  // steps of the longest run
    for (const RunResult& run : v.runs) given = std::max(given, steps_taken(run));
    const auto number = [&](double value) {
      return std::isfinite(value) ? number_text(value) : "> " + std::to_string(given);
    };
    const auto [least, most] = std::ranges::minmax(all);
    if (!std::isfinite(least)) return "not in " + std::to_string(given);
    return number(median(all)) + " (" + number(least) + " to " + number(most) + ")";
  };
  const auto middle = [=](Variant v) {
    const double median_steps = v.runs.empty() ? kDivergedCost : median(steps(v));
    return std::isfinite(median_steps) ? json_number(median_steps) : Json();
  };
  columns.push_back({"steps to learn", "steps_to_learn_median", text, middle});
}

// What less cache costs in training: the median over seeds of the steps at which an attention has
// the loss that the reference ends with, where a run that diverged never has. Needs evaluations on
// the way.
void add_steps_to_reference(Columns& columns, const ComparisonResult& result) {
  const VariantResult& than = reference(result);
  if (std::ranges::all_of(than.runs, [](const RunResult& r) { return r.evaluations.size() < 2; }))
    return;
  const auto steps = [&than](Variant v) {
    std::vector<double> all(diverged_seeds(v, than).size(), kDivergedCost);
    for (const auto& [run, same] : pairs_of_runs(v.runs, than.runs))
      all.push_back(steps_to(*run, same->validation_loss).value_or(kDivergedCost));
    return all.empty() ? kDivergedCost : median(all);
  };
  measured(
      columns, "steps to " + than.spec + "'s loss", "steps_to_reference_loss_median",
      [=](Variant v) { return std::isfinite(steps(v)) ? Json(steps(v)) : Json(); }, 0);
}

// Half width of the interval of the difference that the text alone leaves: over the stretches of
// the validation part, of their means over seeds.
std::optional<double> text_half_width(Variant v, const VariantResult& than) {
  const auto pairs = pairs_of_runs(v.runs, than.runs);
  if (&v == &than || pairs.empty()) return std::nullopt;
  std::vector<double> sums(pairs.front().first->loss_by_block.size());
  for (const auto& [run, same] : pairs) {
    if (run->loss_by_block.size() != sums.size() || same->loss_by_block.size() != sums.size())
      return std::nullopt;  // a run of an earlier version has none
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += run->loss_by_block[i] - same->loss_by_block[i];
  }
  if (sums.empty()) return std::nullopt;
  for (double& sum : sums) sum /= static_cast<double>(pairs.size());
  return estimate(sums).half_width;
}

// Columns that compare an attention with the reference.
void add_comparison(Columns& columns, const ComparisonResult& result) {
  const std::string& than = reference(result).spec;
  estimated(columns, "minus " + than, "paired_difference", &VariantResult::difference,
            [](const Estimate& e) { return signed_text(e.mean, 4) + half_width_text(e, 4); });
  const auto by_text = [&result](Variant v) { return text_half_width(v, reference(result)); };
  if (std::ranges::any_of(result.variants, [=](Variant v) { return by_text(v).has_value(); }))
    measured(
        columns, "+- of text", "paired_difference_text_ci95",
        [=](Variant v) { return or_null(by_text(v)); }, 4);
  const bool steps = result.question.metric == Metric::steps;
  const auto median_cost = [](Variant v) {
    return v.costs.empty() ? Json() : Json(middle_cost(v, Metric::answers));
  };
  const std::string heading =
      steps ? "% more than " + than + "\nwith the same seed" : "points below " + than;
  measured(columns, heading, "cost_median", median_cost, 0, [=](Variant v) {
    const auto number = [&](double value) {
      return std::isfinite(value) ? signed_text(value, steps ? 0 : 1) : std::string("more");
    };
    const auto [least, most] = std::ranges::minmax(v.costs, {}, &SeedCost::cost);
    if (!std::isfinite(middle_cost(v, Metric::answers))) return std::string("-");
    return number(median_cost(v)) + " (" + number(least.cost) + " to " + number(most.cost) + ")";
  });
  const auto verdict = [&result](Variant v) {
    return has_verdict(v, result) ? Json(verdict_word(v.verdict, result.question.metric)) : Json();
  };
  columns.push_back({"verdict", "verdict", {}, verdict});
}

void add_bits_and_speed(Columns& columns, const ComparisonResult& result) {
  if (!result.only_answers) {
    measured(
        columns, "bits/char", "bits_per_character",
        [](Variant v) { return v.loss->mean / std::numbers::ln2; }, 4);
  }
  measured(columns, "train tok/s", "train_tokens_per_second",
           [](Variant v) { return or_null(v.train_tokens_per_second); });
}

}  // namespace

std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result) {
  Columns columns;
  add_sizes(columns, result);
  add_losses(columns, result);
  result.question.metric == Metric::steps ? add_steps(columns)
                                          : add_steps_to_reference(columns, result);
  add_comparison(columns, result);
  add_bits_and_speed(columns, result);
  return columns;
}

std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result) {
  if (result.variants.empty() || result.variants.front().swept.empty()) return {};
  const bool by_steps = result.question.metric == Metric::steps;
  Columns columns = {{"attention", "attention", {}, [](Variant v) { return v.spec; }, true}};
  for (std::size_t i = 0; i < result.variants.front().swept.size(); ++i) {
    const std::string name = swept_setting(result) + " " + result.variants.front().swept[i].value;
    const auto text = [i, by_steps](Variant v) {
      const SweptValue& swept = v.swept.at(i);
      if (!swept.loss) return std::string("failed");
      return number_text(*swept.loss, by_steps ? 0 : 4) + (swept.chosen ? " *" : "  ");
    };
    columns.push_back({name, name, text, [i](Variant v) { return or_null(v.swept.at(i).loss); }});
  }
  return columns;
}

}  // namespace headcount
