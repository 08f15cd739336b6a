#include "data/corpus.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "autograd/error.h"
#include "autograd/random.h"
#include "data/text.h"

namespace headcount {

namespace {

/// Where the training part ends, before any rounding to a story: nanoGPT's int(0.9 * characters).
std::size_t cut_at(std::size_t characters, const CorpusOptions& options) {
  return static_cast<std::size_t>((1.0 - options.validation_fraction) *
                                  static_cast<double>(characters));
}

/// Names, hashes, encodes and splits `text`; `bytes` is the same in UTF-8.
Corpus make_corpus(const std::string& name, std::string_view bytes, std::u32string_view text,
                   std::size_t cut) {
  Corpus corpus;
  corpus.name = name;
  corpus.sha256 = sha256_hex(bytes);
  corpus.vocabulary = Vocabulary::from_text(text);
  if (corpus.vocabulary.size() < 2) {
    throw DataError("'" + name + "' has one symbol only, so there is nothing to predict; " +
                    "use a text with at least two different characters");
  }
  if (cut == 0 || cut == text.size()) {
    throw DataError("'" + name + "' has " + std::to_string(text.size()) +
                    " characters, too few for this validation fraction; use a longer text");
  }
  corpus.train = corpus.vocabulary.encode(text.substr(0, cut));
  corpus.validation = corpus.vocabulary.encode(text.substr(cut));
  return corpus;
}

/// Stories in a row, with the end of each and what it cost.
struct Stories {
  std::string text;
  std::vector<std::uint8_t> answers;
  std::vector<std::size_t> ends;  // ascending; the last is text.size()
  std::vector<double> nats;
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
  while (all.text.size() < static_cast<std::size_t>(options.characters) || all.ends.size() < 2) {
    const Story story = write_story(random_chooser(key));
    all.text += story.text;
    all.answers.insert(all.answers.end(), story.answers.begin(), story.answers.end());
    all.ends.push_back(all.text.size());
    all.nats.push_back(story.nats);
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

Corpus make_built_in(const std::string& name, const CorpusOptions& options,
                     const std::function<Story(const Chooser&)>& write_story) {
  const Stories all = write_stories(name, options, write_story);
  const std::size_t stories = training_stories(all, cut_at(all.text.size(), options));
  const std::size_t cut = all.ends[stories - 1];

  Corpus corpus = make_corpus(name, all.text, decode_utf8(all.text, name), cut);
  const auto boundary = all.answers.begin() + static_cast<std::ptrdiff_t>(cut);
  corpus.train_answers.assign(all.answers.begin(), boundary);
  corpus.validation_answers.assign(boundary, all.answers.end());
  double nats = 0;
  for (std::size_t i = stories; i < all.nats.size(); ++i) nats += all.nats[i];
  corpus.entropy_per_character = nats / static_cast<double>(corpus.validation.size());
  return corpus;
}

}  // namespace

bool is_built_in(const std::string& data) { return data == "tales" || data == "recall"; }

Corpus load_corpus(const std::string& data, const CorpusOptions& options) {
  if (!(options.validation_fraction > 0 && options.validation_fraction < 1)) {
    throw DataError("validation_fraction is " + std::to_string(options.validation_fraction) +
                    " but must be between 0 and 1");
  }
  if (data == "tales") {
    return make_built_in(data, options,
                         [&](const Chooser& chooser) { return tell_tale(options.tales, chooser); });
  }
  if (data == "recall") {
    return make_built_in(data, options, [&](const Chooser& chooser) {
      return write_recall(options.recall, chooser);
    });
  }
  const std::string bytes = read_file(data);
  const std::u32string text = decode_utf8(bytes, data);
  return make_corpus(data, bytes, text, cut_at(text.size(), options));
}

void adopt_vocabulary(Corpus& corpus, const Vocabulary& vocabulary) {
  if (corpus.vocabulary == vocabulary) return;
  const std::vector<std::int32_t> token_of = vocabulary.encode(corpus.vocabulary.symbols());
  for (auto* tokens : {&corpus.train, &corpus.validation}) {
    for (std::int32_t& token : *tokens) token = token_of[static_cast<std::size_t>(token)];
  }
  corpus.vocabulary = vocabulary;
}

}  // namespace headcount
