#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/real.h"
#include "train/evaluation.h"
#include "train/statistics.h"

namespace headcount {

/// Seeds 1, 2, ... of each attention: `first` of them, and then more, one after the other, for
/// those of which a verdict is open, up to `last`.
struct SeedRange {
  Index first = 3, last = 3;

  /// "5" or "3..20". Throws SettingError.
  static SeedRange parse(std::string_view text);
  std::string text() const;
  bool grows() const { return first != last; }
};

/// What verdicts are about.
enum class Metric {
  loss,     ///< of validation, nats per character
  answers,  ///< predicted right, in percentage points
};

/// What a comparison is to decide: which attentions cost at most `tolerance` more than the
/// reference.
struct Question {
  Metric metric = Metric::loss;
  std::string reference;  ///< the spec of one of the attentions; empty: the largest cache
  /// Nats per character, or percentage points; default a hundredth of the reference's loss, but
  /// at least a thousandth of a nat, or five points.
  std::optional<double> tolerance;
  SeedRange seeds;
  bool intervals = true;  ///< without them nothing is decided
};

/// Of the cost of an attention: how much worse it is than the reference, on seeds that both
/// finished. With a probability of at most 5 % for each attention, the first two are wrong: of
/// losses, whose differences are supposed to be normal, they are about the mean, of answers, which
/// may scatter in any way, about half of all seeds (see Judge).
enum class Verdict {
  enough,      ///< it lies below the tolerance
  not_enough,  ///< it lies above it
  open,
};

/// What one layer keeps under one name, and of how many tokens.
struct CacheBlock {
  std::string name;
  Index heads = 0, width = 0;  ///< numbers
  Index window = 0;            ///< so many tokens at most; 0: all
  bool per_sequence = false;   ///< a state, once for all tokens
};
using CacheLayer = std::vector<CacheBlock>;

/// What one finished training run measured: one variant, one seed.
struct RunResult {
  std::uint64_t seed = 0;
  double validation_loss = 0;                  ///< nats per character of the validation split
  std::optional<double> tuning_loss;           ///< of the slice that --sweep picks on
  std::optional<double> answer_accuracy;       ///< share of answers (see Story) predicted right
  std::vector<AnswersAt> answers_by_distance;  ///< the same, as Evaluation has it
  double train_tokens_per_second = 0;          ///< whole training steps, evaluations left out
  double machine_seconds = 0;                  ///< from start to end, over the runs side by side
  std::string version, machine;                ///< what trained it: see ComparisonResult
  std::vector<Index> curve_steps;              ///< where the loss curve has its points
  std::vector<double> curve_losses;  ///< training loss, mean over the steps since the last
};

/// Decoding speed, one sequence, at the token that fills a context of `context` tokens.
struct DecodeSpeed {
  Index context = 0;
  double tokens_per_second = 0;
};

/// A passage of the validation text that the attentions are looked at with.
struct ReadPassage {
  Index number = 1;                     ///< of those that there are: see Passage
  std::vector<std::string> characters;  ///< UTF-8
  std::vector<bool> answers;            ///< [characters]; empty where the corpus marks none
  /// [characters]: what no model can have less of on average, nats; empty for a file.
  std::vector<double> entropy;
  /// The character that the maps of attention are about: the last answer, or the last character.
  std::size_t question = 0;
};

/// What one head looks at before the character that the passage asks for.
struct HeadLook {
  std::vector<double> weights;  ///< of the characters before that one
  double entropy = 0;           ///< of the weights, nats
};

/// How a trained model reads the passage.
struct Reading {
  std::uint64_t seed = 0;  ///< of the run
  /// [characters], nats; none for the first one, and for those that the loss does not count.
  std::vector<std::optional<double>> losses;
  std::vector<std::vector<HeadLook>> looks;  ///< layer by layer; empty for one without scores
};

/// One value of a sweep, for one attention.
struct SweptValue {
  std::string value;           ///< as it was given
  std::optional<double> loss;  ///< tuning loss, mean over the first seeds; none where one failed
  bool chosen = false;
};

/// One attention of a comparison.
struct VariantResult {
  std::string spec;      ///< as it was given, "gqa2"; "gqa2 converted" where it comes in two ways
  std::string adjusted;  ///< what --match or --sweep set, "ffn-dim 540, lr 0.001"; may be empty
  /// "gqa2", or "gqa2 (lr 0.001)" where something was set.
  std::string label() const { return spec + (adjusted.empty() ? "" : " (" + adjusted + ")"); }

  /// Where a trained model was converted: how many percent of the steps it was trained on for.
  std::optional<Index> trained_on;
  std::string attention;  ///< the spec without the way

  Index parameters = 0;
  double cache_bytes_per_token = 0;   ///< allocated for the context, over its tokens
  std::vector<CacheLayer> cache;      ///< layer by layer
  std::vector<RunResult> runs;        ///< the finished ones, by seed
  std::vector<std::string> failures;  ///< "seed 3: the loss became NaN at step 12; ..."
  std::vector<DecodeSpeed> decode;    ///< by context; the model's own context among them
  std::optional<Reading> reading;     ///< of the first finished run whose weights are there
  std::string no_reading;             ///< or why there is none of it
  std::vector<SweptValue> swept;      ///< every value of the sweep, as given; empty without one

  // Over the finished runs, one value a seed; meaningless while there is none.
  Estimate loss;                       ///< over the seeds that all have: see common_seeds
  std::optional<Estimate> difference;  ///< of the loss, from the reference's, seed by seed
  /// By the question's metric; none for the reference. Of answers it is a mean without interval.
  std::optional<Estimate> cost;
  std::vector<std::pair<std::uint64_t, double>> costs;  ///< seed and cost, what `cost` is of
  Verdict verdict = Verdict::open;
  std::optional<Estimate> answer_accuracy;  ///< as `loss`, where the corpus marks answers
  /// Median over the runs that this version on this machine trained; none without such a run.
  std::optional<double> train_tokens_per_second;
  double decode_tokens_per_second = 0;  ///< at the model's context
  /// No other variant has less cache and no more loss, or less loss and no more cache; losses are
  /// compared on the seeds that both have.
  bool pareto = false;
};

/// Everything that a comparison found, and everything that is needed to repeat it.
struct ComparisonResult {
  std::string command;               ///< the whole command line
  std::string data, data_sha256;     ///< name and SHA-256 of the text
  std::vector<std::uint64_t> seeds;  ///< of some attention at least
  /// Finished by every attention that finished any; means of single attentions are over these, or,
  /// where there are none, over all that each has.
  std::vector<std::uint64_t> common_seeds;
  Question question;
  std::string match;  ///< "none", "params" or "kv=1024"
  std::string sweep;  ///< "lr=0.0003,0.001", or empty
  Index context = 0;  ///< tokens, of the trained models
  /// Floor of the loss, where the corpus has one and its stories fit into the context.
  std::optional<double> entropy_per_character;
  Index longest_story = 0;         ///< characters; see Corpus
  Index evaluated_characters = 0;  ///< of the validation part, where limited; 0: all
  bool only_answers = false;       ///< the loss is of the corpus's answers, not of all characters
  std::optional<Baselines> baselines;  ///< see Corpus
  /// The share of answers that the best of `baselines` gets right.
  std::optional<double> answer_chance;
  std::optional<double> baseline_loss;  ///< of what has learned nothing: see premises.h
  Index steps = 0, asked_warmup = 0;    ///< of the reference, as TrainOptions has them
  std::string undecided;                ///< why every verdict is open; empty elsewhere
  nlohmann::ordered_json config;        ///< the settings that all variants share
  std::string machine;  ///< processor, cores, memory, operating system, how runs share them
  std::string version;  ///< of the program and what it is built with
  Index failed_runs = 0, diverged_runs = 0;  ///< the latter are among the former
  double hours = 0;                          ///< machine time of all runs
  std::vector<VariantResult> variants;       ///< in the order given
  ReadPassage passage;
};

}  // namespace headcount
