#include "train/compare/compare.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "data/built_in.h"
#include "models/cost/cost.h"
#include "train/compare/premises.h"
#include "train/compare/reading.h"
#include "train/compare/result_files.h"
#include "train/compare/results.h"
#include "train/compare/rounded.h"
#include "train/compare/rounds.h"
#include "train/compare/runner.h"
#include "train/compare/verdict.h"
#include "train/interrupt.h"
#include "train/run/provenance.h"
#include "train/show/cache_cost.h"

namespace headcount {

namespace {

// Figure that one variant is tuned by, at each value of the sweep; candidates are in the order of
// the values.
std::vector<SweptValue> swept(const Sweep& sweep, const PlannedVariant& variant,
                              const Rounds::Chosen& chosen,
                              const std::vector<std::optional<double>>& figures) {
  std::vector<SweptValue> all;
  for (std::size_t i = 0; i < figures.size(); ++i)
    all.push_back({sweep.values[i], figures[i], &variant.candidates[i] == chosen.candidate});
  return all;
}

// Sizes and runs of a variant.
VariantResult variant_result(const PlannedVariant& variant, const Rounds::Chosen& chosen,
                             Index vocabulary) {
  VariantResult result = outcome_of(variant, chosen);
  const ModelPlan& plan = chosen.candidate->options.model;
  result.parameters =
      static_cast<Index>(LanguageModel(plan, vocabulary).parameters().element_count());
  result.cache_bytes_per_token = kv_cache_bytes_per_token(plan);
  result.notes = attention_notes(plan);
  result.cache = cache_layers(cache_of(plan), {});
  return result;
}

// Throws InterruptedError if a signal was caught. Called between parts of a comparison, each of
// which works from saved runs.
void stop_if_interrupted() {
  if (!interrupted()) return;
  throw InterruptedError(interrupt_signal(), "stopped; its runs are saved");
}

// Settings that are equal in all of `all`.
nlohmann::ordered_json common_settings(const std::vector<TrainOptions>& all) {
  nlohmann::ordered_json common = to_json(all.front());
  for (const TrainOptions& options : all) {
    const nlohmann::ordered_json other = to_json(options);
    for (auto it = common.begin(); it != common.end();) {
      it = other.contains(it.key()) && other[it.key()] == it.value() ? std::next(it)
                                                                     : common.erase(it);
    }
  }
  common.erase("seed");
  return common;
}

// Facts about a comparison that are known before any run.
ComparisonResult described(const ComparisonPlan& plan) {
  const Corpus& corpus = plan.corpus;
  const PlannedVariant& reference =
      *std::ranges::find(plan.variants, plan.options.question.reference, &PlannedVariant::spec);
  const TrainOptions& options = reference.candidates.front().options;
  ComparisonResult result;
  result.question = plan.options.question;
  result.match = plan.options.match.text();
  if (plan.options.sweep) result.sweep = plan.options.sweep->text();
  result.data = corpus.name;
  result.data_sha256 = corpus.sha256;
  result.context = options.model->context;
  if (corpus.stories_fit(result.context))
    result.entropy_per_character = corpus.entropy_per_character;
  result.longest_story = corpus.longest_story;
  if (options.corpus.validation_characters > 0)
    result.evaluated_characters = std::ssize(corpus.validation.tokens);
  result.only_answers = corpus.only_answers;
  result.baselines = corpus.baselines;
  result.baseline_loss = baseline_loss(corpus);
  result.rounded_characters = plan.options.rounded_characters;
  result.steps = options.steps;
  std::vector<TrainOptions> settings;
  for (const PlannedVariant& variant : plan.variants)
    for (const Candidate& candidate : variant.candidates) settings.push_back(candidate.options);
  result.config = common_settings(settings);
  const bool too_long_warmup = std::ranges::all_of(
      reference.candidates, [](const Candidate& c) { return c.options.warmup > c.options.steps; });
  if (too_long_warmup) result.too_long_warmup = options.warmup;
  return result;
}

// Adds the time of a run, and counts it if it failed.
void count_run(const RunStatus& status, ComparisonResult& result) {
  if (status.result) result.hours += status.result->machine_seconds / 3600;
  result.failed_runs += !status.result;
  result.diverged_runs += status.diverged;
}

// Fills in program and machine of the first run that finished, or of this process if none has: a
// comparison whose runs many processes trained has the same results in all of them.
void add_machine(ComparisonResult& result) {
  result.version = version_text();
  result.machine = machine_text();
  const auto first = std::ranges::find_if(
      result.variants, [](const VariantResult& variant) { return !variant.runs.empty(); });
  if (first == result.variants.end()) return;
  result.version = first->runs.front().version;
  result.machine = first->runs.front().machine;
}

// Adds what the runs of each variant gave, and the settings that all of them have.
void add_variants(ComparisonResult& result, const ComparisonPlan& plan, const Rounds& rounds,
                  std::span<const RunStatus> statuses) {
  std::vector<TrainOptions> settings;
  std::size_t seeds = 0;
  const TextPart text = plan.corpus.validation.first(plan.options.rounded_characters);
  for (std::size_t i = 0; i < plan.variants.size(); ++i) {
    stop_if_interrupted();
    const PlannedVariant& planned = plan.variants[i];
    const Rounds::Chosen chosen = rounds.chosen(i, statuses);
    VariantResult& variant = result.variants.emplace_back(
        variant_result(planned, chosen, plan.corpus.vocabulary.size()));
    if (plan.options.sweep) {
      variant.swept =
          swept(*plan.options.sweep, planned, chosen, rounds.tuning_figures(i, statuses));
    }
    for (const RunResult& run : variant.runs) {
      if (!plan.options.roundings.empty())
        evaluate_rounded(chosen.runs[run.seed - 1], plan.options.roundings, plan.corpus, text,
                         variant);
    }
    settings.push_back(chosen.candidate->options);
    seeds = std::max(seeds, chosen.runs.size());
  }
  for (std::size_t seed = 1; seed <= seeds; ++seed) result.seeds.push_back(seed);
  result.config = common_settings(settings);
}

// Attention with the folder of its first finished run, which reads a passage.
struct Reader {
  VariantResult* variant;
  std::filesystem::path folder;

  bool may_be_enough() const {
    return variant->verdict == Verdict::enough || variant->verdict == Verdict::open;
  }
  double right_answers() const {
    return variant->answer_accuracy ? variant->answer_accuracy->mean : 0;
  }
};

// Passage that shows what the weakest of the attentions that are not enough has not learned, with
// that attention; the first one, with null, if there is none.
std::pair<Index, const VariantResult*> passage_to_show(std::vector<Reader> readers,
                                                       const ComparisonResult& result,
                                                       const Corpus& corpus) {
  const auto lacking = std::partition(readers.begin(), readers.end(),
                                      [](const Reader& r) { return r.may_be_enough(); });
  if (lacking == readers.end()) return {1, nullptr};
  const Reader weakest =
      *std::ranges::min_element(lacking, readers.end(), {}, &Reader::right_answers);
  std::vector<std::filesystem::path> others;
  for (auto reader = readers.begin(); reader != lacking; ++reader) others.push_back(reader->folder);
  try {
    const auto number = telling_passage(corpus, result.context, weakest.folder, others);
    return {number.value_or(1), number ? weakest.variant : nullptr};
  } catch (const Error&) {  // read_passage says why there is no reading
    return {1, nullptr};
  }
}

// Reads the passage that was asked for, or passage_to_show, with all attentions that can. Takes
// the verdicts into account.
void add_readings(ComparisonResult& result, const ComparisonPlan& plan, const Rounds& rounds,
                  std::span<const RunStatus> statuses) {
  std::vector<Reader> readers;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    VariantResult& variant = result.variants[i];
    if (variant.runs.empty()) continue;
    const std::size_t seed = variant.runs.front().seed;
    readers.push_back({&variant, rounds.chosen(i, statuses).runs[seed - 1].folder});
  }
  Index number = plan.options.passage;
  const VariantResult* shown_for = nullptr;
  if (number == 0) std::tie(number, shown_for) = passage_to_show(readers, result, plan.corpus);
  const TextPart passage = passage_to_read(plan.corpus, number, result.context);
  result.passage = passage_json(passage, plan.corpus, number);
  if (shown_for != nullptr) result.passage["shown_for"] = shown_for->spec;
  for (const Reader& reader : readers) {
    try {
      reader.variant->reading = read_passage(reader.folder, passage, plan.corpus);
    } catch (const Error& error) {
      reader.variant->no_reading = error.what();
    }
  }
}

}  // namespace

std::string_view default_attentions(std::string_view data) {
  const BuiltInCorpus* const built_in = find_built_in(data);
  const bool has_own = built_in != nullptr && !built_in->attentions.empty();
  return has_own ? built_in->attentions : "mha,gqa,mqa,mla";
}

ComparisonPlan plan(const Given& common, ComparisonOptions options, Corpus corpus) {
  std::vector<PlannedVariant> variants = plan_comparison(common, options.specs, options.match,
                                                         options.sweep, corpus.vocabulary.size());
  // All candidates have the same text and context.
  const TrainOptions& any = variants.front().candidates.front().options;
  const Index context = any.model->context;
  if (options.sweep) {
    const Index characters = std::ssize(corpus.train.tokens), tuning = characters / 10;
    if (tuning <= context || characters - tuning <= context) {
      throw DataError(
          "`sweep` chooses by the first tenth of the training text, which has {} characters; a "
          "context of {} needs more: give a longer text or a shorter context",
          tuning, context);
    }
    keep_for_tuning(corpus, tuning);
  }
  passage_to_read(corpus, std::max<Index>(1, options.passage), context);  // refuses others
  if (options.question.reference.empty()) {
    const auto cache_bytes = [](const PlannedVariant& variant) {
      return kv_cache_bytes_per_token(variant.candidates.front().options.model);
    };
    options.question.reference = usual_reference(variants, cache_bytes).spec;
  }
  require_answerable(options.question, options.specs, corpus);
  std::vector<ModelPlan> models;
  for (const PlannedVariant& variant : variants)
    models.push_back(variant.candidates.front().options.model);
  require_roundings(options.roundings, models);
  const Index characters = options.rounded_characters;
  require_setting(characters == 0 || characters > context,
                  "`cache-characters` {} must be more than `context`, {}, or 0 for all", characters,
                  context);
  return {std::move(options), std::move(variants), std::move(corpus)};
}

std::string why_in_vain(const ComparisonPlan& plan) {
  if (plan.variants.size() < 2) return "there is one attention only, so nothing is compared";
  return plan.options.question.intervals ? why_in_vain(described(plan)) : "";
}

ComparisonResult compare(const ComparisonPlan& plan, const RunOrders& orders, RunWatcher& watcher) {
  ComparisonResult result = described(plan);
  result.command = orders.command;
  if (!orders.again) require_same_comparison(orders.folder, result, plan.options.specs);
  Rounds rounds(plan.variants, result, orders.folder, orders.command);
  RunQueue queue(rounds.runs(), plan.corpus, orders.again, watcher);
  const std::vector<RunStatus>& statuses = queue.statuses();
  for (auto round = rounds.next(statuses); !round.empty(); round = rounds.next(statuses)) {
    queue.train(round, orders.jobs);
    stop_if_interrupted();
    for (const std::size_t run : round) count_run(statuses[run], result);
  }
  add_variants(result, plan, rounds, statuses);
  add_machine(result);
  summarize(result);
  add_readings(result, plan, rounds, statuses);
  return result;
}

}  // namespace headcount
