#pragma once

#include <filesystem>

#include "data/passage.h"
#include "train/compare/comparison.h"

namespace headcount {

/// Passage `number` of the validation text, as long as a model with this context reads at once and
/// a page shows. Throws SettingError, naming `sample`, if there is none of that number.
Passage passage_to_read(const Corpus& corpus, const CorpusOptions& options, Index number,
                        Index context);

/// What the report shows of a passage.
ReadPassage shown(const Passage& passage, const Corpus& corpus, Index number);

/// Reads the passage with the weights that the run in `folder` has left: loss by loss, and what
/// each head looks at before the character that `shown` asks for. With `only_answers` losses are of
/// answers alone. Throws DataError where the weights are not there, or are those
/// of another text.
Reading read_passage(const std::filesystem::path& folder, const Passage& passage,
                     const ReadPassage& shown, const Corpus& corpus);

}  // namespace headcount
