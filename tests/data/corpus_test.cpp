#include "data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "data/grammar.h"
#include "data/memory_limit.h"
#include "data/tales_corpus.h"
#include "data/temporary_folder.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(BuiltInCorpora, DeclareAllThatIsKnownOfThem) {
  for (const BuiltInCorpus* corpus : built_in_corpora()) {
    EXPECT_EQ(find_built_in(corpus->name), corpus);
    EXPECT_FALSE(corpus->defaults().empty()) << corpus->name;
    for (const Setting& own : corpus->settings())
      EXPECT_TRUE(find_setting(corpus_settings(), own.name)->is_for(corpus->name)) << own.name;
    const Corpus made = load_corpus(std::string(corpus->name), {.characters = 1000});
    EXPECT_EQ(made.only_answers, corpus->only_answers);
    if (corpus->story_length == nullptr) continue;
    const Index length = corpus->story_length(CorpusOptions().own_of(*corpus));
    for (const Index start : made.train.starts) EXPECT_EQ(start % length, 0) << start;
  }
  EXPECT_EQ(find_built_in("./tales"), nullptr);
  EXPECT_EQ(headcount::BuiltInCorpus().defaults(), nlohmann::json::object());
}

std::string train_text(const Corpus& corpus) {
  return corpus.vocabulary.decode(corpus.train.tokens);
}

std::string validation_text(const Corpus& corpus) {
  return corpus.vocabulary.decode(corpus.validation.tokens);
}

class CorpusFromFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(CorpusFromFile, SplitsByPositionAsNanoGptDoes) {
  const std::string text = "The quick brown f\u00F6x.";  // 20 characters, 21 bytes
  const std::string path = folder_.file("split", text + "0123456");
  const Corpus corpus = load_corpus(path);
  EXPECT_EQ(corpus.name, path);
  EXPECT_EQ(corpus.sha256, sha256_hex(text + "0123456"));
  EXPECT_EQ(train_text(corpus), text + "0123");  // int(0.9 * 27) = 24 characters
  EXPECT_EQ(validation_text(corpus), "456");
  EXPECT_TRUE(corpus.train.distances.empty());
  EXPECT_TRUE(corpus.validation.distances.empty());
  EXPECT_FALSE(corpus.entropy_per_character.has_value());
}

TEST_F(CorpusFromFile, NeedsTwoDifferentCharacters) {
  EXPECT_THROW(load_corpus(folder_.file("one", "a")), DataError);
  EXPECT_THROW(load_corpus(folder_.file("same", std::string(100, 'a'))), DataError);
  EXPECT_NO_THROW(load_corpus(folder_.file("two", "ab")));
}

TEST_F(CorpusFromFile, NamesTheFileInErrors) {
  const std::string path = folder_.file("latin1", "caf\xE9");
  EXPECT_NE(message_of<DataError>([&] { load_corpus(path); }).find(path), std::string::npos);
  EXPECT_THROW(load_corpus("no/such/file"), DataError);
}

TEST_F(CorpusFromFile, AFileNamedLikeABuiltInIsReachedByPath) {
  const auto home = std::filesystem::current_path();
  folder_.file("tales", "not a story");
  std::filesystem::current_path(folder_.path());
  const Corpus corpus = load_corpus("./tales");
  std::filesystem::current_path(home);
  EXPECT_EQ(train_text(corpus) + validation_text(corpus), "not a story");
}

TEST_F(CorpusFromFile, KeepsTheValidationFractionBetweenNoneAndAll) {
  const std::string path = folder_.file("fraction", "abcdefghij");
  EXPECT_EQ(load_corpus(path, {.validation_fraction = 0.5}).train.tokens.size(), 5u);
  for (const double fraction : {0.0, 1.0, -0.5, 0.95}) {  // 0.95 leaves no character to train on
    EXPECT_THROW(load_corpus(path, {.validation_fraction = fraction}), DataError) << fraction;
  }
}

TEST_F(CorpusFromFile, KeepsTheFirstCharactersOfItsValidationPart) {
  const std::string path = folder_.file("part", "abcdefghijabcdefghij");
  const Corpus all = load_corpus(path, {.validation_fraction = 0.5});
  const Corpus part = load_corpus(path, {.validation_fraction = 0.5, .validation_characters = 4});
  EXPECT_EQ(validation_text(part), "abcd");
  EXPECT_EQ(train_text(part), train_text(all));
  EXPECT_EQ(part.sha256, all.sha256);
  const Corpus more = load_corpus(path, {.validation_fraction = 0.5, .validation_characters = 11});
  EXPECT_EQ(validation_text(more), validation_text(all));
}

TEST_F(CorpusFromFile, TakesItsValidationPartFromAnotherFile) {
  const std::string path = folder_.file("train", "abcabc"), other = folder_.file("other", "bcd");
  const Corpus corpus = load_corpus(path, {.validation = other});
  EXPECT_EQ(train_text(corpus), "abcabc");
  EXPECT_EQ(validation_text(corpus), "bcd");
  EXPECT_EQ(corpus.vocabulary.symbols(), U"abcd");
  EXPECT_EQ(corpus.sha256, sha256_hex("abcabc") + "+" + sha256_hex("bcd"));
  const Corpus part = load_corpus(path, {.validation_characters = 2, .validation = other});
  EXPECT_EQ(validation_text(part), "bc");
}

TEST_F(CorpusFromFile, SaysWhatLineEndsCost) {
  const std::string path = folder_.file("lines", "ab\r\ncd\r\n");
  const Corpus unix_ends = load_corpus(path), kept = load_corpus(path, {.unix_newlines = false});
  EXPECT_EQ(train_text(unix_ends) + validation_text(unix_ends), "ab\ncd\n");
  EXPECT_EQ(train_text(kept) + validation_text(kept), "ab\r\ncd\r\n");
  const std::string cost = " \\r, 25.0 % of the text and a character of the vocabulary";
  EXPECT_EQ(unix_ends.newlines_note, path +
                                         " ends 2 lines with \\r\\n, read as \\n; `newlines` "
                                         "keep would add" +
                                         cost);
  EXPECT_EQ(kept.newlines_note, path +
                                    " ends 2 lines with \\r\\n, kept as they are; `newlines` "
                                    "unix would leave out" +
                                    cost);
  EXPECT_TRUE(unix_ends.newlines_replaced);
  EXPECT_FALSE(kept.newlines_replaced);
  EXPECT_EQ(load_corpus(folder_.file("plain", "ab\ncd\n")).newlines_note, "");
}

class BuiltInCorpus : public testing::TestWithParam<const char*> {};
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
  const TextPart written = joined_parts(corpus.train, corpus.validation);
  EXPECT_EQ(corpus.vocabulary.decode(written.tokens), text);
  EXPECT_EQ(corpus.sha256, sha256_hex(text));
  EXPECT_EQ(written.starts, told.starts);
  EXPECT_EQ(written.distances, told.distances);
  EXPECT_EQ(corpus.longest_story, longest);
  EXPECT_TRUE(corpus.stories_fit(longest) && !corpus.stories_fit(longest - 1));
  const auto characters = static_cast<double>(corpus.validation.tokens.size());
  EXPECT_NEAR(characters, 0.1 * static_cast<double>(written.tokens.size()),
              static_cast<double>(longest));
  EXPECT_NEAR(*corpus.entropy_per_character, corpus.only_answers ? 0 : nats / characters, 1e-12);
  EXPECT_NEAR(corpus.baselines->guesser, right.guesser / answers, 1e-12);
  EXPECT_NEAR(corpus.baselines->copier, right.copier / answers, 1e-12);
  EXPECT_NEAR(corpus.baselines->commonest, right.commonest / answers, 1e-12);
  EXPECT_EQ(corpus.baselines->best(), std::max({corpus.baselines->guesser, corpus.baselines->copier,
                                                corpus.baselines->commonest}));
}

TEST_P(BuiltInCorpus, KeepsTheFirstStoriesOfItsValidationPartThatHaveEnoughCharacters) {
  const Corpus all = load_corpus(GetParam(), {.characters = 20'000});
  const Corpus part =
      load_corpus(GetParam(), {.characters = 20'000, .validation_characters = 1000});
  EXPECT_EQ(train_text(part), train_text(all));
  EXPECT_EQ(part.sha256, all.sha256);
  const std::size_t stories = part.validation.starts.size();
  ASSERT_LT(stories, all.validation.starts.size());
  EXPECT_EQ(std::ssize(part.validation.tokens), all.validation.starts[stories]);
  EXPECT_GE(part.validation.tokens.size(), 1000u);
  EXPECT_LT(all.validation.starts[stories - 1], 1000);
  EXPECT_TRUE(validation_text(all).starts_with(validation_text(part)));
  // The floor is that of these stories.
  const Corpus exactly = load_corpus(
      GetParam(), {.characters = 20'000,
                   .validation_characters = static_cast<Index>(part.validation.tokens.size())});
  EXPECT_EQ(exactly.validation.tokens, part.validation.tokens);
  EXPECT_EQ(exactly.entropy_per_character, part.entropy_per_character);
  EXPECT_EQ(part.entropy_per_character == all.entropy_per_character, part.only_answers);
}

TEST(WrittenCorpus, HasAPartOfEachEvenWithHugeStories) {
  const Corpus corpus =
      write_corpus(tales_of<TalesOptions{.events = 1000}>(), {.characters = 1000});
  EXPECT_FALSE(corpus.train.tokens.empty());
  EXPECT_FALSE(corpus.validation.tokens.empty());
}

TEST_P(BuiltInCorpus, KeepsWholeStoriesForTuning) {
  const Corpus whole = load_corpus(GetParam(), {.characters = 20'000});
  const Index end = whole.train.starts[9];
  for (const Index characters : {end - 1, end, end + 1}) {
    Corpus corpus = whole;
    keep_for_tuning(corpus, characters);
    EXPECT_EQ(std::ssize(corpus.tuning.tokens), whole.train.starts[characters > end ? 10 : 9]);
    const TextPart joined = joined_parts(corpus.tuning, corpus.train);
    EXPECT_EQ(joined.tokens, whole.train.tokens);
    EXPECT_EQ(joined.distances, whole.train.distances);
    EXPECT_EQ(joined.starts, whole.train.starts);
  }
}

TEST(KeepForTuning, CutsATextWithoutStoriesAnywhere) {
  const TemporaryFolder folder;
  Corpus corpus = load_corpus(folder.file("letters", "abcdefghijklmnopqrst"));
  keep_for_tuning(corpus, 3);
  EXPECT_EQ(corpus.vocabulary.decode(corpus.tuning.tokens), "abc");
  EXPECT_EQ(train_text(corpus), "defghijklmnopqr");
  EXPECT_TRUE(corpus.tuning.starts.empty());
  EXPECT_TRUE(corpus.tuning.distances.empty());
}

TEST(Passage, IsAStoryOfABuiltInText) {
  for (const std::string name : {"tales", "lookup"}) {
    const Corpus corpus = load_corpus(name, {.seed = 3, .characters = 5000});
    const Index stories = passages(corpus, 100);
    ASSERT_EQ(stories, std::ssize(corpus.validation.starts));
    std::vector<std::int32_t> tokens, answers;
    for (Index number = 1; number <= stories; ++number) {
      const TextPart whole = passage(corpus, number, 1000);
      EXPECT_EQ(whole.starts, std::vector<Index>{0});
      tokens.insert(tokens.end(), whole.tokens.begin(), whole.tokens.end());
      answers.insert(answers.end(), whole.distances.begin(), whole.distances.end());
    }
    EXPECT_EQ(tokens, corpus.validation.tokens);
    EXPECT_EQ(answers, corpus.validation.distances);
    EXPECT_EQ(passage(corpus, 1, 10).tokens,
              std::vector(corpus.validation.tokens.begin(), corpus.validation.tokens.begin() + 10));
  }
}

TEST(Passage, IsAStretchOfAFile) {
  const TemporaryFolder folder;
  const Corpus corpus =
      load_corpus(folder.file("text", "abcdefghijklmnopqrst"), {.validation_fraction = 0.5});
  EXPECT_EQ(passages(corpus, 4), 2);
  EXPECT_EQ(passages(corpus, 100), 1);
  const TextPart second = passage(corpus, 2, 4);
  EXPECT_EQ(corpus.vocabulary.decode(second.tokens), "opqr");
  EXPECT_TRUE(second.starts.empty() && second.distances.empty());
  EXPECT_EQ(passage(corpus, 1, 100).tokens, corpus.validation.tokens);
}

TEST(LoadedText, MayBeAPipe) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "pipe", bytes = std::string(200'000, 'a') + "b";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << bytes; });
  const Corpus read = load_corpus(path);
  writer.join();
  EXPECT_EQ(read.sha256, sha256_hex(bytes));
}

TEST(AdoptVocabulary, KeepsTheCharactersOfTokens) {
  Corpus corpus;
  corpus.vocabulary = Vocabulary(U"abc");
  corpus.train.tokens = {0, 2, 1, 0};
  adopt_vocabulary(corpus, Vocabulary(U"xcbya"));
  EXPECT_EQ(corpus.vocabulary.decode(corpus.train.tokens), "acba");
  EXPECT_THROW(adopt_vocabulary(corpus, Vocabulary(U"abc")), DataError);  // it lacks x and y
}

#ifdef HEADCOUNT_MEMORY_LIMIT
TEST(LoadedText, TakesTheMemoryOfItsTokensAndAFewBytesMoreACharacter) {
  const std::size_t size = std::size_t{64} << 20;
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < size) text += "All work and no play makes Jack a dull boy.\n";
  const std::string path = folder.file("text", text);
  text = std::string();
  EXPECT_EXIT(expect_enough_memory((sizeof(std::int32_t) + 3) * size, [&] { load_corpus(path); }),
              testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace headcount
