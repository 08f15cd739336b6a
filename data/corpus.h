#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "data/batches.h"
#include "data/built_in.h"
#include "data/vocabulary.h"

namespace headcount {

/// A text as the model sees it: tokens, split by position into a training and a validation part.
struct Corpus {
  std::string name;                             ///< of a built-in corpus, or the file's path
  std::string sha256;                           ///< of the UTF-8 text, 64 hexadecimal digits
  Vocabulary vocabulary;                        ///< of the whole text
  std::vector<std::int32_t> train, validation;  ///< [characters]

  // Built-in corpora only; empty for files.

  /// Which tokens are answers, and how far back what tells them stands: TextMarks::answers of
  /// [train], [validation].
  std::vector<std::int32_t> train_answers, validation_answers;
  /// Where stories begin: there training and evaluation begin their windows.
  std::vector<Index> train_starts, validation_starts;
  /// What keep_for_tuning took from the training part, with its marks.
  std::vector<std::int32_t> tuning;
  std::vector<std::int32_t> tuning_answers;
  std::vector<Index> tuning_starts;
  /// The loss counts answers alone; the other characters are random.
  bool only_answers = false;
  /// Shares of the answers of the validation part; where it has any. Who looks them up gets all
  /// right, if stories fit.
  std::optional<Baselines> baselines;
  Index longest_story = 0;  ///< characters, of both parts
  /// Nats: the exact -log p of the validation text under its grammar, per character; 0 with
  /// only_answers. It is the floor of the validation loss: a model gets below it only by luck, and
  /// near it only if stories fit.
  std::optional<double> entropy_per_character;

  /// Whether each story fits into a context of so many tokens. Where one does not, its parts are
  /// read alone, and what an earlier part told is out of sight.
  bool stories_fit(Index context) const { return longest_story <= context; }

  TextMarks train_marks() const { return {train_answers, train_starts, only_answers}; }
  TextMarks tuning_marks() const { return {tuning_answers, tuning_starts, only_answers}; }
  TextMarks validation_marks() const {
    return {validation_answers, validation_starts, only_answers};
  }
};

/// What `load_corpus` makes. Files heed the last two alone.
struct CorpusOptions {
  std::uint64_t seed = 1;
  Index characters = 1'000'000;      ///< least length of the text, 1000 .. 10^9; ends with a story
  Given own{corpus_settings()};      ///< each heeded by the corpora that it is for
  double validation_fraction = 0.1;  ///< of the characters, in (0, 1)
  /// So many of the validation part are kept, from its first on; of a built-in corpus the whole
  /// stories that have as many. 0: all.
  Index validation_characters = 0;
};

/// What writes the stories of the built-in corpus that `data` names; null where it names a file.
/// Heeds `options` as they are now.
std::function<Story(const Chooser&)> story_writer(const std::string& data,
                                                  const CorpusOptions& options);

/// Makes the built-in corpus `data` names, or reads the UTF-8 file at path `data` (a file named
/// like a built-in: "./tales"). A file's training part is its first int((1 - validation_fraction) *
/// characters) characters, as in nanoGPT; a built-in is cut where the nearest story ends.
/// Throws ShapeError for an option out of range, DataError for an unusable file, for fewer than two
/// different characters, and when a part would be empty.
Corpus load_corpus(const std::string& data, const CorpusOptions& options = {});

/// Moves the end of the training part to `corpus.tuning`: `characters` of them, or, so that it
/// begins where a story does, a few more.
void keep_for_tuning(Corpus& corpus, Index characters);

/// Gives `corpus` the vocabulary of a model, so that its tokens mean the same characters to both.
/// Throws DataError that names the characters which `vocabulary` lacks.
void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary);

}  // namespace headcount
