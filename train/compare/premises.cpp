#include "train/compare/premises.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "data/character_pairs.h"
#include "train/compare/sequential_testing.h"
#include "train/compare/verdict.h"
#include "train/statistics.h"
#include "train/units.h"

namespace headcount {

double baseline_loss(const Corpus& corpus) {
  if (corpus.only_answers) return -std::log(corpus.baselines.value().guesser);
  return character_pair_loss(corpus.train.tokens, corpus.validation.tokens,
                             corpus.vocabulary.size());
}

std::string baseline_name(const ComparisonResult& result) {
  return result.only_answers ? "guessing" : "a bigram model";
}

namespace {

template <class Value>
double mean_of(std::span<const RunResult> runs, const Value& value) {
  double sum = 0;
  for (const RunResult& run : runs) sum += value(run);
  return sum / static_cast<double>(runs.size());
}

Index answers_asked(const RunResult& run) {
  Index asked = 0;
  for (const AnswersAt& at : run.answers_by_distance) asked += at.asked;
  return asked;
}

// Reason why the share of right answers tells nothing, given that `chance` are right without a
// lookup and that `limit`, a share, is the tolerance; empty if it tells something.
std::string why_no_better(double chance, double limit, std::span<const RunResult> runs) {
  const double right =
      mean_of(runs, [](const RunResult& run) { return run.answer_accuracy.value_or(0); });
  const Index asked = answers_asked(runs.front());
  // Two standard errors of a guesser's share.
  const double luck =
      asked > 0 ? 2 * std::sqrt(chance * (1 - chance) / static_cast<double>(asked)) : 0;
  const double needed = std::max(limit, luck);
  if (right - chance > needed) return "";
  const std::string text =
      formatted("%.1f %% of the answers right, %.1f %% are right without a lookup, and ",
                100 * right, 100 * chance);
  if (luck > limit) {
    return text +
           formatted("a share of %td answers tells no difference below %.1f points; ", asked,
                     100 * luck) +
           "evaluate on more text";
  }
  return text + formatted("the tolerance is %.1f points; ", 100 * limit) +
         (chance + limit < 1 ? "train longer" : "no share is so much higher: lower the tolerance");
}

// Reason why nothing can be measured against the reference; empty if it can. `runs` are runs of the
// reference, one or more.
std::string why_unlearned(const ComparisonResult& result, std::span<const RunResult> runs,
                          double limit) {
  const bool answers = result.question.metric == Metric::answers;
  const std::string who = reference(result).spec + ", the reference, has ";
  if (result.baseline_loss) {
    const double loss = mean_of(runs, [](const RunResult& run) { return run.validation_loss; });
    const bool reachable = answers || limit < *result.baseline_loss;
    if (*result.baseline_loss - loss <= (answers ? 0 : limit)) {
      return who + formatted("a loss of %.4f, ", loss) + baseline_name(result) +
             formatted(" has %.4f", *result.baseline_loss) +
             (answers ? "" : formatted(", and the tolerance is %.4f", limit)) +
             (reachable ? "; train longer" : "; no loss is so much lower: lower the tolerance");
    }
  }
  if (!answers || !result.answer_chance) return "";
  const std::string why = why_no_better(*result.answer_chance, limit / 100, runs);
  return why.empty() ? "" : who + why;
}

// Reason why steps to learn cannot be compared with those of the reference; empty if they can.
std::string why_not_in_time(const ComparisonResult& result, std::span<const RunResult> runs) {
  const auto late = std::ranges::count_if(runs, [](const RunResult& r) { return !r.learned_at; });
  if (late == 0) return "";
  return reference(result).spec +
         formatted(", the reference, does not learn in %td steps on %td of %td seeds; train longer",
                   result.steps, late, std::ssize(runs));
}

// Least number of seeds with which a sign test decides.
Index least_seeds() {
  Index seeds = 1;
  while (sign_test_exceptions(seeds, seeds).front() < 0) ++seeds;
  return seeds;
}

}  // namespace

std::string why_open(const ComparisonResult& result, double tolerance) {
  const Question& question = result.question;
  std::vector<RunResult> first;
  std::ranges::copy_if(
      reference(result).runs, std::back_inserter(first),
      [&](const RunResult& run) { return static_cast<Index>(run.seed) <= question.seeds.first; });
  if (first.empty()) return "";
  if (result.too_long_warmup > 0) {
    return formatted(
        "the %td steps are fewer than the warm-up of %td; train longer or shorten the warm-up",
        result.steps, result.too_long_warmup);
  }
  const bool steps = question.metric == Metric::steps;
  const std::string why =
      steps ? why_not_in_time(result, first) : why_unlearned(result, first, tolerance);
  if (!why.empty()) return why;
  if (question.metric != Metric::loss && question.seeds.last < least_seeds()) {
    return formatted("verdicts about %s count seeds and need %td or more",
                     steps ? "steps" : "answers", least_seeds());
  }
  return "";
}

std::string why_beaten(const ComparisonResult& result) {
  const Question& question = result.question;
  const VariantResult& than = reference(result);
  const std::optional<double> limit = tolerance(result);
  // Steps say themselves which attention learns sooner.
  if (!limit || !question.intervals || question.metric == Metric::steps) return "";
  const Judge judge(question.metric, question.seeds);
  const auto cost = [&](const VariantResult& v) { return middle_cost(v, question.metric); };
  const VariantResult* best = nullptr;
  for (const VariantResult& v : result.variants) {
    if (v.cache_bytes_per_token >= than.cache_bytes_per_token) continue;
    if (judge.verdict(deciding_costs(v, than), -*limit) != Verdict::enough) continue;
    if (best == nullptr || cost(v) < cost(*best)) best = &v;
  }
  if (best == nullptr) return "";
  const char* const format =
      question.metric == Metric::answers
          ? "%s, the reference, has %.1f points fewer of the answers right than %s, whose cache is "
            "smaller, and the tolerance is %.1f points; "
          : "%s, the reference, has a loss %.4f above that of %s, whose cache is smaller, and the "
            "tolerance is %.4f; ";
  return formatted(format, than.spec.c_str(), -cost(*best), best->spec.c_str(), *limit) +
         "train longer or, if that changes nothing, let " + best->spec + " be the reference";
}

std::string why_control_passes(const ComparisonResult& result) {
  for (const VariantResult& v : result.variants) {
    if (!is_control(result.question, v.spec) || v.verdict == Verdict::not_enough) continue;
    return v.spec + ", a control, is " +
           (v.verdict == Verdict::enough ? "enough"
                                         : "not shown to "
                                           "cost more than the tolerance") +
           ", so that nothing is at stake here: train longer, take more seeds, or another text";
  }
  return "";
}

namespace {

// Training losses of an attention: means over its runs, point by point, up to the end of the
// shortest.
std::vector<double> mean_curve(std::span<const RunResult> runs) {
  std::size_t points = runs.empty() ? 0 : runs.front().curve_losses.size();
  for (const RunResult& run : runs) points = std::min(points, run.curve_losses.size());
  std::vector<double> curve;
  for (std::size_t i = 0; i < points; ++i)
    curve.push_back(mean_of(runs, [i](const RunResult& run) { return run.curve_losses[i]; }));
  return curve;
}

}  // namespace

std::optional<double> fall_at_end(const VariantResult& variant, const ComparisonResult& result) {
  if (result.question.metric == Metric::steps) return std::nullopt;  // runs end when they learned
  const std::vector<double> curve = mean_curve(variant.runs);
  const std::optional<double> limit = tolerance(result);
  const std::size_t tenth = curve.size() / 10;
  if (tenth < 2 || !limit) return std::nullopt;
  const auto variance = [](const Estimate& e) {
    return std::pow(*e.half_width, 2);
  };  // of the mean: squared standard error
  const std::span all(curve);
  const Estimate last = estimate(all.last(tenth), 1.0),
                 before = estimate(all.last(2 * tenth).first(tenth), 1.0);
  const double fall = before.mean - last.mean;
  const double nats = result.question.metric == Metric::answers ? *limit / 100 : *limit;
  if (fall <= nats || fall <= 2 * std::sqrt(variance(last) + variance(before))) return std::nullopt;
  const double steps = static_cast<double>(variant.runs.front().curve_steps.back()) *
                       static_cast<double>(tenth) / static_cast<double>(curve.size());
  return 100 * fall / steps;
}

namespace {

// Assumptions of the verdicts, as a sentence.
std::string assumption(const Question& question) {
  if (question.metric != Metric::loss) {
    const bool steps = question.metric == Metric::steps;
    return std::string(steps
                           ? "Steps to learn are medians, with the least and the most over seeds. "
                           : "") +
           "Verdicts count seeds (sign test): at least half of all seeds " +
           (steps ? "take fewer steps than the tolerance allows (enough) or more (later)"
                  : "lose less than the tolerance (enough) or more (not enough)") +
           ". Each verdict is wrong with a probability of at most 5 %, whatever the distribution "
           "over seeds.";
  }
  const char* const how = question.seeds.grows() ? "repeated confidence intervals" : "Student t";
  return "Verdicts are tests of non-inferiority, one-sided at 2.5 %, and assume that differences "
         "are normally distributed over seeds (95 % confidence intervals, " +
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

// Which attentions are enough at other tolerances; empty if nothing is decided.
std::string sensitivity_text(const ComparisonResult& result) {
  std::string text;
  for (const AtTolerance& at : sensitivity(result)) {
    text += (text.empty() ? "Enough at a tolerance of " : "; ") +
            formatted("%g %% of the loss: ", at.percent) +
            (at.enough.empty() ? "none" : list_text(at.enough));
  }
  return text + (text.empty() ? "" : ".");
}

// Says which training losses still fall at their ends; empty if none does.
std::string falling_text(const ComparisonResult& result) {
  constexpr std::size_t kMostNames = 7;
  std::vector<std::string> names;
  double most = 0;
  for (const VariantResult& variant : result.variants) {
    const std::optional<double> fall = fall_at_end(variant, result);
    if (!fall) continue;
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

double share_to_learn(std::string_view data) {
  const BuiltInCorpus* const corpus = find_built_in(data);
  return corpus != nullptr && corpus->direction != nullptr ? 0.99 : 0.95;
}

Index runs_that_learned(const VariantResult& variant, std::string_view data) {
  return std::ranges::count_if(variant.runs, [share = share_to_learn(data)](const RunResult& run) {
    return least_answer_accuracy(run).value_or(0) >= share;
  });
}

std::string swept_setting(const ComparisonResult& result) {
  return result.sweep.substr(0, result.sweep.find('='));
}

std::vector<std::string> verdict_notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  const bool judged = std::ranges::any_of(
      result.variants, [&](const VariantResult& v) { return has_verdict(v, result); });
  if (judged && result.question.intervals) sentences.push_back(assumption(result.question));
  if (const std::string text = judged ? falling_text(result) : ""; !text.empty())
    sentences.push_back(text);
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
  for (const std::string& text : {sensitivity_text(result), skewed_text(result)})
    if (judged && !text.empty()) sentences.push_back(text);
  return sentences;
}

}  // namespace headcount
