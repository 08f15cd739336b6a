#include "data/corpus.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/random.h"

namespace headcount {

namespace {

/// Cuts off what follows the first `size` characters of a part of `corpus`, and returns it.
TextPart cut_off(const Corpus& corpus, TextPart& part, Index size) {
  const Index all = std::ssize(part.tokens);
  size = std::min(size, all);
  TextPart rest = part.slice(size, all);
  part.tokens.resize(std::min(all, size + corpus.shared_tokens()));
  if (!part.distances.empty()) part.distances.resize(size);
  std::erase_if(part.starts, [size](Index start) { return start >= size; });
  return rest;
}

/// Where the training part ends, before any rounding to a story: nanoGPT's int(0.9 * characters).
Index end_of_training(Index characters, const CorpusOptions& options) {
  return static_cast<Index>((1.0 - options.validation_fraction) * static_cast<double>(characters));
}

/// Splits off the validation part from character `cut` on, or from the start of the story or
/// document nearest to it.
void split(Corpus& corpus, Index cut) {
  const Index size = std::ssize(corpus.train.tokens);
  const std::vector<Index>& starts = corpus.train.starts;
  const auto distance = [aim = cut](Index start) { return std::abs(start - aim); };
  if (starts.size() == 1) {
    throw DataError(
        "'{}' has one document, and a validation part needs another; use a longer text, or "
        "`documents` {}",
        corpus.name, corpus.documents == Documents::lines ? "one" : "lines or one");
  }
  if (!starts.empty())
    cut = *std::ranges::min_element(starts.begin() + 1, starts.end(), {}, distance);
  if (cut <= 0 || cut >= size) {
    throw DataError(
        "'{}' has {} characters, too few to split off a validation part; use a longer text",
        corpus.name, size);
  }
  corpus.validation = cut_off(corpus, corpus.train, cut);
}

/// Shortens the validation part to its first `characters`, rounded up to whole stories or
/// documents; 0: to all.
void shorten_validation(Corpus& corpus, Index characters) {
  TextPart& part = corpus.validation;
  const auto start = std::ranges::lower_bound(part.starts, characters);
  if (start != part.starts.end()) characters = *start;
  if (characters > 0 && (part.starts.empty() || start != part.starts.end()))
    cut_off(corpus, part, characters);
}

/// Replaces the characters of both parts by tokens of their vocabulary.
void number_characters(Corpus& corpus) {
  corpus.vocabulary = Vocabulary::of({corpus.train.tokens, corpus.validation.tokens});
  corpus.vocabulary.encode(corpus.train.tokens);
  corpus.vocabulary.encode(corpus.validation.tokens);
  if (corpus.vocabulary.size() > 1) return;
  throw DataError(
      "'{}' has one symbol only, so there is nothing to predict; use a text with at least two "
      "different characters",
      corpus.name);
}

/// One text of a corpus, as its file has it.
struct UserText {
  std::string name;
  ForeignNewlines foreign;
  Index characters;
};

/// What foreign newlines of `text`, of which it has some, cost; with `replaced`, read without them.
std::string newlines_cost(const UserText& text, bool replaced) {
  const auto& [name, foreign, characters] = text;
  const bool ends = foreign.pairs + foreign.returns > 0, mark = foreign.marks > 0;
  const Index more = foreign.pairs + foreign.marks;
  const double percent =
      100 * static_cast<double>(more) / static_cast<double>(characters + (replaced ? more : 0));
  constexpr double kLeastShown = 0.05;  // of which "%.1f" is not 0
  std::string cost = std::string(ends ? "\\r" : "") + (ends && mark ? " and " : "") +
                     (mark ? "U+FEFF" : "") + ", ";
  if (foreign.pairs > 0 && percent >= kLeastShown)
    cost += formatted("%.1f %% of the text and ", percent);
  return (replaced ? "; `newlines` keep would add " : "; `newlines` unix would leave out ") + cost +
         (ends && mark ? "2 characters" : "a character") + " of the vocabulary";
}

/// Adds the notes on a part of `corpus` that is the whole of a text.
void add_notes(Corpus& corpus, const TextPart& part, const UserText& text, bool replaced) {
  if (std::string found = newlines_note(text.name, text.foreign, replaced); !found.empty())
    corpus.notes.push_back(std::move(found) + newlines_cost(text, replaced));
  if (corpus.documents == Documents::one) return;
  const Index count = std::ssize(part.starts);
  corpus.notes.push_back(formatted("%s is %td document%s of up to %td characters, %s included",
                                   text.name.c_str(), count, count == 1 ? "" : "s",
                                   longest_window(part.starts, std::ssize(part.tokens)),
                                   count == 1 ? "its end" : "their ends"));
}

}  // namespace

TextPart TextPart::slice(Index begin, Index end) const {
  TextPart part;
  part.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
  if (!distances.empty()) part.distances.assign(distances.begin() + begin, distances.begin() + end);
  for (const Index start : starts)
    if (start >= begin && start < end) part.starts.push_back(start - begin);
  return part;
}

TextPart TextPart::first(Index characters) const {
  const Index size = std::ssize(tokens);
  return slice(0, characters > 0 ? std::min(characters, size) : size);
}

Corpus write_corpus(const BuiltInCorpus& built_in, const CorpusOptions& options) {
  Corpus corpus;
  corpus.name = built_in.name;
  corpus.only_answers = built_in.only_answers;
  corpus.hidden_answers = built_in.hidden_answers;
  // A story has its own random stream, so that a longer corpus of the same seed begins with the
  // shorter one.
  RandomKey key{.seed = options.seed, .stream = random_stream("data/" + corpus.name), .step = 0};
  const StoryGrammar write_story = built_in.writer(options.own_of(built_in));
  const Index wanted = options.characters > 0 ? options.characters : built_in.characters;
  std::string text;
  TextPart& train = corpus.train;
  std::vector<Story> stories;  // their nats and baselines
  for (; std::ssize(train.distances) < wanted || key.step < 2; ++key.step) {
    Story story = write_story(random_chooser(key));
    text += std::exchange(story.text, {});
    train.starts.push_back(std::ssize(train.distances));
    corpus.longest_story = std::max(corpus.longest_story, std::ssize(story.distances));
    const std::vector<std::int32_t> distances = std::exchange(story.distances, {});
    train.distances.insert(train.distances.end(), distances.begin(), distances.end());
    stories.push_back(std::move(story));
  }
  Characters characters = read_characters(text, corpus.name);
  corpus.sha256 = std::move(characters.sha256);
  train.tokens = std::move(characters.points);
  number_characters(corpus);
  if (built_in.direction != nullptr) {
    const Given own = options.own_of(built_in);
    for (const char32_t symbol : corpus.vocabulary.symbols())
      corpus.directions.push_back(built_in.direction(symbol, own));
  }

  split(corpus, end_of_training(std::ssize(train.tokens), options));
  const TextPart& validation = corpus.validation;
  shorten_validation(corpus, options.validation_characters);
  Baselines right;
  double floor = 0;
  for (const Story& story :
       std::span(stories).subspan(train.starts.size(), validation.starts.size())) {
    right += story.baselines;
    floor += story.nats;
  }
  const Index count =
      std::ssize(validation.distances) - std::ranges::count(validation.distances, 0);
  if (count > 0) corpus.baselines = right / static_cast<double>(count);
  corpus.entropy_per_character =
      corpus.only_answers ? 0 : floor / static_cast<double>(std::ssize(validation.tokens));
  return corpus;
}

TextPart text_part(Characters text, Documents documents, const std::string& source) {
  if (documents == Documents::one) return {std::move(text.points), {}, {}};
  DividedText divided = divide(text.points, documents);
  if (divided.starts.empty()) throw DataError("'{}' has blank lines only; name a text", source);
  return {std::move(divided.points), {}, std::move(divided.starts)};
}

Corpus text_corpus(const std::string& name, Characters text, const CorpusOptions& options,
                   std::optional<Characters> validation) {
  Corpus corpus;
  corpus.name = name;
  corpus.documents = options.documents;
  corpus.sha256 = text.sha256;
  const auto characters = [](const Characters& all) { return std::ssize(all.points); };
  const UserText trained{name, text.foreign, characters(text)};
  UserText evaluated;
  if (validation) {
    corpus.sha256 += "+" + validation->sha256;
    evaluated = {options.validation, validation->foreign, characters(*validation)};
    try {
      corpus.validation = text_part(std::move(*validation), options.documents, options.validation);
    } catch (const DataError& error) {
      throw DataError("`validation` {}", error.what());
    }
  }
  corpus.train = text_part(std::move(text), options.documents, name);
  number_characters(corpus);
  add_notes(corpus, corpus.train, trained, options.unix_newlines);
  if (validation) add_notes(corpus, corpus.validation, evaluated, options.unix_newlines);
  if (!validation) split(corpus, end_of_training(std::ssize(corpus.train.tokens), options));
  shorten_validation(corpus, options.validation_characters);
  return corpus;
}

std::string newlines_note(const std::string& name, const ForeignNewlines& foreign, bool replaced) {
  const auto [pairs, returns, marks] = foreign;
  const auto lines = [](Index count, const char* end) {
    return count == 0 ? "" : formatted("%td line%s with %s", count, count == 1 ? "" : "s", end);
  };
  std::string found;
  if (pairs + returns > 0) {
    found = "ends " + lines(pairs, "\\r\\n") + (pairs > 0 && returns > 0 ? " and " : "") +
            lines(returns, "\\r") + (replaced ? ", read as \\n" : "");
  }
  if (marks > 0) {
    found += (found.empty() ? "has " : ", and has ") +
             (marks == 1 ? "a byte order mark" : formatted("%td byte order marks", marks)) +
             (replaced ? ", left out" : "");
  }
  if (found.empty()) return "";
  return name + " " + found +
         (replaced                       ? ""
          : pairs + returns + marks == 1 ? ", kept as it is"
                                         : ", kept as they are");
}

std::string continued_note(const Corpus& corpus, Index context) {
  if (corpus.documents == Documents::one) return "";
  for (const TextPart* const part : {&corpus.train, &corpus.validation}) {
    if (longest_window(part->starts, std::ssize(part->tokens)) > context)
      return formatted("documents longer than `context` %td go on in further windows", context);
  }
  return "";
}

void require_longer(const Corpus& corpus, Index context) {
  if (corpus.documents != Documents::one) return;
  for (const auto& [name, part] :
       {std::pair("training", &corpus.train), std::pair("validation", &corpus.validation)}) {
    if (std::ssize(part->tokens) > context) continue;
    throw DataError(
        "`context` {} is not shorter than the {} part of {}, {} characters; lower it or give more "
        "text",
        context, name, corpus.name, part->tokens.size());
  }
}

void keep_for_tuning(Corpus& corpus, Index characters) {
  const auto after = std::ranges::lower_bound(corpus.train.starts, characters);
  // Otherwise there are no stories, or the last one alone is that long.
  const Index cut = after != corpus.train.starts.end() ? *after : characters;
  TextPart rest = cut_off(corpus, corpus.train, cut);
  corpus.tuning = std::exchange(corpus.train, std::move(rest));
}

void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary) {
  if (corpus.vocabulary == vocabulary) return;
  named_error<DataError>(corpus.name, [&] {
    const std::vector<std::int32_t> token_of = vocabulary.encode(corpus.vocabulary.symbols());
    for (TextPart* part : {&corpus.train, &corpus.tuning, &corpus.validation}) {
      for (std::int32_t& token : part->tokens) token = token_of[token];
    }
    const std::vector<Index> before = corpus.directions;
    if (!before.empty()) corpus.directions.assign(vocabulary.size(), -1);
    for (std::size_t i = 0; i < before.size(); ++i) corpus.directions[token_of[i]] = before[i];
  });
  corpus.vocabulary = vocabulary;
}

Index passages(const Corpus& corpus, Index length) {
  const TextPart& part = corpus.validation;
  if (!part.starts.empty()) return std::ssize(part.starts);
  return std::max<Index>(1, std::ssize(part.tokens) / length);
}

TextPart passage(const Corpus& corpus, Index number, Index length) {
  const TextPart& part = corpus.validation;
  const std::vector<Index>& starts = part.starts;
  const Index begin = starts.empty() ? (number - 1) * length : starts[number - 1];
  const Index size = std::ssize(part.tokens);
  const Index end = number < std::ssize(starts) ? starts[number] + corpus.shared_tokens() : size;
  return part.slice(begin, std::min({end, begin + length, size}));
}

namespace {

// The word that begins the text of `tokens`, or its first character if that is no letter.
std::string first_word(const Vocabulary& vocabulary, std::span<const std::int32_t> tokens) {
  const auto is_of_word = [&](std::int32_t token) {
    return is_letter(vocabulary.symbols()[token]);
  };
  const auto length = std::ranges::find_if_not(tokens, is_of_word) - tokens.begin();
  return vocabulary.decode(tokens.first(static_cast<std::size_t>(std::max<Index>(1, length))));
}

}  // namespace

std::vector<StoryQuestion> story_questions(const Corpus& corpus, std::size_t count) {
  std::vector<StoryQuestion> questions;
  const Index stories = std::ssize(corpus.validation.starts);
  for (Index story = 0; story < stories && questions.size() < count; ++story) {
    const auto [tokens, distances, starts] = passage(corpus, story + 1, corpus.longest_story);
    std::vector<Index> answers;
    for (Index i = 0; i < std::ssize(distances); ++i) {
      if (distances[i] != 0) answers.push_back(i);
    }
    if (answers.empty()) continue;
    const Index at = answers[story % std::ssize(answers)], told = at - distances[at];
    const std::span<const std::int32_t> text = tokens;
    questions.push_back({{tokens.begin(), tokens.begin() + at},
                         corpus.hidden_answers ? corpus.vocabulary.decode(text.subspan(told, 1))
                                               : first_word(corpus.vocabulary, text.subspan(at))});
  }
  return questions;
}

}  // namespace headcount
