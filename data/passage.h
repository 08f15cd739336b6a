#pragma once

#include <cstdint>
#include <vector>

#include "data/corpus.h"

namespace headcount {

/// A piece of a validation text, to be looked at closely.
struct Passage {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> answers;  ///< [tokens] as in TextMarks; empty for files
  /// [tokens]: -log p of each under the grammar, given those before it: no model can have less on
  /// average. Empty for files.
  std::vector<double> nats;
};

/// How many passages of `length` tokens the validation part has: a story each in built-in corpora,
/// of which a longer one is cut; stretches one after the other in files.
Index passages(const Corpus& corpus, Index length);

/// Passage `number`, which is 1 .. passages(corpus, length). `corpus` is what load_corpus made of
/// `options`.
Passage passage(const Corpus& corpus, const CorpusOptions& options, Index number, Index length);

}  // namespace headcount
