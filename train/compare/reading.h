#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "data/corpus.h"

namespace headcount {

/// Passage `number` of the validation text, at most as long as the model's context and a page
/// allow. Throws SettingError, naming `sample`, if no passage has that number.
TextPart passage_to_read(const Corpus& corpus, Index number, Index context);

/// Number of the passage that shows what the run in `lacking` has not learned: of the first ones,
/// of together 8192 characters, that on whose last answer it loses most more than each of the runs
/// `others` does on any answer; none if there is no such passage, or the corpus marks no answers.
/// Throws what load_run throws.
std::optional<Index> telling_passage(const Corpus& corpus, Index context,
                                     const std::filesystem::path& lacking,
                                     const std::vector<std::filesystem::path>& others);

/// Position in the passage of the character whose prediction the attention maps show: the last
/// answer, or the last character.
std::size_t question_of(const TextPart& passage);

/// Passage as results.json has it: its "number", "characters", positions of "answers" (null
/// where the corpus marks none), and the position of the "question".
nlohmann::ordered_json passage_json(const TextPart& passage, const Corpus& corpus, Index number);

/// How the run in `folder` reads the passage: {"seed", "said": the likeliest character at the
/// question, "losses" of its characters in nats, null for the first and for those that the loss
/// does not count, "heads": by layer, none for a layer without scores, {"entropy", "weights"} of
/// attention just before the question}. Weights and
/// losses have four decimals. Throws DataError if the weights are absent or their vocabulary is
/// not that of `corpus`.
nlohmann::ordered_json read_passage(const std::filesystem::path& folder, const TextPart& passage,
                                    const Corpus& corpus);

}  // namespace headcount
