#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "data/batches.h"
#include "data/built_in.h"
#include "data/documents.h"
#include "data/vocabulary.h"

namespace headcount {

/// Part of a corpus. Of a file it has tokens only; of documents, starts, too; of a built-in corpus,
/// TextMarks. Of two parts that follow each other, the "\n" that begins the second's first document
/// is also the last token of the first: it ends the document before.
struct TextPart {
  std::vector<std::int32_t> tokens;     ///< [characters]
  std::vector<std::int32_t> distances;  ///< [characters]: see TextMarks
  std::vector<Index> starts;            ///< positions at which stories, or documents, begin

  /// Its characters in the half-open range [begin, end).
  TextPart slice(Index begin, Index end) const;
  /// Its first `characters`; 0, or more than it has: all.
  TextPart first(Index characters) const;
};

/// Text as tokens, split by position into a training and a validation part.
struct Corpus {
  std::string name;       ///< of a built-in corpus, or the file's path
  std::string sha256;     ///< as Characters::sha256; of two files, both, joined by "+"
  Vocabulary vocabulary;  ///< characters of all parts
  TextPart train, validation;
  TextPart tuning;  ///< cut off `train` by keep_for_tuning, or empty

  /// Lines for the user of the texts, whose settings stand between backquotes: of each file, on
  /// ForeignNewlines and what they cost, if there are any, and on documents.
  std::vector<std::string> notes;
  Documents documents = Documents::one;

  // Built-in corpora only.

  bool only_answers = false;    ///< the loss counts answers alone; the other characters are random
  bool hidden_answers = false;  ///< see TextMarks::hidden_answers
  std::vector<Index> directions;  ///< [vocabulary]: see TextMarks
  /// Baselines on the answers of the validation part, as shares; none if it has no answers.
  std::optional<Baselines> baselines;
  Index longest_story = 0;  ///< characters, of both parts
  /// Exact -log p of the validation text under its grammar, nats per character; 0 with
  /// only_answers. It is the floor of the validation loss: lower losses are luck, and a model gets
  /// near it only if stories fit into its context.
  std::optional<double> entropy_per_character;

  /// Returns true if each story fits into `context` tokens. A longer story is cut into windows, and
  /// the model reads each window without the earlier ones.
  bool stories_fit(Index context) const { return longest_story <= context; }
  /// Tokens that end one part and begin the next: see TextPart.
  Index shared_tokens() const { return documents == Documents::one ? 0 : 1; }
  /// Word for the items over which the loss is a mean.
  const char* unit() const { return only_answers ? "answer" : "character"; }
  /// Marks of a part of this corpus.
  TextMarks marks(const TextPart& part) const {
    return {part.distances, part.starts, only_answers,
            hidden_answers, directions,  documents != Documents::one};
  }
};

/// Options of `load_corpus`. The first three have an effect on built-in corpora only, the last
/// three on files only.
struct CorpusOptions {
  std::uint64_t seed = 1;
  /// Least length of the text, which ends with a story; 0: BuiltInCorpus::characters.
  Index characters = 0;
  Given own{corpus_settings()};      ///< settings of built-in corpora
  double validation_fraction = 0.1;  ///< share of the characters
  /// Number of characters at the beginning of the validation part that are kept, rounded up to
  /// whole stories or documents; 0: all.
  Index validation_characters = 0;
  std::string validation = {};  ///< file that is the validation part; empty: the end of the text
  bool unix_newlines = true;    ///< see read_characters
  Documents documents = Documents::one;

  /// `own` with the defaults of `built_in`.
  Given own_of(const BuiltInCorpus& built_in) const {
    return own.of(corpus_settings(), built_in.name);
  }
};

/// Part of a corpus of the characters of a text, not numbered yet. Throws DataError that names
/// `source` if all its lines are blank and it is to be divided into documents.
TextPart text_part(Characters text, Documents documents, const std::string& source);

/// Built-in corpus, cut into its parts where the story nearest to the validation fraction ends.
Corpus write_corpus(const BuiltInCorpus& built_in, const CorpusOptions& options);

/// Corpus of a user's text, split as in nanoGPT: the first int((1 - validation_fraction) *
/// characters) characters are for training, or the documents that end nearest to there; all, if
/// there is a second text for validation. Throws DataError for fewer than two different characters,
/// and when a part would be empty.
Corpus text_corpus(const std::string& name, Characters text, const CorpusOptions& options = {},
                   std::optional<Characters> validation = {});

/// Writes the built-in corpus named `data`, or reads the UTF-8 file at path `data` (a file named
/// like a built-in corpus: "./tales"). Throws DataError for an unusable file, and as text_corpus
/// does.
Corpus load_corpus(const std::string& data, const CorpusOptions& options = {});

/// Note on the foreign newlines of the text `name`, which were `replaced` or not; empty if it has
/// none.
std::string newlines_note(const std::string& name, const ForeignNewlines& foreign, bool replaced);

/// Note on documents that exceed `context`; empty if none does.
std::string continued_note(const Corpus& corpus, Index context);

/// Throws DataError if a part of the text is not longer than `context` tokens, unless windows are
/// as long as its documents.
void require_longer(const Corpus& corpus, Index context);

/// Moves the first `characters` characters of the training part to `corpus.tuning`, far from the
/// validation part; a few more, so that the training part begins with a story or document if it has
/// any.
void keep_for_tuning(Corpus& corpus, Index characters);

/// Gives `corpus` the vocabulary of a model, so that tokens mean the same characters in both.
/// Throws DataError that names the characters which `vocabulary` lacks.
void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary);

/// Number of passages of up to `length` tokens in the validation part. A passage is one story or
/// document, cut at `length`; of a text without any, passages are consecutive stretches.
Index passages(const Corpus& corpus, Index length);

/// Passage number `number`, 1 .. passages(corpus, length).
TextPart passage(const Corpus& corpus, Index number, Index length);

/// A question of a built-in text: a story up to an answer, and that answer.
struct StoryQuestion {
  std::vector<std::int32_t> prompt;  ///< tokens of the story before the answer
  /// Its characters: a word, or the single character of a hidden answer.
  std::string answer;
};

/// Questions of the first stories of the validation part that mark an answer, at most `count`: one
/// a story, which takes turns between the first answer, the second and so on. None for a file.
std::vector<StoryQuestion> story_questions(const Corpus& corpus, std::size_t count);

}  // namespace headcount
