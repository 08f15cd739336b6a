#include <algorithm>
#include <cmath>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"
#include "train/compare/premises.h"
#include "train/compare/verdict.h"
#include "train/evaluation.h"
#include "train/show/statistics.h"
#include "train/show/units.h"

namespace headcount {

namespace {

bool is_judged(const ComparisonResult& result) {
  return std::ranges::any_of(result.variants,
                             [&](const VariantResult& v) { return has_verdict(v, result); });
}

// What the numbers of a table with verdicts are, as a sentence.
std::string meaning(Metric metric) {
  if (metric == Metric::loss)
    return "+- is the half width of a 95 % confidence interval over seeds.";
  return metric == Metric::steps
             ? "Steps are medians over seeds (least to most), percentages those "
               "of pairs with the same seed."
             : "Points are medians, with the least and the most over seeds.";
}

// Assumptions of the verdicts, as a sentence.
std::string assumption(const Question& question) {
  if (question.metric != Metric::loss) {
    return std::string("Verdicts count seeds (sign test): at least half of all seeds ") +
           (question.metric == Metric::steps
                ? "take fewer steps than the tolerance allows (enough) or more (later)"
                : "lose less than the tolerance (enough) or more (not enough)") +
           ". Each verdict is wrong with a probability of at most 5 %, whatever the distribution "
           "over seeds.";
  }
  const char* const how = question.seeds.grows() ? "repeated confidence intervals" : "Student t";
  return "Verdicts are tests of non-inferiority, one-sided at 2.5 %, and assume that differences "
         "are normally distributed over seeds (" +
         std::string(how) + ").";
}

// Skewness of `values` beyond which fewer than 5 % of as many normal values are, in two standard
// errors; none where they are within.
std::optional<double> skewness_beyond_normal(const std::vector<double>& values) {
  constexpr std::size_t kLeast = 5;  // of fewer, all are within
  const auto n = static_cast<double>(values.size());
  if (values.size() < kLeast) return std::nullopt;
  const double middle = estimate(values).mean;
  double squares = 0, cubes = 0;
  for (const double value : values) {
    squares += std::pow(value - middle, 2) / n;
    cubes += std::pow(value - middle, 3) / n;
  }
  const double skewness = cubes / std::pow(squares, 1.5);
  const double errors = 2 * std::sqrt(6 * (n - 2) / ((n + 1) * (n + 3)));
  return std::abs(skewness) > errors ? std::optional(skewness) : std::nullopt;
}

// Names the attentions whose differences are too skewed for intervals; empty if none is.
std::string skewed_text(const ComparisonResult& result) {
  std::vector<std::string> names;
  for (const VariantResult& variant : result.variants) {
    if (const auto skewness = skewness_beyond_normal(values_of(variant.costs)))
      names.push_back(variant.spec + formatted(" (skewness %.1f)", *skewness));
  }
  if (names.empty() || result.question.metric != Metric::loss) return "";
  return "Differences of " + list_text(names) +
         " are more skewed than normal ones mostly are: do not trust their intervals.";
}

// Says which attentions overfit; empty if none does.
std::string overfit_text(const ComparisonResult& result) {
  std::vector<std::string> names;
  for (const VariantResult& variant : result.variants)
    if (overfits(variant)) names.push_back(variant.spec);
  if (names.empty()) return "";
  return formatted(
      "The validation loss of %s rose by more than %g %% from its lowest: longer "
      "training makes it worse.",
      list_text(names).c_str(), 100 * kOverfit);
}

// Says which training losses still fall at their ends, of attentions that cannot overfit; empty if
// none does.
std::string falling_text(const ComparisonResult& result) {
  constexpr std::size_t kMostNames = 7;
  std::vector<std::string> names;
  double most = 0;
  for (const VariantResult& variant : result.variants) {
    const std::optional<double> fall = fall_at_end(variant, result);
    if (!fall || may_overfit(variant, result)) continue;
    names.push_back(variant.spec);
    most = std::max(most, *fall);
  }
  if (names.empty()) return "";
  const std::string whose =
      names.size() > kMostNames ? formatted("%zu attentions", names.size()) : list_text(names);
  return (names.size() == 1
              ? "The training loss of " + whose + " is still falling at the end, by "
              : "The training losses of " + whose + " are still falling at the end, by up to ") +
         formatted("%.2g nats per 100 steps: longer training may change the verdict.", most);
}

// "seed 3", or "seeds 1, 2 and 3".
std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::vector<std::string> names;
  for (const std::uint64_t seed : seeds) names.push_back(std::to_string(seed));
  return (seeds.size() == 1 ? "seed " : "seeds ") + list_text(names);
}

std::string seeds_of_means(const ComparisonResult& result) {
  const std::vector<std::uint64_t>& seeds = result.common_seeds;
  const bool all = std::ranges::all_of(result.variants, [&](const VariantResult& v) {
    return v.runs.empty() || v.runs.size() == seeds.size();
  });
  if (all) return "";
  if (seeds.empty())
    return "No seed was finished by all attentions: their means are over different seeds.";
  return "Losses and answers are means over " + seeds_text(seeds) +
         ", which all attentions finished; differences and verdicts use all seeds of an attention.";
}

// "largest" or "smallest" if the value at `chosen` is the largest or smallest of the sweep; empty
// otherwise, or if a value is no number. A zero never counts as smallest, because settings with
// ordered values begin at zero or above.
std::string end_taken(const std::vector<SweptValue>& swept, std::size_t chosen) {
  std::vector<double> values(swept.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (parse_number(swept[i].value, values[i]) != std::errc()) return "";
  }
  const double taken = values.at(chosen);
  if (taken == std::ranges::max(values)) return "largest";
  return taken == std::ranges::min(values) && taken != 0 ? "smallest" : "";
}

// Adds a note that says on which text the values of a sweep were compared, and a warning for each
// attention whose chosen value is the least or the greatest tried: a value beyond may be better.
void add_sweep_notes(const ComparisonResult& result, std::vector<std::string>& sentences) {
  const std::string setting = swept_setting(result);
  sentences.push_back(
      "Each attention has the " + setting +
      (result.question.metric == Metric::steps
           ? " with the fewest steps to learn (*), where a run that did not learn counts all steps."
           : " with the least loss (*) on the first tenth of the training text, on which no run "
             "was trained."));
  for (const VariantResult& variant : result.variants) {
    const auto found = std::ranges::find(variant.swept, true, &SweptValue::chosen);
    if (!found->loss) {
      sentences.push_back("No run of " + variant.spec + " finished at any " + setting + ".");
      continue;
    }
    const auto chosen = static_cast<std::size_t>(found - variant.swept.begin());
    const std::string end = end_taken(variant.swept, chosen);
    if (end.empty()) continue;
    sentences.push_back(variant.spec + " has the " + end + " " + setting + " of the sweep, " +
                        found->value + ": a " + (end == "largest" ? "larger" : "smaller") +
                        " value may be better.");
  }
}

}  // namespace

std::string swept_setting(const ComparisonResult& result) {
  return result.sweep.substr(0, result.sweep.find('='));
}

std::vector<std::string> verdict_notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  const bool judged = is_judged(result);
  if (judged && result.question.intervals) sentences.push_back(meaning(result.question.metric));
  for (const std::string& text : {overfit_text(result), falling_text(result), skewed_text(result)})
    if (judged && !text.empty()) sentences.push_back(text);
  if (const std::vector<std::uint64_t>& lost = reference(result).diverged; !lost.empty()) {
    sentences.push_back(reference(result).spec + ", the reference, diverged on " +
                        seeds_text(lost) + ", which no verdict counts.");
  }
  if (const std::string text = seeds_of_means(result); !text.empty()) sentences.push_back(text);
  if (result.too_long_warmup > 0) {
    sentences.push_back(
        formatted("The warm-up of %td steps is longer than the run of %td steps; it is "
                  "shortened to a tenth of the run.",
                  result.too_long_warmup, result.steps));
  }
  if (!result.variants.empty() && !result.variants.front().swept.empty())
    add_sweep_notes(result, sentences);
  return sentences;
}

std::vector<std::string> statistics_notes(const ComparisonResult& result) {
  if (!is_judged(result) || !result.question.intervals) return {};
  std::vector<std::string> sentences = {assumption(result.question)};
  if (const std::string text = sensitivity(result); !text.empty()) sentences.push_back(text);
  return sentences;
}

}  // namespace headcount
