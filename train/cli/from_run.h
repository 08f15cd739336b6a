#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/cli/command_line.h"
#include "train/run/loaded.h"

/// Runs and texts for commands that take --from RUN.

namespace headcount {

/// The flag --best of `load_named_run`.
inline const Flag kFromFlag = {
    "from", "run folder or checkpoint folder; --from may be left out before it", true, false, true};
inline const Flag kBestFlag = {
    "best", "take the checkpoint of lowest validation loss, which a run keeps, not the newest",
    false};
/// Flag of commands that load a run: loads weights with numbers that are NaN or infinite, too.
inline const Flag kAllowNonFinite = {
    "allow-non-finite",
    "load weights that are NaN or infinite, to look into them; results must be finite all the same",
    false};

/// Loads the run that --from names, with --best its best checkpoint, for products in the
/// `precision` that the command's flags name. Throws UsageError without --from, SettingError for a
/// precision that is slow here, and DataError for an unusable run.
LoadedRun load_named_run(const Call& call);

/// How texts of a run begin and end.
struct TextFrame {
  /// Printed and read first: the first word of a story of a built-in text, whose model reads
  /// stories from their beginning. Empty if the text is a file, or has lines without words.
  std::string opening;
  std::vector<std::int32_t> prompt;  ///< tokens of the opening, or Vocabulary::default_prompt
  /// Tokens that end a document, the last of which begins one; empty if the text has no documents.
  std::vector<std::int32_t> end;
};
/// The frame of texts of a run with `options` whose text is made of `documents`; without options,
/// of a checkpoint without its run.
TextFrame text_frame(const std::optional<TrainOptions>& options, Documents documents,
                     const Vocabulary& vocabulary);

/// The text of a flag, at least one character, in the run's tokens. Throws UsageError and
/// DataError, whose messages name the flag.
std::vector<std::int32_t> encode_flag(const std::string& flag, const std::string& text,
                                      const LoadedRun& run);

/// Throws UsageError that ends with `or_else` if the tokens of a flag do not fit the run's context.
void require_room(const std::string& flag, std::span<const std::int32_t> tokens,
                  const LoadedRun& run, const char* or_else);

/// What a token takes in a KV cache that is rounded so, and what of: "a token takes 192 bytes of KV
/// cache in int8, 560 in f32: k 72 (8 of scales), v 72 (8 of scales), canonA 48 (never rounded)".
std::string cache_bytes_text(const ModelPlan& model, const CacheRounding& rounding);

/// Loads the text to evaluate on as the validation part of a corpus named like the text: the text
/// that --data names, of a built-in one the validation part, or, without --data, the validation
/// part of the run's own text. `characters` limits it to its first characters; 0 means all. By
/// default, all of --data is taken, or the part that the run was evaluated on. Throws DataError,
/// and UsageError for a checkpoint without its run if no --data is given; both advise `flag`.
Corpus load_eval_text(const CommandLine& line, const LoadedRun& run,
                      std::optional<Index> characters = std::nullopt,
                      const std::string& flag = "data");

}  // namespace headcount
