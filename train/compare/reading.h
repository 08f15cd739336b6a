#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "train/compare/comparison.h"

namespace headcount {

/// Passage `number` of the validation text, at most as long as the model's context and a page
/// allow. Throws SettingError, naming `sample`, if no passage has that number.
Passage passage_to_read(const Corpus& corpus, const CorpusOptions& options, Index number,
                        Index context);

/// Characters, answers and entropies of passage `number` for the report, and the character whose
/// prediction the attention maps show.
ReadPassage shown(const Passage& passage, const Corpus& corpus, Index number);

/// Reads the passage with the weights of the run in `folder`: the loss of each character, and each
/// head's attention before the character `shown.question`. If the corpus counts answers only, other
/// characters have no loss. Throws DataError if the weights are absent or their vocabulary is not
/// that of `corpus`.
Reading read_passage(const std::filesystem::path& folder, const Passage& passage,
                     const ReadPassage& shown, const Corpus& corpus);

}  // namespace headcount
