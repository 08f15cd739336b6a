#include "data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "data/grammar.h"
#include "data/memory_limit.h"
#include "data/temporary_folder.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(BuiltInCorpora, HaveStoriesOfTheLengthThatTheyDeclare) {
  for (const BuiltInCorpus* corpus : built_in_corpora()) {
    if (corpus->story_length == nullptr) continue;
    const Corpus made = load_corpus(std::string(corpus->name), {.characters = 1000});
    EXPECT_EQ(made.longest_story, corpus->story_length(CorpusOptions().own_of(*corpus)));
  }
  EXPECT_EQ(find_built_in("./tales"), nullptr);
}

TEST(Baselines, AreJudgedByTheBest) {
  for (const Baselines& one : {Baselines{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}) EXPECT_EQ(one.best(), 1);
}

std::string text_of(const Corpus& corpus, const TextPart& part) {
  return corpus.vocabulary.decode(part.tokens);
}

using Texts = std::pair<std::string, std::string>;

// Texts of the training and of the validation part.
Texts texts(const Corpus& corpus) {
  return {text_of(corpus, corpus.train), text_of(corpus, corpus.validation)};
}

class CorpusFromFile : public testing::Test {
 protected:
  Corpus load(const std::string& text, const CorpusOptions& options = {}) const {
    return load_corpus(folder_.file("text", text), options);
  }
  TemporaryFolder folder_;
};

TEST_F(CorpusFromFile, IsSplitByPositionAsInNanoGptOrHasItsValidationPartInAnotherFile) {
  const std::string ten = "abcdefghij", other = folder_.file("other", "bcd");
  const struct {
    std::string text;
    CorpusOptions options;
    Texts parts;
  } cases[] = {// int(0.9 * 27) = 24 characters, 25 bytes
               {"The quick brown f\u00F6x.0123456", {}, {"The quick brown f\u00F6x.0123", "456"}},
               {ten, {.validation_fraction = 0.5}, {"abcde", "fghij"}},
               {ten + ten, {.validation_fraction = 0.5, .validation_characters = 4}, {ten, "abcd"}},
               {ten + ten, {.validation_fraction = 0.5, .validation_characters = 11}, {ten, ten}},
               {"abcabc", {.validation = other}, {"abcabc", "bcd"}},
               {"abcabc", {.validation_characters = 2, .validation = other}, {"abcabc", "bc"}}};
  for (const auto& [text, options, parts] : cases) {
    const Corpus corpus = load(text, options);
    EXPECT_EQ(corpus.name, (folder_.path() / "text").string());
    EXPECT_EQ(texts(corpus), parts);
    EXPECT_EQ(corpus.sha256,
              sha256_hex(text) + (options.validation.empty() ? "" : "+" + sha256_hex("bcd")));
    EXPECT_TRUE(corpus.train.distances.empty() && corpus.validation.distances.empty());
    EXPECT_FALSE(corpus.entropy_per_character.has_value());
  }
}

TEST_F(CorpusFromFile, NeedsTwoDifferentCharactersAndTwoParts) {
  for (const std::string& text : {std::string("a"), std::string(100, 'a')})
    EXPECT_THROW(load(text), DataError) << text;
  EXPECT_NO_THROW(load("ab"));
  for (const double fraction : {0.0, 1.0, -0.5, 0.95})  // 0.95 leaves no character to train on
    EXPECT_THROW(load("abcdefghij", {.validation_fraction = fraction}), DataError) << fraction;
}

TEST_F(CorpusFromFile, SaysWhatLineEndsAndAByteOrderMarkCost) {
  const std::string mark = "\uFEFF";
  const struct {
    std::string text, found, cost;
    Texts parts;  // as Unix has them
  } cases[] = {
      {"ab\r\ncd\r\n",
       "ends 2 lines with \\r\\n",
       "\\r, 25.0 % of the text and a character of the vocabulary",
       {"ab\ncd", "\n"}},
      {"ab\rcd\r", "ends 2 lines with \\r", "\\r, a character of the vocabulary", {"ab\ncd", "\n"}},
      {mark + "ab\n",
       "has a byte order mark",
       "U+FEFF, a character of the vocabulary",
       {"ab", "\n"}},
      {mark + "ab\r\nc\r",
       "ends 1 line with \\r\\n and 1 line with \\r, and has a byte order mark",
       "\\r and U+FEFF, 28.6 % of the text and 2 characters of the vocabulary",
       {"ab\nc", "\n"}}};
  for (const auto& [text, found, cost, parts] : cases) {
    const Corpus replaced = load(text), kept = load(text, {.unix_newlines = false});
    EXPECT_EQ(texts(replaced), parts);
    EXPECT_EQ(text_of(kept, kept.train) + text_of(kept, kept.validation), text);
    std::string read = found;
    if (const auto line = read.find(", and"); line != read.npos) read.insert(line, ", read as \\n");
    read += found.ends_with("mark") ? ", left out" : ", read as \\n";
    ASSERT_TRUE(replaced.notes.size() == 1 && kept.notes.size() == 1);
    EXPECT_EQ(replaced.notes[0],
              replaced.name + " " + read + "; `newlines` keep would add " + cost);
    EXPECT_EQ(kept.notes[0],
              kept.name + " " + found +
                  (found.starts_with("has") ? ", kept as it is" : ", kept as they are") +
                  "; `newlines` unix would leave out " + cost);
  }
  EXPECT_TRUE(load("ab\ncd\n").notes.empty());
  // No share that is shown as nothing.
  const Corpus long_text = load(std::string(5000, 'a') + "b\r\n");
  EXPECT_EQ(long_text.notes.at(0).find('%'), std::string::npos) << long_text.notes[0];
}

TEST_F(CorpusFromFile, NotesEachFileByItsOwnName) {
  const std::string other = folder_.file("other", "a\r\nbc\r\n"), text = folder_.path() / "text";
  const Corpus corpus = load("ab\n", {.validation = other, .documents = Documents::lines});
  ASSERT_EQ(corpus.notes.size(), 3u);
  EXPECT_EQ(corpus.notes[0], text + " is 1 document of up to 3 characters, its end included");
  EXPECT_TRUE(corpus.notes[1].starts_with(other + " ends 2 lines with \\r\\n, read as"));
  EXPECT_EQ(corpus.notes[2], other + " is 2 documents of up to 3 characters, their ends included");
  folder_.file("other", "\n \n");
  EXPECT_EQ(message_of<DataError>(
                [&] { load("ab\nc\n", {.validation = other, .documents = Documents::lines}); }),
            "`validation` '" + other + "' has blank lines only; name a text");
}

using Lines = std::vector<std::string>;

// The documents of a part, without the "\n" before each.
Lines documents(const Corpus& corpus, const TextPart& part) {
  Lines all;
  for (std::size_t i = 0; i < part.starts.size(); ++i) {
    const Index end = i + 1 < part.starts.size() ? part.starts[i + 1] + 1 : std::ssize(part.tokens);
    const std::string text = text_of(corpus, part.slice(part.starts[i], end));
    EXPECT_EQ(text[0], '\n');
    all.push_back(text.substr(1));
  }
  return all;
}

TEST_F(CorpusFromFile, OfDocumentsIsCutWhereOneEnds) {
  const std::string text = "ab\n\n\nc d\n  \nef\ngh\n\nijklm";
  const struct {
    CorpusOptions options;
    Lines train, validation;
  } cases[] = {
      {{.validation_fraction = 0.5, .documents = Documents::lines},
       {"ab\n", "c d\n", "ef\n"},
       {"gh\n", "ijklm\n"}},
      {{.validation_fraction = 0.01, .documents = Documents::lines},
       {"ab\n", "c d\n", "ef\n", "gh\n"},
       {"ijklm\n"}},
      {{.validation_fraction = 0.7, .validation_characters = 3, .documents = Documents::lines},
       {"ab\n", "c d\n"},
       {"ef\n"}},
      {{.validation_fraction = 0.6, .documents = Documents::paragraphs},
       {"ab\n\n", "c d\n\n"},
       {"ef\ngh\n\n", "ijklm\n\n"}},
      {{.validation = folder_.file("other", "\nf\n\n\ne\n"), .documents = Documents::paragraphs},
       {"ab\n\n", "c d\n\n", "ef\ngh\n\n", "ijklm\n\n"},
       {"f\n\n", "e\n\n"}}};
  for (const auto& [options, train, validation] : cases) {
    const Corpus corpus = load(text, options);
    EXPECT_EQ(documents(corpus, corpus.train), train);
    EXPECT_EQ(documents(corpus, corpus.validation), validation);
    EXPECT_TRUE(corpus.marks(corpus.train).one_document);
    EXPECT_NO_THROW(require_longer(corpus, 1000)) << "a window is no longer than a document";
  }
  Corpus corpus = load(text, cases[1].options);
  EXPECT_EQ(corpus.notes,
            Lines{corpus.name + " is 5 documents of up to 6 characters, their ends included"});
  EXPECT_EQ(continued_note(corpus, 6), "");
  EXPECT_EQ(continued_note(corpus, 5),
            "documents longer than `context` 5 go on in further windows");
  EXPECT_EQ(passages(corpus, 100), 1);
  EXPECT_EQ(text_of(corpus, passage(corpus, 1, 100)), "\nijklm\n");
  EXPECT_EQ(text_of(corpus, passage(corpus, 1, 4)), "\nijk");
  keep_for_tuning(corpus, 4);
  EXPECT_EQ(documents(corpus, corpus.tuning), Lines({"ab\n", "c d\n"}));
  EXPECT_EQ(documents(corpus, corpus.train), Lines({"ef\n", "gh\n"}));
}

TEST_F(CorpusFromFile, OfDocumentsNeedsTwoOfThem) {
  EXPECT_THROW(load("ab\ncd\n", {.documents = Documents::paragraphs}), DataError);
  EXPECT_THROW(load("\n \n", {.documents = Documents::lines}), DataError);
  EXPECT_NO_THROW(load("ab\ncd\n", {.documents = Documents::lines}));
}

TEST_F(CorpusFromFile, MayBeAPipe) {
  const std::string path = folder_.path() / "pipe", bytes = std::string(200'000, 'a') + "b";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << bytes; });
  const Corpus read = load_corpus(path);
  writer.join();
  EXPECT_EQ(read.sha256, sha256_hex(bytes));
}

TEST_F(CorpusFromFile, IsCutForTuningAtAnyCharacter) {
  Corpus corpus = load("abcdefghijklmnopqrst");
  keep_for_tuning(corpus, 3);
  EXPECT_EQ(text_of(corpus, corpus.tuning), "abc");
  EXPECT_EQ(text_of(corpus, corpus.train), "defghijklmnopqr");
  EXPECT_TRUE(corpus.tuning.starts.empty() && corpus.tuning.distances.empty());
}

TEST_F(CorpusFromFile, HasStretchesAsPassages) {
  const Corpus corpus = load("abcdefghijklmnopqrst", {.validation_fraction = 0.5});
  EXPECT_EQ(passages(corpus, 4), 2);
  EXPECT_EQ(passages(corpus, 100), 1);
  const TextPart second = passage(corpus, 2, 4);
  EXPECT_EQ(text_of(corpus, second), "opqr");
  EXPECT_TRUE(second.starts.empty() && second.distances.empty());
  EXPECT_EQ(passage(corpus, 1, 100).tokens, corpus.validation.tokens);
}

#ifdef HEADCOUNT_MEMORY_LIMIT
TEST_F(CorpusFromFile, TakesTheMemoryOfItsTokensAndAFewBytesMoreACharacter) {
  const std::size_t size = std::size_t{64} << 20;
  std::string text;
  while (text.size() < size) text += "All work and no play makes Jack a dull boy.\n";
  const std::string path = folder_.file("text", text);
  text = std::string();
  EXPECT_EXIT(run_with_memory((sizeof(std::int32_t) + 3) * size, [&] { load_corpus(path); }),
              testing::ExitedWithCode(0), "");
}
#endif

class BuiltInCorpus : public testing::TestWithParam<const char*> {
 protected:
  static Corpus load(Index validation_characters = 0) {
    return load_corpus(GetParam(),
                       {.characters = 20'000, .validation_characters = validation_characters});
  }
  static void expect_equal(const TextPart& a, const TextPart& b) {
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.distances, b.distances);
    EXPECT_EQ(a.starts, b.starts);
  }
};
INSTANTIATE_TEST_SUITE_P(All, BuiltInCorpus, testing::Values("tales", "lookup", "mqar"),
                         [](const auto& built_in) { return std::string(built_in.param); });

// Two parts, one after the other.
TextPart joined_parts(TextPart first, const TextPart& second) {
  for (const Index start : second.starts) first.starts.push_back(start + std::ssize(first.tokens));
  first.tokens.insert(first.tokens.end(), second.tokens.begin(), second.tokens.end());
  first.distances.insert(first.distances.end(), second.distances.begin(), second.distances.end());
  return first;
}

TEST_P(BuiltInCorpus, IsTheStoriesThatItsSeedTellsCutWhereOneEnds) {
  const Corpus corpus = load_corpus(GetParam(), {.seed = 5, .characters = 20'000});
  std::string text;
  TextPart told;
  double nats = 0, answers = 0;
  Baselines right;
  Index longest = 0;
  RandomKey key{5, random_stream("data/" + corpus.name), 0};
  for (; std::ssize(told.distances) < 20'000; ++key.step) {
    const Story story = grammar(corpus.name)(random_chooser(key));
    text += story.text;
    told.starts.push_back(std::ssize(told.distances));
    told.distances.insert(told.distances.end(), story.distances.begin(), story.distances.end());
    longest = std::max(longest, std::ssize(story.distances));
    if (key.step < corpus.train.starts.size()) continue;
    nats += story.nats;
    right += story.baselines;
    answers += static_cast<double>(std::ranges::count_if(story.distances, std::identity()));
  }
  told.tokens = corpus.vocabulary.encode(decode_utf8(text, "stories"));
  expect_equal(joined_parts(corpus.train, corpus.validation), told);
  EXPECT_EQ(corpus.sha256, sha256_hex(text));
  EXPECT_EQ(corpus.longest_story, longest);
  EXPECT_TRUE(corpus.stories_fit(longest) && !corpus.stories_fit(longest - 1));
  const auto characters = static_cast<double>(corpus.validation.tokens.size());
  EXPECT_NEAR(characters, 0.1 * static_cast<double>(told.tokens.size()),
              static_cast<double>(longest));
  EXPECT_NEAR(*corpus.entropy_per_character, corpus.only_answers ? 0 : nats / characters, 1e-12);
  EXPECT_TRUE(are_near(*corpus.baselines, right / answers));
}

TEST_P(BuiltInCorpus, KeepsTheFirstStoriesOfItsValidationPartThatHaveEnoughCharacters) {
  const Corpus all = load(), part = load(1000);
  const TextPart &whole = all.validation, &kept = part.validation;
  expect_equal(part.train, all.train);
  EXPECT_EQ(part.sha256, all.sha256);
  const std::size_t stories = kept.starts.size();
  ASSERT_LT(stories, whole.starts.size());
  expect_equal(kept, whole.slice(0, whole.starts[stories]));
  EXPECT_GE(kept.tokens.size(), 1000u);
  EXPECT_LT(whole.starts[stories - 1], 1000);
  // The floor is that of these stories.
  const Corpus exactly = load(std::ssize(kept.tokens));
  expect_equal(exactly.validation, kept);
  EXPECT_EQ(exactly.entropy_per_character, part.entropy_per_character);
  EXPECT_EQ(part.entropy_per_character == all.entropy_per_character, part.only_answers);
}

TEST(WrittenCorpus, HasAPartOfEachEvenWithHugeStories) {
  const Corpus corpus =
      write_corpus(tales_of<TalesOptions{.events = 1000}>(), {.characters = 1000});
  EXPECT_FALSE(corpus.train.tokens.empty() || corpus.validation.tokens.empty());
}

TEST_P(BuiltInCorpus, KeepsWholeStoriesForTuning) {
  const Corpus whole = load();
  const Index end = whole.train.starts[9];
  for (const Index characters : {end - 1, end, end + 1}) {
    Corpus corpus = whole;
    keep_for_tuning(corpus, characters);
    EXPECT_EQ(std::ssize(corpus.tuning.tokens), whole.train.starts[characters > end ? 10 : 9]);
    expect_equal(joined_parts(corpus.tuning, corpus.train), whole.train);
  }
}

TEST_P(BuiltInCorpus, HasStoriesAsPassages) {
  const Corpus corpus = load();
  TextPart all;
  for (Index number = 1; number <= passages(corpus, 100); ++number)
    all = joined_parts(std::move(all), passage(corpus, number, 1000));
  expect_equal(all, corpus.validation);
  EXPECT_EQ(text_of(corpus, passage(corpus, 2, 10)),
            text_of(corpus, corpus.validation.slice(all.starts[1], all.starts[1] + 10)));
}

TEST(AdoptVocabulary, KeepsTheCharactersOfTokens) {
  Corpus corpus;
  corpus.vocabulary = Vocabulary(U"abc");
  corpus.train.tokens = {0, 2, 1, 0};
  adopt_vocabulary(corpus, Vocabulary(U"xcbya"));
  EXPECT_EQ(corpus.vocabulary.decode(corpus.train.tokens), "acba");
  EXPECT_THROW(adopt_vocabulary(corpus, Vocabulary(U"abc")), DataError);  // it lacks x and y
}

}  // namespace
}  // namespace headcount
