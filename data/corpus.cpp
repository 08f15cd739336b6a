#include "data/corpus.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "autograd/random.h"

namespace headcount {

namespace {

/// Cuts off what follows the first `size` characters of `part`, and returns it.
TextPart cut_off(TextPart& part, Index size) {
  TextPart rest;
  const auto move_end = [size](auto& from, auto& to) {
    if (std::ssize(from) <= size) return;
    to.assign(from.begin() + size, from.end());
    from.resize(size);
  };
  move_end(part.tokens, rest.tokens);
  move_end(part.distances, rest.distances);
  const auto first = std::ranges::lower_bound(part.starts, size);
  for (auto start = first; start != part.starts.end(); ++start)
    rest.starts.push_back(*start - size);
  part.starts.erase(first, part.starts.end());
  return rest;
}

/// Where the training part ends, before any rounding to a story: nanoGPT's int(0.9 * characters).
Index end_of_training(Index characters, const CorpusOptions& options) {
  return static_cast<Index>((1.0 - options.validation_fraction) * static_cast<double>(characters));
}

/// Splits off the validation part from character `cut` on.
void split(Corpus& corpus, Index cut) {
  const Index size = std::ssize(corpus.train.tokens);
  if (cut <= 0 || cut >= size) {
    throw DataError("'", corpus.name, "' has ", size,
                    " characters, too few to split off a validation part; use a longer text");
  }
  corpus.validation = cut_off(corpus.train, cut);
}

void require_two_symbols(const Corpus& corpus) {
  if (corpus.vocabulary.size() > 1) return;
  throw DataError("'", corpus.name, "' has one symbol only, so there is nothing to predict; ",
                  "use a text with at least two different characters");
}

}  // namespace

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
  std::vector<std::int32_t>& distances = corpus.train.distances;
  std::vector<Index> starts;
  std::vector<double> nats;
  std::vector<Baselines> baselines;
  for (; std::ssize(distances) < wanted || key.step < 2; ++key.step) {
    const Story story = write_story(random_chooser(key));
    text += story.text;
    starts.push_back(std::ssize(distances));
    distances.insert(distances.end(), story.distances.begin(), story.distances.end());
    nats.push_back(story.nats);
    baselines.push_back(story.baselines);
    corpus.longest_story = std::max(corpus.longest_story, std::ssize(story.distances));
  }
  EncodedText encoded = encode_text(text, corpus.name);
  corpus.sha256 = std::move(encoded.sha256);
  corpus.vocabulary = std::move(encoded.vocabulary);
  require_two_symbols(corpus);
  corpus.train.tokens = std::move(encoded.tokens);
  corpus.train.starts = starts;

  const Index cut = end_of_training(std::ssize(distances), options);
  const auto distance = [cut](Index start) { return std::abs(start - cut); };
  const Index first =
      std::ranges::min_element(starts.begin() + 1, starts.end(), {}, distance) - starts.begin();
  split(corpus, starts[first]);
  // The last validation story is the one that completes the characters wanted.
  Index last = std::ssize(starts);
  if (options.validation_characters > 0) {
    const auto enough = std::ranges::lower_bound(starts.begin() + first + 1, starts.end(),
                                                 starts[first] + options.validation_characters);
    last = enough - starts.begin();
  }
  if (last < std::ssize(starts)) cut_off(corpus.validation, starts[last] - starts[first]);
  Baselines right;
  double floor = 0;
  for (Index story = first; story < last; ++story) {
    right += baselines[story];
    floor += nats[story];
  }
  const std::vector<std::int32_t>& asked = corpus.validation.distances;
  const Index count = std::ssize(asked) - std::ranges::count(asked, 0);
  if (count > 0) corpus.baselines = right / static_cast<double>(count);
  corpus.entropy_per_character =
      corpus.only_answers ? 0 : floor / static_cast<double>(std::ssize(asked));
  return corpus;
}

Corpus text_corpus(const std::string& name, EncodedText text, const CorpusOptions& options,
                   std::optional<EncodedText> validation) {
  Corpus corpus;
  corpus.name = name;
  corpus.sha256 = std::move(text.sha256);
  corpus.vocabulary = std::move(text.vocabulary);
  corpus.train.tokens = std::move(text.tokens);
  Index line_ends = text.line_ends;
  if (validation) {
    corpus.sha256 += "+" + validation->sha256;
    corpus.validation.tokens = std::move(validation->tokens);
    line_ends += validation->line_ends;
    const Vocabulary &one = corpus.vocabulary, &other = validation->vocabulary;
    std::u32string symbols;
    std::ranges::set_union(one.symbols(), other.symbols(), std::back_inserter(symbols));
    Vocabulary both(std::move(symbols));
    recode(corpus.train.tokens, one, both);
    recode(corpus.validation.tokens, other, both);
    corpus.vocabulary = std::move(both);
  }
  require_two_symbols(corpus);
  const Index replaced = options.unix_newlines ? line_ends : 0;
  const auto characters = static_cast<double>(std::ssize(corpus.train.tokens) +
                                              std::ssize(corpus.validation.tokens) + replaced);
  if (!validation) split(corpus, end_of_training(std::ssize(corpus.train.tokens), options));
  if (options.validation_characters > 0) cut_off(corpus.validation, options.validation_characters);
  corpus.newlines_replaced = replaced > 0;
  if (line_ends == 0) return corpus;
  corpus.newlines_note = formatted(
      "%s ends %td lines with \\r\\n, %s \\r, %.1f %% of the text and a character of the "
      "vocabulary",
      name.c_str(), line_ends,
      options.unix_newlines ? "read as \\n; `newlines` keep would add"
                            : "kept as they are; `newlines` unix would leave out",
      100 * static_cast<double>(line_ends) / characters);
  return corpus;
}

void require_longer(const Corpus& corpus, Index context) {
  for (const auto& [name, part] :
       {std::pair("training", &corpus.train), std::pair("validation", &corpus.validation)}) {
    if (std::ssize(part->tokens) > context) continue;
    throw DataError("`context` ", context, " is not shorter than the ", name, " part of ",
                    corpus.name, ", ", part->tokens.size(),
                    " characters; lower it or give more text");
  }
}

void keep_for_tuning(Corpus& corpus, Index characters) {
  Index cut = std::ssize(corpus.train.tokens) - characters;
  const auto after = std::ranges::upper_bound(corpus.train.starts, cut);
  // Otherwise the first story alone is that long.
  if (after - corpus.train.starts.begin() > 1) cut = *(after - 1);
  corpus.tuning = cut_off(corpus.train, cut);
}

void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary) {
  try {
    for (TextPart* part : {&corpus.train, &corpus.tuning, &corpus.validation})
      recode(part->tokens, corpus.vocabulary, vocabulary);
  } catch (const DataError& error) {
    throw DataError(corpus.name, ": ", error.what());
  }
  corpus.vocabulary = vocabulary;
}

Index passages(const Corpus& corpus, Index length) {
  const TextPart& part = corpus.validation;
  if (!part.starts.empty()) return std::ssize(part.starts);
  return std::max<Index>(1, std::ssize(part.tokens) / length);
}

Passage passage(const Corpus& corpus, const CorpusOptions& options, Index number, Index length) {
  TextPart before = corpus.validation;
  const bool stories = !before.starts.empty();
  TextPart shown = cut_off(before, stories ? before.starts[number - 1] : (number - 1) * length);
  if (shown.starts.size() > 1) length = std::min(length, shown.starts[1]);
  cut_off(shown, length);
  Passage passage{std::move(shown.tokens), std::move(shown.distances), {}};
  const BuiltInCorpus* const built_in = find_built_in(corpus.name);
  if (built_in != nullptr && !built_in->hidden_answers) {
    passage.nats = nats_of_characters(built_in->writer(options.own_of(*built_in)),
                                      corpus.vocabulary.decode(passage.tokens));
  }
  return passage;
}

}  // namespace headcount
