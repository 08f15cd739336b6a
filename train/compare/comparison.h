#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/base/settings.h"
#include "train/evaluation.h"
#include "train/show/fields.h"
#include "train/show/statistics.h"

namespace headcount {

/// Numbers of seeds per attention. Each attention is trained with seeds 1 ... `first`; while
/// its verdict is undecided, with one more seed a round, up to `last` (see Rounds).
struct SeedRange {
  Index first = 3, last = 3;

  /// Parses "5" or "3..20". Throws SettingError.
  static SeedRange parse(std::string_view text);
  std::string text() const;
  bool grows() const { return first != last; }
};

/// Measure that verdicts are about.
enum class Metric {
  loss,     ///< validation loss, nats per character
  answers,  ///< share of answers predicted right, percentage points
  steps,    ///< steps to learn: those before the first evaluation that TrainSettings::learned takes
};

inline constexpr Named<Metric> kMetrics[] = {
    {"loss", Metric::loss}, {"answers", Metric::answers}, {"steps", Metric::steps}};

/// Question that a comparison decides: which attentions are worse than the reference by at most
/// `tolerance`?
struct Question {
  Metric metric = Metric::loss;
  std::string reference;  ///< spec of an attention; empty: see usual_reference
  /// Specs of attentions too small for the text, such as a window of four tokens. While one of them
  /// is not shown to cost more than the tolerance, the comparison decides nothing.
  std::vector<std::string> controls = {};
  /// Largest tolerated cost. For losses in nats per character, by default a hundredth of the
  /// reference's loss or, if that is less, a quarter of what the cheapest control loses, but at
  /// least 0.001; for answers in percentage points, by default 5; for steps in percent more than
  /// the reference's, by default 25.
  std::optional<double> tolerance;
  SeedRange seeds;
  bool intervals = true;  ///< confidence intervals; without them nothing is decided

  /// Without metric and seeds, which have names of their own.
  static void fields(auto& io, auto& s) {
    io(Presence::required, "reference", s.reference);
    io({}, "controls", s.controls, "tolerance", s.tolerance, "intervals", s.intervals);
  }
};

/// Verdict on the cost of an attention, that is, how much worse it is than the reference, on seeds
/// that both finished. `enough` and `not_enough` are wrong with a probability of at most 5 % for
/// each attention. For losses, whose differences are assumed to be normal, they are about the mean;
/// for answers and steps, which may scatter in any way, about at least half of all seeds (see
/// Judge).
enum class Verdict {
  enough,       ///< the cost lies below the tolerance
  not_enough,   ///< the cost lies above the tolerance
  not_learned,  ///< it does, since most runs did not learn; only where steps are compared
  open,
};

/// Evaluation of a run on the way, at one step.
struct EvaluationAt {
  Index step = 0;
  double loss = 0;                ///< nats per character that counts
  std::optional<double> answers;  ///< share of right answers

  static void fields(auto& io, auto& s) {
    io({}, "step", s.step, "loss", s.loss);
    io(Presence::known, "answers", s.answers);
  }
};
/// Evaluation of a run's weights through a cache that rounds.
struct RoundedRun {
  std::string cache;     ///< "int4", "k=int4+v=int2 rotated": see rounding_name
  Index characters = 0;  ///< that were evaluated, from the begin of the validation part
  std::optional<double> validation_loss = {};  ///< none if numbers overflow the cache
  std::optional<double> answer_accuracy = {};
  std::optional<RoundingChange> change = {};  ///< from the same weights unrounded

  static void fields(auto& io, auto& s) {
    io({}, "cache", s.cache, "characters", s.characters, "val_loss", s.validation_loss);
    io(Presence::known, "answer_accuracy", s.answer_accuracy, "change", s.change);
  }
};

/// Measurements of one finished training run, one attention and one seed: a row of results.json,
/// and the result in run.json.
struct RunResult : EvaluationDetails {
  std::uint64_t seed = 0;
  double validation_loss = 0;  ///< of the validation split, nats per character, or per answer if
                               ///< only answers count
  std::optional<double> tuning_loss;   ///< loss on the slice that `sweep` chooses by
  std::optional<Index> learned_at;     ///< step at which the run had learned and ended
  double train_tokens_per_second = 0;  ///< of the steps of its last start; 0 if that had none
  double machine_seconds = 0;          ///< from start to end, divided by the runs side by side
  std::string version, machine;        ///< of that start; in results.json none if the comparison's
  std::vector<Index> curve_steps;      ///< steps of the points of the loss curve
  std::vector<double> curve_losses;    ///< training loss, mean since the point before
  std::vector<EvaluationAt> evaluations;  ///< on the way and at the end, in the order of steps
  std::vector<RoundedRun> rounded;        ///< in the order of VariantResult::rounded

  static void fields(auto& io, auto& s) {
    io({}, "seed", s.seed, "train_tokens_per_second", s.train_tokens_per_second, "machine_seconds",
       s.machine_seconds, "curve_steps", s.curve_steps, "curve_losses", s.curve_losses);
    io(Presence::required, "val_loss", s.validation_loss);
    io(Presence::known, "learned_at", s.learned_at, "evaluations", s.evaluations, "tuning_loss",
       s.tuning_loss, "answer_accuracy", s.answer_accuracy, "answers_by_distance",
       s.answers_by_distance, "answers_by_direction", s.answers_by_direction, "loss_by_position",
       s.loss_by_position, "loss_by_block", s.loss_by_block, "rounded", s.rounded, "version",
       s.version, "machine", s.machine);
  }
};

/// One value of a sweep, tried for one attention.
struct SweptValue {
  std::string value;  ///< as it was given
  /// Mean over the first seeds of the tuning loss or, if steps are compared, of steps_taken; none
  /// if a run failed.
  std::optional<double> loss;
  bool chosen = false;

  static void fields(auto& io, auto& s) {
    io({}, "value", s.value, "loss", s.loss, "chosen", s.chosen);
  }
};

/// A cache that rounds, through which the runs of an attention are evaluated again.
struct RoundedCache {
  std::string cache;  ///< name in RunResult::rounded
  double cache_bytes_per_token = 0;
  nlohmann::ordered_json layers = {};  ///< as VariantResult::cache, without recent tokens

  static void fields(auto& io, auto& s) {
    io({}, "cache", s.cache, "kv_cache_bytes_per_token", s.cache_bytes_per_token, "layers",
       s.layers);
  }
};

/// Cost of a run, by how much it is worse than the reference's of the same seed.
struct SeedCost {
  std::uint64_t seed = 0;
  /// Infinite of a run that did not learn; JSON has null for that.
  double cost = std::numeric_limits<double>::infinity();

  static void fields(auto& io, auto& s) { io({}, "seed", s.seed, "cost", s.cost); }
};

/// One attention of a comparison.
struct VariantResult {
  std::string spec;      ///< as given: "gqa2"
  std::string adjusted;  ///< settings by `match` or `sweep`, "ffn-dim 540, lr 0.001"; may be empty
  /// Name in tables and charts: "gqa2", or "gqa2 (lr 0.001)" if `match` or `sweep` set something.
  std::string label() const { return spec + (adjusted.empty() ? "" : " (" + adjusted + ")"); }

  Index parameters = 0;
  double cache_bytes_per_token = 0;     ///< allocated for the context, divided by its tokens
  nlohmann::ordered_json cache;         ///< what each layer stores: see cache_layers
  std::vector<std::string> notes;       ///< see attention_notes
  std::vector<RunResult> runs;          ///< finished runs, by seed
  std::vector<std::string> failures;    ///< "seed 3: the loss became NaN at step 12; ..."
  std::vector<std::uint64_t> diverged;  ///< seeds whose loss became NaN or infinite
  nlohmann::ordered_json reading;       ///< of the first finished run: see read_passage; or null
  std::string no_reading;               ///< reason why `reading` is null
  std::vector<RoundedCache> rounded;    ///< as asked for, in order
  std::vector<SweptValue> swept;        ///< every value of the sweep, in order; empty without one

  // Over the finished runs, one value a seed; none while there is none.
  std::optional<Estimate> loss;  ///< over the seeds that all attentions finished: see common_seeds
  std::optional<Estimate> difference;  ///< loss minus the reference's, seed by seed
  /// Cost by the question's metric; none for the reference. For answers and steps it is a mean
  /// without interval.
  std::optional<Estimate> cost;
  std::vector<SeedCost> costs;  ///< by seed; `cost` is their estimate
  Verdict verdict = Verdict::open;
  std::optional<Estimate> answer_accuracy;  ///< as `loss`, where the corpus marks answers
  /// Median over the runs of the comparison's version and machine; none without such a run.
  std::optional<double> train_tokens_per_second;

  /// Without estimates and verdict, which summarize computes: see comparison_json.
  static void fields(auto& io, auto& s) {
    io(Presence::required, "spec", s.spec, "adjusted", s.adjusted, "params", s.parameters,
       "kv_cache_bytes_per_token", s.cache_bytes_per_token, "runs", s.runs);
    io({}, "failures", s.failures, "diverged", s.diverged, "sweep", s.swept, "cache", s.cache,
       "notes", s.notes, "no_reading", s.no_reading, "reading", s.reading);
    io(Presence::known, "rounded", s.rounded);
  }
};

/// Results of a comparison, with everything that is needed to repeat it.
struct ComparisonResult {
  std::string command;               ///< the whole command line
  std::string data, data_sha256;     ///< name and SHA-256 of the text
  std::vector<std::uint64_t> seeds;  ///< trained for at least one attention
  /// Seeds finished by every attention that finished any. The mean of an attention is over these
  /// seeds or, if there are none, over all seeds that it finished.
  std::vector<std::uint64_t> common_seeds;
  Question question;
  std::string match;  ///< "none", "params" or "kv=1024"
  std::string sweep;  ///< "lr=0.0003,0.001", or empty
  Index context = 0;  ///< tokens, of the trained models
  /// Floor of the loss, if the corpus has one and its stories fit into the context.
  std::optional<double> entropy_per_character;
  Index longest_story = 0;              ///< characters; see Corpus
  Index evaluated_characters = 0;       ///< of the validation part; 0: all
  Index rounded_characters = 0;         ///< of them, through rounded caches; 0: all
  bool only_answers = false;            ///< the loss counts the corpus's answers only
  std::optional<Baselines> baselines;   ///< see Corpus
  std::optional<double> baseline_loss;  ///< loss of a baseline that learned nothing: see premises.h
  Index steps = 0;                      ///< of the reference
  Index too_long_warmup = 0;            ///< its warm-up, in steps, if that is longer; 0 otherwise
  std::string undecided;                ///< reason why every verdict is undecided, or empty
  nlohmann::ordered_json config;        ///< settings that all variants share
  std::string machine;  ///< processor, cores, memory, operating system, how runs share them
  std::string version;  ///< version_text(): program, compiler and libraries
  Index failed_runs = 0, diverged_runs = 0;  ///< failed runs include diverged ones
  double hours = 0;                          ///< machine time of all runs
  std::vector<VariantResult> variants;       ///< in the order given
  nlohmann::ordered_json passage;  ///< on which the report shows attention: see passage_json

  /// Without question and verdict: see comparison_json.
  static void fields(auto& io, auto& s) {
    io(Presence::required, "data", s.data, "data_sha256", s.data_sha256, "seeds", s.seeds,
       "context", s.context, "steps", s.steps, "match", s.match, "sweep", s.sweep, "command",
       s.command, "config", s.config, "machine", s.machine, "version", s.version, "machine_hours",
       s.hours, "variants", s.variants);
    io({}, "too_long_warmup", s.too_long_warmup, "longest_story", s.longest_story,
       "evaluated_characters", s.evaluated_characters, "rounded_characters", s.rounded_characters,
       "only_answers", s.only_answers, "entropy_per_character", s.entropy_per_character,
       "answer_baselines", s.baselines, "baseline_loss", s.baseline_loss, "failed_runs",
       s.failed_runs, "diverged_runs", s.diverged_runs, "passage", s.passage);
  }
};

}  // namespace headcount
