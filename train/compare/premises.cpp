#include "train/compare/premises.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "data/texts/character_pairs.h"
#include "train/compare/sequential_testing.h"
#include "train/compare/verdict.h"
#include "train/options.h"
#include "train/show/statistics.h"
#include "train/show/units.h"

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

// Where a figure of runs, a mean at each evaluation, was least, and what it is at their end.
struct Turn {
  Index step = 0;
  double least = std::numeric_limits<double>::infinity(), last = 0;
};

// None unless each of the runs has got worse since, by more than `limit` in the mean; none for runs
// that were evaluated at different steps.
template <class Figure>
std::optional<Turn> turn_of(std::span<const RunResult> runs, double limit, const Figure& figure) {
  const auto at_same_steps = [&](const RunResult& run) {
    return std::ranges::equal(run.evaluations, runs.front().evaluations, {}, &EvaluationAt::step,
                              &EvaluationAt::step);
  };
  if (runs.empty() || !std::ranges::all_of(runs, at_same_steps)) return std::nullopt;
  Turn turn;
  std::size_t least = 0;
  for (std::size_t i = 0; i < runs.front().evaluations.size(); ++i) {
    turn.last = mean_of(runs, [&](const RunResult& run) { return figure(run.evaluations[i]); });
    if (turn.last >= turn.least) continue;
    turn.step = runs.front().evaluations[i].step;
    turn.least = turn.last;
    least = i;
  }
  const auto is_worse = [&](const RunResult& run) {
    return figure(run.evaluations.back()) > figure(run.evaluations[least]);
  };
  if (turn.last - turn.least <= limit || !std::ranges::all_of(runs, is_worse)) return std::nullopt;
  return turn;
}

// The turn of the loss of runs that overfit, by more than `limit`; none of others.
std::optional<Turn> overfit(std::span<const RunResult> runs, double limit = 0) {
  const auto turn = turn_of(runs, limit, [](const EvaluationAt& at) { return at.loss; });
  return turn && overfits(turn->least, turn->last) ? turn : std::nullopt;
}

// Reason why the reference is not at its best, by more than `limit` of the metric; empty if it is.
std::string why_overfit(const ComparisonResult& result, std::span<const RunResult> runs,
                        double limit) {
  std::string how;
  if (result.question.metric == Metric::answers) {
    const auto wrong = [](const EvaluationAt& at) { return 100 - 100 * at.answers.value_or(0); };
    if (const auto turn = turn_of(runs, limit, wrong))
      how = formatted("%.1f %% of its answers were right at step %td and %.1f %% are at the end",
                      100 - turn->least, turn->step, 100 - turn->last);
  } else if (const auto turn = overfit(runs, limit)) {
    how = formatted("its validation loss was %.4f at step %td and is %.4f at the end", turn->least,
                    turn->step, turn->last);
  }
  if (how.empty()) return "";
  return reference(result).spec + ", the reference, overfits: " + how +
         "; take a longer text, or fewer steps";
}

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

// Returns true if runs look overfit without evaluations on the way: their mean loss is no better
// than the baseline's, within 1 %, and that of training, over the last tenth of the steps, is far
// below both.
bool look_overfit(std::span<const RunResult> runs, std::optional<double> baseline) {
  constexpr double kFar = 0.95;
  const std::vector<double> curve = mean_curve(runs);
  if (curve.empty() || !baseline) return false;
  const std::size_t tenth = std::max<std::size_t>(1, curve.size() / 10);
  const double training = estimate(std::span(curve).last(tenth), 1.0).mean;
  const double loss = mean_of(runs, [](const RunResult& run) { return run.validation_loss; });
  return !overfits(loss, *baseline) && training < kFar * std::min(loss, *baseline);
}

// What may help runs that have not learned: more training, unless they overfit.
std::string remedy(std::span<const RunResult> runs, const ComparisonResult& result) {
  if (const auto turn = overfit(runs))
    return formatted("its validation loss rises from step %td on: take a longer text", turn->step);
  return look_overfit(runs, result.baseline_loss) ? "its training loss is far lower, so it may "
                                                    "overfit: evaluate on the way (eval-every) "
                                                    "to see from which step on"
                                                  : "train longer";
}

// The value of a setting that ends runs when they have learned; 0: it ends none, or the result has
// no settings, as that of the page.
double mark(const ComparisonResult& result, const char* setting) {
  return result.config.is_object() ? result.config.value(setting, 0.0) : 0.0;
}

// Reason why the share of right answers tells nothing, given that `limit`, a share, is the
// tolerance; empty if it tells something.
std::string why_no_better(const ComparisonResult& result, double limit,
                          std::span<const RunResult> runs) {
  const double chance = result.baselines->best();
  const double right =
      mean_of(runs, [](const RunResult& run) { return run.answer_accuracy.value_or(0); });
  const Index asked = runs.front().answers_asked();
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
  return text + formatted("the tolerance is %.1f points; ", 100 * limit) + remedy(runs, result);
}

// Reason why nothing can be measured against the reference; empty if it can. `runs` are runs of the
// reference, one or more.
std::string why_unlearned(const ComparisonResult& result, std::span<const RunResult> runs,
                          double limit) {
  const bool answers = result.question.metric == Metric::answers;
  const std::string who = reference(result).spec + ", the reference, has ";
  if (result.baseline_loss) {
    const double loss = mean_of(runs, [](const RunResult& run) { return run.validation_loss; });
    if (*result.baseline_loss - loss <= (answers ? 0 : limit)) {
      return who + formatted("a loss of %.4f, ", loss) + baseline_name(result) +
             formatted(" has %.4f", *result.baseline_loss) +
             (answers ? "" : formatted(", and the tolerance is %.4f", limit)) + "; " +
             remedy(runs, result);
    }
  }
  if (!answers || !result.baselines) return "";
  const std::string why = why_no_better(result, limit / 100, runs);
  return why.empty() ? "" : who + why;
}

// Reason why steps to learn cannot be compared with those of the reference; empty if they can.
std::string why_not_in_time(const ComparisonResult& result, std::span<const RunResult> runs) {
  std::vector<RunResult> late;
  std::ranges::copy_if(runs, std::back_inserter(late),
                       [](const RunResult& run) { return !run.learned_at; });
  if (late.empty()) return "";
  return reference(result).spec +
         formatted(", the reference, does not learn in %td steps on %td of %td seeds; ",
                   result.steps, std::ssize(late), std::ssize(runs)) +
         remedy(late, result);
}

// Least number of seeds with which a sign test decides.
Index least_seeds() {
  Index seeds = 1;
  while (sign_test_exceptions(seeds, seeds).front() < 0) ++seeds;
  return seeds;
}

}  // namespace

std::string why_in_vain(const ComparisonResult& facts) {
  const Question& question = facts.question;
  if (facts.too_long_warmup > 0) {
    return formatted(
        "the %td steps are fewer than the warm-up of %td; train longer or shorten the warm-up",
        facts.steps, facts.too_long_warmup);
  }
  const bool answers = question.metric == Metric::answers, steps = question.metric == Metric::steps;
  const double limit = question.tolerance.value_or(0);
  if (answers && facts.baselines && 100 * facts.baselines->best() + limit >= 100) {
    return formatted(
        "%.1f %% of the answers are right without a lookup, and the tolerance is %.1f points; no "
        "share is so much higher: lower the tolerance",
        100 * facts.baselines->best(), limit);
  }
  if (!answers && !steps && facts.baseline_loss && limit >= *facts.baseline_loss) {
    return baseline_name(facts) +
           formatted(
               " has a loss of %.4f, and the tolerance is %.4f; no loss is so much lower: "
               "lower the tolerance",
               *facts.baseline_loss, limit);
  }
  if ((answers || steps) && question.seeds.last < least_seeds()) {
    return formatted("verdicts about %s count seeds and need %td or more",
                     steps ? "steps" : "answers", least_seeds());
  }
  if (const double loss = mark(facts, "stop-at-loss");
      steps && facts.baseline_loss && *facts.baseline_loss < loss) {
    return baseline_name(facts) +
           formatted(" has a loss of %.4f, so that a mark of %g asks for no attention; lower it",
                     *facts.baseline_loss, loss);
  }
  return "";
}

bool overfits(const VariantResult& variant) { return overfit(variant.runs).has_value(); }

bool may_overfit(const VariantResult& variant, const ComparisonResult& result) {
  return overfits(variant) || look_overfit(variant.runs, result.baseline_loss);
}

std::string why_undecided(const ComparisonResult& result, double tolerance) {
  const Question& question = result.question;
  std::vector<RunResult> first;
  std::ranges::copy_if(
      reference(result).runs, std::back_inserter(first),
      [&](const RunResult& run) { return static_cast<Index>(run.seed) <= question.seeds.first; });
  if (first.empty()) return "";
  if (const std::string why = why_in_vain(result); !why.empty()) return why;
  if (question.metric == Metric::steps) return why_not_in_time(result, first);
  const std::string why = why_overfit(result, first, tolerance);
  return why.empty() ? why_unlearned(result, first, tolerance) : why;
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
           ", so that nothing is at stake here: train longer, take more seeds, or a text that asks "
           "more, such as recall";
  }
  return "";
}

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

double share_to_learn(std::string_view data) {
  const BuiltInCorpus* const corpus = find_built_in(data);
  return corpus != nullptr && corpus->direction != nullptr ? 0.99 : kLearned;
}

Index runs_that_learned(const VariantResult& variant, const ComparisonResult& result) {
  const bool ended = mark(result, "stop-at-answers") > 0 || mark(result, "stop-at-loss") > 0;
  const double share = share_to_learn(result.data);
  return std::ranges::count_if(variant.runs, [&](const RunResult& run) {
    return ended ? run.learned_at.has_value() : run.least_answer_accuracy().value_or(0) >= share;
  });
}

std::string learned_text(const ComparisonResult& result) {
  const double answers = mark(result, "stop-at-answers"), loss = mark(result, "stop-at-loss");
  const std::string below = loss > 0 ? formatted("a loss below %g", loss) : "";
  if (loss > 0 && answers == 0) return below;
  const auto directed = [](const RunResult& run) { return !run.answers_by_direction.empty(); };
  const bool directions = std::ranges::any_of(
      result.variants, [&](const auto& v) { return std::ranges::any_of(v.runs, directed); });
  return formatted("%g %% of the answers right",
                   answers > 0 ? answers : 100 * share_to_learn(result.data)) +
         (directions ? " in each direction" : "") + (loss > 0 ? " or " + below : "");
}

}  // namespace headcount
