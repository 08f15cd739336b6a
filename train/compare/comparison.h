#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/real.h"
#include "train/statistics.h"

namespace headcount {

/// What one finished training run measured: one variant, one seed.
struct RunResult {
  std::uint64_t seed = 0;
  double validation_loss = 0;             ///< nats per character, the whole validation split
  std::optional<double> tuning_loss;      ///< of the slice that --sweep picks on
  std::optional<double> answer_accuracy;  ///< share of answer characters predicted right
  double train_tokens_per_second = 0;     ///< whole training steps, evaluations left out
  double machine_seconds = 0;             ///< from start to end, over the runs side by side
  std::string version, machine;           ///< what trained it: see ComparisonResult
  std::vector<Index> curve_steps;         ///< where the loss curve has its points
  std::vector<double> curve_losses;       ///< training loss, mean over the steps since the last
};

/// Decoding speed, one sequence, at the token that fills a context of `context` tokens.
struct DecodeSpeed {
  Index context = 0;
  double tokens_per_second = 0;
};

/// One attention of a comparison.
struct VariantResult {
  std::string spec;      ///< as it was given, "gqa2"
  std::string adjusted;  ///< what --match or --sweep set, "ffn-dim 540, lr 0.001"; may be empty
  /// "gqa2", or "gqa2 (lr 0.001)" where something was set.
  std::string label() const { return spec + (adjusted.empty() ? "" : " (" + adjusted + ")"); }

  Index parameters = 0;
  double cache_bytes_per_token = 0;   ///< allocated for the context, over its tokens
  std::vector<RunResult> runs;        ///< the finished ones, by seed
  std::vector<std::string> failures;  ///< "seed 3: the loss became NaN at step 12; ..."
  std::vector<DecodeSpeed> decode;    ///< by context; the model's own context among them

  // Over the finished runs, one value a seed; meaningless while there is none.
  Estimate loss;
  std::optional<Estimate> difference;       ///< from the first variant, over seeds both finished
  std::optional<Estimate> answer_accuracy;  ///< where the corpus marks answers
  /// Median over the runs that this version on this machine trained; none without such a run.
  std::optional<double> train_tokens_per_second;
  double decode_tokens_per_second = 0;  ///< at the model's context
  bool pareto = false;  ///< no other variant has less cache and no more loss, or less loss and no
                        ///< more cache
};

/// Everything that a comparison found, and everything that is needed to repeat it.
struct ComparisonResult {
  std::string command;            ///< the whole command line
  std::string data, data_sha256;  ///< name and SHA-256 of the text
  std::vector<std::uint64_t> seeds;
  std::string match;                            ///< "none", "params" or "kv=1024"
  std::string sweep;                            ///< "lr=0.0003,0.001", or empty
  Index context = 0;                            ///< tokens, of the trained models
  std::optional<double> entropy_per_character;  ///< floor of the loss, where the corpus has one
  std::string config;   ///< JSON text of the settings that all variants share
  std::string machine;  ///< processor, cores, memory, operating system, how runs share them
  std::string version;  ///< of the program and what it is built with
  Index failed_runs = 0, diverged_runs = 0;  ///< the latter are among the former
  double hours = 0;                          ///< machine time of all runs
  std::vector<VariantResult> variants;       ///< in the order given
};

}  // namespace headcount
