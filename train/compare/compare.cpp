#include "train/compare/compare.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/parallel.h"
#include "train/compare/decode_speed.h"
#include "train/compare/results.h"
#include "train/compare/runner.h"
#include "train/provenance.h"
#include "train/training_run.h"

namespace headcount {

namespace {

// The part of the training text that a sweep is judged on, taken from its end.
std::vector<std::int32_t> cut_tuning_slice(Corpus& corpus, Index context) {
  const std::size_t size = corpus.train.size() / 10, rest = corpus.train.size() - size;
  if (static_cast<Index>(size) <= context || static_cast<Index>(rest) <= context) {
    throw DataError("a sweep takes a tenth of the training text to judge on, " +
                    std::to_string(size) + " characters, and a context of " +
                    std::to_string(context) + " needs more than that; give more text");
  }
  std::vector<std::int32_t> slice(corpus.train.begin() + static_cast<std::ptrdiff_t>(rest),
                                  corpus.train.end());
  corpus.train.resize(rest);
  if (!corpus.train_answers.empty()) corpus.train_answers.resize(rest);
  return slice;
}

// Runs of one candidate, by seed.
struct CandidateRuns {
  const Candidate* candidate;
  std::span<const RunOutcome> outcomes;

  double tuning_loss() const {
    double sum = 0;
    for (const RunOutcome& outcome : outcomes) {
      // A candidate with a failed run cannot be the best.
      if (!outcome.result) return std::numeric_limits<double>::infinity();
      sum += outcome.result->tuning_loss.value_or(0);
    }
    return sum;
  }
};

VariantResult variant_result(const PlannedVariant& variant, const CandidateRuns& best,
                             Index vocabulary) {
  VariantResult result;
  result.spec = variant.spec;
  result.adjusted = best.candidate->adjusted;
  const TrainOptions& options = best.candidate->options;
  const LanguageModel model(options.model, vocabulary);
  result.parameters = static_cast<Index>(model.parameters().element_count());
  const Index context = options.model.context;
  Index bytes = 0;
  for (const LayerCache& cache : model.make_caches({.capacity = context})) bytes += cache.bytes();
  result.cache_bytes_per_token = static_cast<double>(bytes) / static_cast<double>(context);
  for (std::size_t i = 0; i < best.outcomes.size(); ++i) {
    const RunOutcome& outcome = best.outcomes[i];
    if (outcome.result) {
      result.runs.push_back(*outcome.result);
    } else {
      result.failures.push_back("seed " + std::to_string(i + 1) + ": " + outcome.failure);
    }
  }
  return result;
}

// Speeds at a few contexts and the model's own; at each, the variants take turns.
void measure_decoding(ComparisonResult& result, const std::vector<TrainOptions>& chosen,
                      Index vocabulary) {
  constexpr int kRounds = 31;
  std::vector<Index> contexts = {128, 512, 2048, 8192};
  if (std::ranges::find(contexts, result.context) == contexts.end())
    contexts.push_back(result.context);
  std::ranges::sort(contexts);
  for (const Index context : contexts) {
    std::vector<DecodeTimer> timers;
    for (const TrainOptions& run : chosen) timers.emplace_back(run.model, vocabulary, context);
    const std::vector<double> milliseconds = median_milliseconds(timers, kRounds);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const double rate = 1e3 / milliseconds[i];
      result.variants[i].decode.push_back({context, rate});
      if (context == result.context) result.variants[i].decode_tokens_per_second = rate;
    }
  }
}

// What all of these settings have in common.
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

std::vector<PlannedRun> plan_runs(const std::vector<PlannedVariant>& variants,
                                  const ComparisonOptions& options) {
  std::vector<PlannedRun> runs;
  for (const PlannedVariant& variant : variants) {
    for (const Candidate& candidate : variant.candidates) {
      for (Index seed = 1; seed <= options.seeds; ++seed) {
        const std::string number = std::to_string(seed);
        PlannedRun run{candidate.name + ", seed " + number, candidate.options,
                       options.folder / "runs" / candidate.folder / ("seed-" + number),
                       options.command};
        run.options.seed = static_cast<std::uint64_t>(seed);
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

// The settings that each variant is judged with: the best of its candidates. Their runs go into
// `result`; `outcomes` are in the order of plan_runs.
std::vector<TrainOptions> take_best(ComparisonResult& result,
                                    const std::vector<PlannedVariant>& variants,
                                    std::span<const RunOutcome> outcomes, Index vocabulary) {
  std::vector<TrainOptions> chosen;
  const std::size_t seeds = result.seeds.size();
  for (const PlannedVariant& variant : variants) {
    std::vector<CandidateRuns> candidates;
    for (const Candidate& candidate : variant.candidates) {
      candidates.push_back({&candidate, outcomes.first(seeds)});
      outcomes = outcomes.subspan(seeds);
    }
    const CandidateRuns& best =
        *std::ranges::min_element(candidates, {}, &CandidateRuns::tuning_loss);
    result.variants.push_back(variant_result(variant, best, vocabulary));
    chosen.push_back(best.candidate->options);
  }
  return chosen;
}

}  // namespace

ComparisonResult compare(const ComparisonOptions& options, Corpus corpus,
                         const std::vector<PlannedVariant>& variants, RunWatcher& watcher) {
  ComparisonResult result;
  result.command = options.command;
  result.data = corpus.name;
  result.data_sha256 = corpus.sha256;
  for (Index seed = 1; seed <= options.seeds; ++seed)
    result.seeds.push_back(static_cast<std::uint64_t>(seed));
  result.match = options.match.text();
  result.context = options.common.model.context;
  result.entropy_per_character = corpus.entropy_per_character;
  std::vector<std::int32_t> tuning;
  if (options.sweep) {
    result.sweep = options.sweep->text();
    tuning = cut_tuning_slice(corpus, result.context);
  }

  const std::vector<PlannedRun> runs = plan_runs(variants, options);
  const Workers workers = Workers::share(threads(), options.jobs, runs.size());
  const std::vector<RunOutcome> outcomes =
      run_all(runs, corpus, tuning, workers, options.again, watcher);
  for (const RunOutcome& outcome : outcomes) {
    if (outcome.result) result.hours += outcome.result->machine_seconds / 3600;
    result.failed_runs += !outcome.result;
    result.diverged_runs += outcome.diverged;
  }
  const Index vocabulary = corpus.vocabulary.size();
  const std::vector<TrainOptions> chosen = take_best(result, variants, outcomes, vocabulary);
  measure_decoding(result, chosen, vocabulary);
  result.config = common_settings(chosen).dump(2);
  result.version = version_text();
  result.machine = machine_text() + "; " + workers.text();
  summarize(result, options.intervals);
  return result;
}

}  // namespace headcount
