#include "data/corpus.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/random.h"

namespace headcount {

namespace {

/// Where the training part ends, before any rounding to a story: nanoGPT's int(0.9 * characters).
std::size_t cut_at(std::size_t characters, const CorpusOptions& options) {
  return static_cast<std::size_t>((1.0 - options.validation_fraction) *
                                  static_cast<double>(characters));
}

/// Splits `text` at `cut`; the validation part ends after `validation` characters.
Corpus make_corpus(const std::string& name, EncodedText text, std::size_t cut,
                   std::size_t validation) {
  std::vector<std::int32_t>& tokens = text.tokens;
  if (text.vocabulary.size() < 2) {
    throw DataError("'", name, "' has one symbol only, so there is nothing to predict; ",
                    "use a text with at least two different characters");
  }
  if (cut == 0 || cut >= tokens.size()) {
    throw DataError("'", name, "' has ", tokens.size(),
                    " characters, too few to split off a validation part; use a longer text");
  }
  Corpus corpus;
  corpus.name = name;
  corpus.sha256 = std::move(text.sha256);
  corpus.vocabulary = std::move(text.vocabulary);
  const std::span rest = std::span(tokens).subspan(cut);
  const auto kept = rest.first(std::min(validation, rest.size()));
  corpus.validation.assign(kept.begin(), kept.end());
  tokens.resize(cut);
  corpus.train = std::move(tokens);
  return corpus;
}

/// Wanted size of the validation part in characters; the greatest number if all are wanted.
std::size_t validation_characters(const CorpusOptions& options) {
  return options.validation_characters > 0 ? static_cast<std::size_t>(options.validation_characters)
                                           : std::numeric_limits<std::size_t>::max();
}

/// Stories in a row, written as one text.
struct Stories {
  std::string text;
  std::vector<std::int32_t> answers;      // [characters]
  std::vector<std::size_t> begins = {0};  // of each story and, last, the end, in characters
  std::vector<double> nats;
  std::vector<Baselines> baselines;
};

/// Text of the least length wanted, and at least two stories. Story i has its own random stream, so
/// that a longer corpus of the same seed begins with the shorter one.
Stories write_stories(const BuiltInCorpus& built_in, const CorpusOptions& options) {
  const auto write_story = built_in.writer(options.own);
  const auto characters =
      static_cast<std::size_t>(options.characters > 0 ? options.characters : built_in.characters);
  RandomKey key{.seed = options.seed,
                .stream = random_stream("data/" + std::string(built_in.name)),
                .step = 0};
  Stories all;
  all.text.reserve(characters);
  all.answers.reserve(characters);
  for (; all.answers.size() < characters || key.step < 2; ++key.step) {
    const Story story = write_story(random_chooser(key));
    all.text += story.text;
    all.answers.insert(all.answers.end(), story.answers.begin(), story.answers.end());
    all.begins.push_back(all.answers.size());
    all.nats.push_back(story.nats);
    all.baselines.push_back(story.baselines);
  }
  return all;
}

/// Number of stories to train on: the cut is nearest to `cut`, and neither part is empty.
std::size_t training_stories(const Stories& all, std::size_t cut) {
  const auto distance = [&](std::size_t at) { return at > cut ? at - cut : cut - at; };
  const auto nearest =
      std::ranges::min_element(all.begins.begin() + 1, all.begins.end() - 1, {}, distance);
  return static_cast<std::size_t>(nearest - all.begins.begin());
}

/// Offsets of stories [first, last) from the beginning of story `first`.
std::vector<Index> starts(const Stories& all, std::size_t first, std::size_t last) {
  std::vector<Index> places;
  for (std::size_t i = first; i < last; ++i)
    places.push_back(static_cast<Index>(all.begins[i] - all.begins[first]));
  return places;
}

}  // namespace

Corpus write_corpus(const BuiltInCorpus& built_in, const CorpusOptions& options) {
  const std::string name(built_in.name);
  const Stories all = write_stories(built_in, options);
  const std::size_t first = training_stories(all, cut_at(all.answers.size(), options));
  const std::size_t cut = all.begins[first];
  // The last validation story is the one that completes the characters wanted.
  std::size_t last = first + 1;
  while (last + 1 < all.begins.size() && all.begins[last] - cut < validation_characters(options))
    ++last;
  const std::size_t end = all.begins[last];

  Corpus corpus = make_corpus(name, encode_text(all.text, name), cut, end - cut);
  corpus.only_answers = built_in.only_answers;
  corpus.hidden_answers = built_in.hidden_answers;
  const std::span<const std::int32_t> answers(all.answers);
  const auto of_train = answers.first(cut), of_validation = answers.subspan(cut, end - cut);
  corpus.train_answers.assign(of_train.begin(), of_train.end());
  corpus.validation_answers.assign(of_validation.begin(), of_validation.end());
  corpus.train_starts = starts(all, 0, first);
  corpus.validation_starts = starts(all, first, last);
  Baselines baselines;
  double nats = 0;
  for (std::size_t story = first; story < last; ++story) {
    baselines += all.baselines[story];
    nats += all.nats[story];
  }
  const Index count = std::ssize(of_validation) - std::ranges::count(of_validation, 0);
  if (count > 0) corpus.baselines = baselines / static_cast<double>(count);
  corpus.entropy_per_character =
      built_in.only_answers ? 0 : nats / static_cast<double>(corpus.validation.size());
  for (std::size_t i = 1; i < all.begins.size(); ++i) {
    corpus.longest_story =
        std::max(corpus.longest_story, static_cast<Index>(all.begins[i] - all.begins[i - 1]));
  }
  return corpus;
}

Corpus text_corpus(const std::string& name, EncodedText text, const CorpusOptions& options) {
  const std::size_t cut = text.first > 0 ? text.first : cut_at(text.tokens.size(), options);
  const Index line_ends = text.line_ends, replaced = options.unix_newlines ? line_ends : 0;
  const Index characters = std::ssize(text.tokens) + replaced;
  Corpus corpus = make_corpus(name, std::move(text), cut, validation_characters(options));
  corpus.newlines_replaced = replaced > 0;
  if (line_ends == 0) return corpus;
  corpus.newlines_note = formatted(
      "%s ends %td lines with \\r\\n, %s \\r, %.1f %% of the text and a character of the "
      "vocabulary",
      name.c_str(), line_ends,
      options.unix_newlines ? "read as \\n; `newlines` keep would add"
                            : "kept as they are; `newlines` unix would leave out",
      100 * static_cast<double>(line_ends) / static_cast<double>(characters));
  return corpus;
}

void require_longer(const Corpus& corpus, Index context) {
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("`context` ", context, " is not shorter than the ", part, " part of ",
                    corpus.name, ", ", tokens, " characters; lower it or give more text");
  }
}

void keep_for_tuning(Corpus& corpus, Index characters) {
  Index cut = std::ssize(corpus.train) - characters;
  auto& starts = corpus.train_starts;
  const auto after = std::ranges::upper_bound(starts, cut);
  if (after - starts.begin() > 1) {  // else the first story alone is that long
    cut = *(after - 1);
    for (auto start = after - 1; start != starts.end(); ++start)
      corpus.tuning_starts.push_back(*start - cut);
    starts.erase(after - 1, starts.end());
  }
  const auto move_end = [cut](auto& from, auto& to) {
    if (from.empty()) return;
    to.assign(from.begin() + cut, from.end());
    from.resize(static_cast<std::size_t>(cut));
  };
  move_end(corpus.train, corpus.tuning);
  move_end(corpus.train_answers, corpus.tuning_answers);
}

void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary) {
  try {
    for (auto* tokens : {&corpus.train, &corpus.tuning, &corpus.validation})
      recode(*tokens, corpus.vocabulary, vocabulary);
  } catch (const DataError& error) {
    throw DataError(corpus.name, ": ", error.what());
  }
  corpus.vocabulary = vocabulary;
}

Index passages(const Corpus& corpus, Index length) {
  if (!corpus.validation_starts.empty()) return std::ssize(corpus.validation_starts);
  return std::max<Index>(1, std::ssize(corpus.validation) / length);
}

Passage passage(const Corpus& corpus, const CorpusOptions& options, Index number, Index length) {
  const std::vector<Index>& starts = corpus.validation_starts;
  Index begin = (number - 1) * length, end = std::ssize(corpus.validation);
  if (!starts.empty()) {
    begin = starts[static_cast<std::size_t>(number - 1)];
    if (number < std::ssize(starts)) end = starts[static_cast<std::size_t>(number)];
  }
  end = std::min(end, begin + length);
  const auto part = [&](const std::vector<std::int32_t>& whole) {
    return whole.empty() ? whole : std::vector(whole.begin() + begin, whole.begin() + end);
  };
  Passage passage{part(corpus.validation), part(corpus.validation_answers), {}};
  const BuiltInCorpus* const built_in = find_built_in(corpus.name);
  if (built_in != nullptr && !built_in->hidden_answers) {
    passage.nats =
        nats_of_characters(built_in->writer(options.own), corpus.vocabulary.decode(passage.tokens));
  }
  return passage;
}

}  // namespace headcount
