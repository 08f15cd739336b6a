#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "train/cli/command_line.h"
#include "train/run/loaded.h"

/// Runs and texts for commands that take --from RUN.

namespace headcount {

/// The flag --best of `load_named_run`.
inline const Flag kBestFlag = {
    "best", "take the checkpoint of lowest validation loss, which a run keeps, not the newest",
    false};
/// Flag of commands that load a run: loads weights with numbers that are NaN or infinite, too.
inline const Flag kAllowNonFinite = {
    "allow-non-finite",
    "load weights that are NaN or infinite, to look into them; results must be finite all the same",
    false};

/// Loads the run that --from names, with --best its best checkpoint. Throws UsageError without
/// --from, and DataError for an unusable run.
LoadedRun load_named_run(const CommandLine& line);

/// The text of a flag, at least one character, in the run's tokens. Throws UsageError and
/// DataError, whose messages name the flag.
std::vector<std::int32_t> encode_flag(const std::string& flag, const std::string& text,
                                      const LoadedRun& run);

/// A text that a model is evaluated on.
struct EvalText {
  std::string name;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> answers = {};
  std::vector<Index> starts = {};
  bool only_answers = false;
  bool hidden_answers = false;
  std::optional<Baselines> baselines = {};
  Index longest_story = 0;

  TextMarks marks() const { return {answers, starts, only_answers, hidden_answers}; }
  /// Word for the items over which the loss is a mean.
  const char* unit() const { return only_answers ? "answer" : "character"; }
};

/// Loads the text that --data names, of a built-in one the validation part, or, without --data, the
/// validation part of the run's own text. `characters` limits it to its first characters; 0 means
/// all. By default, all of --data is taken, or the part that the run was evaluated on. Throws
/// DataError, and UsageError for a checkpoint without its run if no --data is given.
EvalText load_eval_text(const CommandLine& line, const LoadedRun& run,
                        std::optional<Index> characters = std::nullopt);

}  // namespace headcount
