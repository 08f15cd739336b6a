#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"

namespace headcount {

/// Passage of a validation text, shown character by character.
struct Passage {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> answers;  ///< [tokens] as in TextMarks; empty for files
  /// [tokens]: -log p of each token under the corpus's grammar given the tokens before it, nats:
  /// the least loss that a model can have on average. Empty for files.
  std::vector<double> nats;
};

/// Number of passages of up to `length` tokens in the validation part. In a built-in corpus a
/// passage is one story, cut at `length`; in a file, passages are consecutive stretches.
Index passages(const Corpus& corpus, Index length);

/// Passage number `number`, 1 .. passages(corpus, length), of the corpus that `options` make.
Passage passage(const Corpus& corpus, const CorpusOptions& options, Index number, Index length);

}  // namespace headcount
