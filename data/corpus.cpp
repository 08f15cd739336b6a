#include "data/corpus.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/random.h"
#include "data/encoded_text.h"

namespace headcount {

namespace {

/// Where the training part ends, before any rounding to a story: nanoGPT's int(0.9 * characters).
std::size_t cut_at(std::size_t characters, const CorpusOptions& options) {
  return static_cast<std::size_t>((1.0 - options.validation_fraction) *
                                  static_cast<double>(characters));
}

/// Splits `text` at `cut`; of what follows, the first `validation` characters are kept.
Corpus make_corpus(const std::string& name, EncodedText text, std::size_t cut,
                   std::size_t validation) {
  std::vector<std::int32_t>& tokens = text.tokens;
  if (text.vocabulary.size() < 2) {
    throw DataError("'" + name + "' has one symbol only, so there is nothing to predict; " +
                    "use a text with at least two different characters");
  }
  if (cut == 0 || cut == tokens.size()) {
    throw DataError("'" + name + "' has " + std::to_string(tokens.size()) +
                    " characters, too few for this validation fraction; use a longer text");
  }
  Corpus corpus;
  corpus.name = name;
  corpus.sha256 = std::move(text.sha256);
  corpus.vocabulary = std::move(text.vocabulary);
  const auto boundary = tokens.begin() + static_cast<std::ptrdiff_t>(cut);
  const std::size_t kept = std::min(validation, tokens.size() - cut);
  corpus.validation.assign(boundary, boundary + static_cast<std::ptrdiff_t>(kept));
  tokens.resize(cut);
  corpus.train = std::move(tokens);
  return corpus;
}

/// So many characters of the validation part as the options want; all: more than there can be.
std::size_t validation_characters(const CorpusOptions& options) {
  return options.validation_characters > 0 ? static_cast<std::size_t>(options.validation_characters)
                                           : std::numeric_limits<std::size_t>::max();
}

/// Stories in a row, with the end of each and what it cost.
struct Stories {
  std::string text;
  std::vector<std::int32_t> answers;  // [characters]
  std::vector<std::size_t> ends;      // in characters, ascending; the last is answers.size()
  std::vector<double> nats;
  std::vector<Baselines> baselines;
};

/// At least `options.characters` characters and two stories. Story i has its own random stream, so
/// a longer corpus of the same seed begins with the shorter one.
Stories write_stories(const std::string& name, const CorpusOptions& options,
                      const std::function<Story(const Chooser&)>& write_story) {
  check_option("characters", options.characters, 1000, 1'000'000'000);
  RandomKey key{.seed = options.seed, .stream = random_stream("data/" + name), .step = 0};
  Stories all;
  all.text.reserve(static_cast<std::size_t>(options.characters));
  all.answers.reserve(all.text.capacity());
  while (all.answers.size() < static_cast<std::size_t>(options.characters) || all.ends.size() < 2) {
    const Story story = write_story(random_chooser(key));
    all.text += story.text;
    all.answers.insert(all.answers.end(), story.answers.begin(), story.answers.end());
    all.ends.push_back(all.answers.size());
    all.nats.push_back(story.nats);
    all.baselines.push_back(story.baselines);
    ++key.step;
  }
  return all;
}

/// How many stories to train on, so that the cut is nearest to `cut` and neither part is empty.
std::size_t training_stories(const Stories& all, std::size_t cut) {
  const auto distance = [&](std::size_t end) { return end > cut ? end - cut : cut - end; };
  const auto nearest =
      std::min_element(all.ends.begin(), all.ends.end() - 1,
                       [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  return static_cast<std::size_t>(nearest - all.ends.begin()) + 1;
}

/// Where stories [first, last) begin, counted from where the first of them does.
std::vector<Index> starts(const Stories& all, std::size_t first, std::size_t last) {
  const std::size_t origin = first == 0 ? 0 : all.ends[first - 1];
  std::vector<Index> places = {0};
  for (std::size_t i = first; i + 1 < last; ++i)
    places.push_back(static_cast<Index>(all.ends[i] - origin));
  return places;
}

Corpus make_built_in(const BuiltInCorpus& built_in, const CorpusOptions& options) {
  const std::string name(built_in.name);
  const Stories all = write_stories(name, options, built_in.writer(options.own));
  const std::size_t stories = training_stories(all, cut_at(all.answers.size(), options));
  const std::size_t cut = all.ends[stories - 1];
  // The first stories after the cut that have all characters which are wanted.
  const auto is_enough = [&](std::size_t end) {
    return end - cut >= validation_characters(options);
  };
  const auto first = all.ends.begin() + static_cast<std::ptrdiff_t>(stories);
  const auto last = std::find_if(first, all.ends.end() - 1, is_enough);
  const auto end_story = static_cast<std::size_t>(last - all.ends.begin()) + 1;

  Corpus corpus = make_corpus(name, encode_text(all.text, name), cut, *last - cut);
  corpus.only_answers = built_in.only_answers;
  const auto boundary = all.answers.begin() + static_cast<std::ptrdiff_t>(cut);
  corpus.train_answers.assign(all.answers.begin(), boundary);
  corpus.validation_answers.assign(boundary,
                                   all.answers.begin() + static_cast<std::ptrdiff_t>(*last));
  corpus.train_starts = starts(all, 0, stories);
  corpus.validation_starts = starts(all, stories, end_story);
  Baselines baselines;
  double nats = 0;
  for (std::size_t story = stories; story < end_story; ++story) {
    baselines += all.baselines[story];
    nats += all.nats[story];
  }
  const auto answers =
      std::ssize(corpus.validation_answers) - std::ranges::count(corpus.validation_answers, 0);
  if (answers > 0) corpus.baselines = baselines / static_cast<double>(answers);
  corpus.entropy_per_character =
      built_in.only_answers ? 0 : nats / static_cast<double>(corpus.validation.size());
  std::size_t begin = 0;
  for (const std::size_t end : all.ends) {
    corpus.longest_story = std::max(corpus.longest_story, static_cast<Index>(end - begin));
    begin = end;
  }
  return corpus;
}

}  // namespace

std::function<Story(const Chooser&)> story_writer(const std::string& data,
                                                  const CorpusOptions& options) {
  const BuiltInCorpus* const built_in = find_built_in(data);
  return built_in == nullptr ? nullptr : built_in->writer(options.own);
}

Corpus load_corpus(const std::string& data, const CorpusOptions& options) {
  if (!(options.validation_fraction > 0 && options.validation_fraction < 1)) {
    throw DataError("validation_fraction is " + std::to_string(options.validation_fraction) +
                    " but must be between 0 and 1");
  }
  if (const BuiltInCorpus* const built_in = find_built_in(data))
    return make_built_in(*built_in, options);
  EncodedText text = encode_file(data);
  const std::size_t cut = cut_at(text.tokens.size(), options);
  return make_corpus(data, std::move(text), cut, validation_characters(options));
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
    throw DataError(corpus.name + ": " + error.what());
  }
  corpus.vocabulary = vocabulary;
}

}  // namespace headcount
