#include "train/compare/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// With more attentions than this, the text gives the cost of the cheapest one only and names the
// others; the table has their costs.
constexpr std::size_t kMostCostsInText = 7;

// The default tolerance is a hundredth of the loss. Of a loss near zero that would mean nothing, so
// it is at least a thousandth of a nat, a tenth of a percent of perplexity.
// What a control loses is what there is to lose; a quarter of that is much.
constexpr double kShareOfLoss = 0.01, kShareOfControl = 0.25, kLeastNats = 0.001, kPoints = 5,
                 kMoreSteps = 25, kPercent = 100;

Index seed_count(std::string_view text) {
  if (text.find_first_not_of("0123456789") != std::string_view::npos)
    throw SettingError("`seeds` must be a whole number or a range such as 3..20; {} is neither",
                       headcount::quoted(text));
  return parse_value("seeds", WholeRange{1, 1000}, text);
}

// Share of the reference's cache: "25 % of mha's KV cache", or "equal KV cache".
std::string share_text(double bytes, const VariantResult& reference) {
  if (bytes == reference.cache_bytes_per_token) return "equal KV cache";
  const double percent = kPercent * bytes / reference.cache_bytes_per_token;
  return formatted("%.*f %% of ", percent < 10 ? 1 : 0, percent) + reference.spec + "'s KV cache";
}

// Writes costs with as many decimals as show two digits of the tolerance: for a loss at least
// three, and at most 15, the digits of a double.
struct Numbers {
  const VariantResult& reference;
  Metric metric;
  double tolerance;

  int decimals() const {
    if (metric == Metric::steps) return 0;
    const int least = metric == Metric::loss ? 3 : 1;
    if (tolerance <= 0) return least + 1;
    return std::clamp(1 - static_cast<int>(std::floor(std::log10(tolerance))), least, 15);
  }
  std::string cost(const VariantResult& variant) const {
    const std::string diverged = counted(std::ssize(variant.diverged), "run") + " diverged";
    if (!variant.cost) return diverged + ", none finished";
    return cost_of_finished(variant) + (variant.diverged.empty() ? "" : ", " + diverged);
  }
  std::string cost_of_finished(const VariantResult& variant) const {
    const Estimate e{middle_cost(variant, metric), variant.cost->half_width};
    const std::string text = signed_text(e.mean, decimals());
    if (metric == Metric::loss) return text + half_width_text(e, decimals());
    if (metric == Metric::steps) return steps_text(variant);
    return text + " points lost (" + seeds_below(variant) + ")";
  }
  // "at +136 % steps (by seed; 0 of 5 below +25 %)", or what runs that have not learned got right.
  std::string steps_text(const VariantResult& variant) const {
    if (learns(variant))
      return formatted("at %s %% steps (by seed; ",
                       signed_text(middle_cost(variant, metric), 0).c_str()) +
             seeds_below(variant) + ")";
    std::vector<double> steps, answers;
    for (const RunResult& run : variant.runs) {
      steps.push_back(static_cast<double>(steps_taken(run)));
      if (const auto share = run.least_answer_accuracy()) answers.push_back(kPercent * *share);
    }
    const auto learned = std::ranges::count_if(
        variant.runs, [](const RunResult& run) { return run.learned_at.has_value(); });
    const bool directed = !variant.runs.front().answers_by_direction.empty();
    return formatted("in %.0f steps (%td of %td seeds have", median(steps), learned,
                     std::ssize(variant.runs)) +
           (answers.empty() ? ")"
                            : formatted("; %.0f %% right%s)", median(answers),
                                        directed ? " in the worst direction" : ""));
  }
  // "4 of 5 seeds below 5.0 points", or "4 of 5 below +25 %".
  std::string seeds_below(const VariantResult& variant) const {
    const std::vector<double> costs = deciding_costs(variant, reference);
    const auto below = std::ranges::count_if(costs, [&](double cost) { return cost < tolerance; });
    const char* const words =
        metric == Metric::steps ? "%td of %td below +%s %%" : "%td of %td seeds below %s points";
    return formatted(words, below, std::ssize(costs), number_text(tolerance, decimals()).c_str());
  }
  std::string limit() const {
    const char* const unit = metric == Metric::loss      ? " nats"
                             : metric == Metric::answers ? " points"
                                                         : " % more steps";
    return formatted(" (tolerance %.*f%s)", decimals(), tolerance, unit);
  }
  // After a cost: costs in answers name the tolerance already.
  std::string limit_of_cost() const { return metric == Metric::loss ? limit() : ""; }
  // "mqa is enough: 25 % of mha's KV cache, at +0.003 +- 0.001", by the verdict.
  std::string clause(const VariantResult& variant) const {
    const std::string name = variant.label(), text = cost(variant);
    const bool steps = metric == Metric::steps;
    if (variant.verdict == Verdict::enough)
      return name + " is enough: " + share_text(variant.cache_bytes_per_token, reference) +
             (steps ? " " : ", at ") + text;
    if (steps && !learns(variant))
      return name + (variant.cost ? " has not learned " : " has not learned: ") + text;
    if (steps && variant.verdict == Verdict::not_enough) return name + " learns later, " + text;
    return name + " is " + verdict_word(variant.verdict, metric) + (steps ? ": it learns " : ": ") +
           text;
  }
};

// Attentions with this verdict, in the order given; those that are enough, by rising cache.
std::vector<const VariantResult*> attentions_with(const ComparisonResult& result, Verdict verdict) {
  std::vector<const VariantResult*> found;
  for (const VariantResult& variant : result.variants)
    if (has_verdict(variant, result) && variant.verdict == verdict) found.push_back(&variant);
  if (verdict == Verdict::enough)
    std::ranges::stable_sort(found, {}, &VariantResult::cache_bytes_per_token);
  return found;
}

// In the order of a list.
constexpr Verdict kVerdicts[] = {Verdict::enough, Verdict::not_enough, Verdict::not_learned,
                                 Verdict::open};

constexpr std::string_view kCostsNothing =
    "on this text nothing that was tried costs more than the tolerance; a control, such as mha@4, "
    "shows whether anything does, and recall and lookup are texts that ask more";

// Returns true if losses show that all attentions are enough, with no control among them: the text
// may ask for nothing that a smaller cache lacks.
bool all_are_enough(const ComparisonResult& result) {
  return result.question.metric == Metric::loss && result.question.controls.empty() &&
         attentions_with(result, Verdict::enough).size() + 1 == result.variants.size();
}

}  // namespace

SeedRange SeedRange::parse(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const Index seeds = seed_count(text);
    return {seeds, seeds};
  }
  const SeedRange range{seed_count(text.substr(0, dots)), seed_count(text.substr(dots + 2))};
  if (range.first < 2 || range.last <= range.first) {
    throw SettingError(
        "`seeds` {} must be a number or a range from 2 or more to a greater number, for example "
        "3..20",
        text);
  }
  return range;
}

std::string SeedRange::text() const {
  return std::to_string(first) + (grows() ? ".." + std::to_string(last) : "");
}

void require_answerable(const Question& question, const std::vector<AttentionSpec>& specs,
                        const Corpus& corpus) {
  const std::string& wanted = question.reference;
  if (!wanted.empty() && std::ranges::find(specs, wanted, &AttentionSpec::text) == specs.end())
    throw SettingError(
        "`reference` {} is not among the compared attentions; name one of `attention`",
        headcount::quoted(wanted));
  if (is_control(question, wanted))
    throw SettingError(
        "the reference, {}, is a control, which must cost something; let `reference` name another",
        headcount::quoted(wanted));
  if (question.metric == Metric::answers && corpus.validation.distances.empty()) {
    throw SettingError(
        "`metric` answers: {} marks no answers; leave `metric` out or take a built-in text",
        corpus.name);
  }
  const SeedRange& seeds = question.seeds;
  if (question.intervals && seeds.last < 2)
    throw SettingError(
        "`seeds` {} gives no confidence intervals; give 2 or more, or `intervals` off",
        seeds.text());
  if (!question.intervals && seeds.grows()) {
    throw SettingError(
        "`seeds` {} adds seeds until intervals decide; with `intervals` off give one number",
        seeds.text());
  }
}

Metric usual_metric(const Corpus& corpus, bool stop_when_learned) {
  if (stop_when_learned) return Metric::steps;
  return corpus.only_answers ? Metric::answers : Metric::loss;
}

SeedRange usual_seeds(const Question& question) {
  if (question.metric == Metric::loss) return {3, 3};
  return {5, question.intervals ? 10 : 5};
}

Index steps_taken(const RunResult& run) {
  return run.learned_at.value_or(run.evaluations.empty() ? 0 : run.evaluations.back().step);
}

std::optional<double> cost_of(const RunResult& run, const RunResult& reference, Metric metric) {
  if (metric == Metric::steps) {
    if (!run.learned_at) return reference.learned_at ? std::optional(kDivergedCost) : std::nullopt;
    // A reference that has not learned yet takes more steps, and the cost is less than this.
    const auto steps = static_cast<double>(steps_taken(reference));
    return kPercent * (static_cast<double>(*run.learned_at) / steps - 1);
  }
  if (metric == Metric::loss) return run.validation_loss - reference.validation_loss;
  return kPercent * (reference.answer_accuracy.value() - run.answer_accuracy.value());
}

std::vector<std::pair<const RunResult*, const RunResult*>> pairs_of_runs(
    std::span<const RunResult> runs, std::span<const RunResult> reference) {
  std::vector<std::pair<const RunResult*, const RunResult*>> pairs;
  for (const RunResult& run : runs) {
    const auto same = std::ranges::find(reference, run.seed, &RunResult::seed);
    if (same != reference.end()) pairs.emplace_back(&run, &*same);
  }
  return pairs;
}

std::vector<SeedCost> paired_costs(std::span<const RunResult> runs,
                                   std::span<const RunResult> reference, Metric metric) {
  std::vector<SeedCost> costs;
  for (const auto& [run, same] : pairs_of_runs(runs, reference))
    if (const auto cost = cost_of(*run, *same, metric)) costs.push_back({run->seed, *cost});
  return costs;
}

std::vector<double> values_of(const std::vector<SeedCost>& costs) {
  std::vector<double> values;
  for (const auto& [seed, cost] : costs) values.push_back(cost);
  return values;
}

std::vector<std::uint64_t> diverged_seeds(const VariantResult& variant,
                                          const VariantResult& reference) {
  std::vector<std::uint64_t> seeds;
  std::ranges::copy_if(variant.diverged, std::back_inserter(seeds), [&](std::uint64_t seed) {
    return std::ranges::find(reference.runs, seed, &RunResult::seed) != reference.runs.end();
  });
  return seeds;
}

std::vector<double> deciding_costs(const VariantResult& variant, const VariantResult& reference) {
  std::vector<double> costs = values_of(variant.costs);
  costs.insert(costs.end(), diverged_seeds(variant, reference).size(), kDivergedCost);
  return costs;
}

namespace {

// The mean loss of the first seeds; none if none of them has finished.
std::optional<double> mean_loss(const Question& question, std::span<const RunResult> runs) {
  std::vector<double> losses;
  for (const RunResult& run : runs) {
    if (static_cast<Index>(run.seed) <= question.seeds.first) losses.push_back(run.validation_loss);
  }
  return losses.empty() ? std::nullopt : std::optional(estimate(losses).mean);
}

}  // namespace

std::optional<double> tolerance(const ComparisonResult& result) {
  const Question& question = result.question;
  if (question.tolerance) return question.tolerance;
  if (question.metric == Metric::answers) return kPoints;
  if (question.metric == Metric::steps) return kMoreSteps;
  const std::vector<RunResult>& runs = reference(result).runs;
  const std::optional<double> loss = mean_loss(question, runs);
  if (!loss) return std::nullopt;
  double limit = kShareOfLoss * *loss;
  for (const VariantResult& control : result.variants) {
    if (!is_control(question, control.spec)) continue;
    std::vector<double> lost;
    for (const auto& [seed, cost] : paired_costs(control.runs, runs, Metric::loss)) {
      if (static_cast<Index>(seed) <= question.seeds.first) lost.push_back(cost);
    }
    if (!lost.empty()) limit = std::min(limit, kShareOfControl * estimate(lost).mean);
  }
  return std::max(kLeastNats, limit);
}

bool is_control(const Question& question, std::string_view spec) {
  return std::ranges::find(question.controls, spec) != question.controls.end();
}

std::optional<double> steps_to(const RunResult& run, double loss) {
  const EvaluationAt* before = nullptr;
  for (const EvaluationAt& at : run.evaluations) {
    const auto step = static_cast<double>(at.step);
    if (at.loss <= loss && before == nullptr) return step;
    if (at.loss <= loss)
      return step - (step - static_cast<double>(before->step)) * (loss - at.loss) /
                        (before->loss - at.loss);
    before = &at;
  }
  return std::nullopt;
}

std::string sensitivity(const ComparisonResult& result) {
  const Question& question = result.question;
  const VariantResult& than = reference(result);
  const std::optional<double> loss = mean_loss(question, than.runs);
  if (question.metric != Metric::loss || !result.undecided.empty() || !loss) return "";
  const Judge judge(question.metric, question.seeds);
  std::string text;
  for (const double percent : {0.5, 1.0, 1.5, 2.0}) {
    std::vector<std::string> enough;
    for (const VariantResult& v : result.variants) {
      if (has_verdict(v, result) &&
          judge.verdict(deciding_costs(v, than), percent / kPercent * *loss) == Verdict::enough)
        enough.push_back(v.spec);
    }
    text += (text.empty() ? "Enough at a tolerance of " : "; ") +
            formatted("%g %% of the loss: ", percent) +
            (enough.empty() ? "none" : list_text(enough));
  }
  return text + ".";
}

std::string verdict_word(Verdict verdict, Metric metric) {
  const char* const more = metric == Metric::steps ? "later" : "not enough";
  return std::array{"enough", more, "not learned", "undecided"}.at(
      static_cast<std::size_t>(verdict));
}

bool learns(const VariantResult& variant) {
  return !variant.costs.empty() && std::isfinite(middle_cost(variant, Metric::steps));
}

double middle_cost(const VariantResult& variant, Metric metric) {
  return metric == Metric::loss ? variant.cost->mean : median(values_of(variant.costs));
}

const VariantResult& reference(const ComparisonResult& result) {
  const std::vector<VariantResult>& variants = result.variants;
  const std::string& named = result.question.reference;
  if (named.empty()) return usual_reference(variants, &VariantResult::cache_bytes_per_token);
  const auto found = std::ranges::find(variants, named, &VariantResult::spec);
  return variants.at(static_cast<std::size_t>(found - variants.begin()));
}

bool has_verdict(const VariantResult& variant, const ComparisonResult& result) {
  return &variant != &reference(result) && (variant.cost || !variant.diverged.empty());
}

const VariantResult* cheapest_enough(const ComparisonResult& result) {
  const std::vector<const VariantResult*> enough = attentions_with(result, Verdict::enough);
  return enough.empty() ? nullptr : enough.front();
}

std::vector<std::string> verdict_clauses(const ComparisonResult& result) {
  const VariantResult& than = reference(result);
  const std::optional<double> limit = tolerance(result);
  if (result.variants.size() < 2) return {"there is one attention only, so nothing is compared"};
  if (!limit || than.runs.empty()) return {than.label() + ", the reference, has no finished run"};
  if (!result.undecided.empty()) return {"nothing can be decided: " + result.undecided};
  const Numbers numbers{than, result.question.metric, *limit};
  std::vector<std::string> parts;
  const VariantResult* const cheapest = cheapest_enough(result);
  const bool costs_nothing = all_are_enough(result);
  const bool named_alone = result.variants.size() > kMostCostsInText || costs_nothing;
  if (!cheapest) parts.push_back("no attention is shown to be enough" + numbers.limit());
  for (const VariantResult& variant : result.variants)
    if (has_verdict(variant, result) && (!named_alone || &variant == cheapest))
      parts.push_back(numbers.clause(variant));
  if (cheapest) parts.front() += numbers.limit_of_cost();
  for (const Verdict verdict : kVerdicts) {
    std::vector<std::string> names;
    for (const VariantResult* variant : attentions_with(result, verdict))
      if (variant != cheapest) names.push_back(variant->label());
    if (named_alone && !names.empty())
      parts.push_back(verdict_word(verdict, numbers.metric) +
                      (verdict == Verdict::enough ? " too: " : ": ") + list_text(names));
  }
  if (costs_nothing) parts.emplace_back(kCostsNothing);
  return parts;
}

std::vector<VerdictItem> verdict_items(const ComparisonResult& result) {
  const VariantResult& than = reference(result);
  const std::optional<double> limit = tolerance(result);
  if (result.variants.size() < 2 || !limit || !result.undecided.empty()) return {};
  const Numbers numbers{than, result.question.metric, *limit};
  std::vector<VerdictItem> items;
  for (const Verdict verdict : kVerdicts) {
    for (const VariantResult* variant : attentions_with(result, verdict))
      items.push_back({verdict_word(verdict, numbers.metric),
                       variant->label() + ": " + share_text(variant->cache_bytes_per_token, than) +
                           (verdict == Verdict::not_learned                       ? ", not "
                            : numbers.metric == Metric::steps && learns(*variant) ? " "
                                                                                  : ", ") +
                           numbers.cost(*variant)});
  }
  if (all_are_enough(result)) items.push_back({"", std::string(kCostsNothing)});
  return items;
}

}  // namespace headcount
