#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/real.h"
#include "data/recall.h"
#include "data/tales.h"
#include "data/vocabulary.h"

namespace headcount {

/// A text as the model sees it: tokens, split by position into a training and a validation part.
struct Corpus {
  std::string name;                             ///< "tales", "recall" or the file's path
  std::string sha256;                           ///< of the UTF-8 text, 64 hexadecimal digits
  Vocabulary vocabulary;                        ///< of the whole text
  std::vector<std::int32_t> train, validation;  ///< [characters]

  // Built-in corpora only; empty for files.

  /// 1 where the token at that position belongs to an answer that only recall can tell; [train],
  /// [validation].
  std::vector<std::uint8_t> train_answers, validation_answers;
  /// Nats: the exact -log p of the whole validation text under its grammar, per character. It is
  /// the floor of the validation loss: a model gets below it only by luck, and one whose context
  /// is shorter than a story stays above it.
  std::optional<double> entropy_per_character;
};

/// What `load_corpus` makes. Files heed validation_fraction alone.
struct CorpusOptions {
  std::uint64_t seed = 1;
  Index characters = 1'000'000;      ///< least length of the text, 1000 .. 10^9; ends with a story
  TalesOptions tales = {};           ///< heeded by `tales` alone
  RecallOptions recall = {};         ///< heeded by `recall` alone
  double validation_fraction = 0.1;  ///< of the characters, in (0, 1)
};

/// Whether `data` names a built-in corpus, not a file.
bool is_built_in(const std::string& data);

/// Makes the built-in corpus `data` names, or reads the UTF-8 file at path `data` (a file named
/// like a built-in: "./tales"). A file's training part is its first int((1 - validation_fraction) *
/// characters) characters, as in nanoGPT; a built-in is cut where the nearest story ends.
/// Throws DataError for an unusable file or option, for fewer than two different characters, and
/// when a part would be empty.
Corpus load_corpus(const std::string& data, const CorpusOptions& options = {});

/// Gives `corpus` the vocabulary of a model, so that its tokens mean the same characters to both.
/// Throws DataError that names the characters which `vocabulary` lacks.
void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary);

}  // namespace headcount
