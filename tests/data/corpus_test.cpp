#include "data/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "data/tales.h"
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

TEST_F(CorpusFromFile, VocabularyKnowsBothParts) {
  const Corpus corpus = load_corpus(folder_.file("both", "aaaaaaaaab"));
  EXPECT_EQ(corpus.vocabulary.symbols(), U"ab");
  EXPECT_EQ(corpus.validation.tokens, (std::vector<std::int32_t>{1}));
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

TEST_P(BuiltInCorpus, IsSplitWhereAStoryEnds) {
  const Corpus corpus = load_corpus(GetParam(), {.characters = 20'000});
  const std::string end = corpus.name == "tales" ? ".\n\n" : "\n";
  EXPECT_TRUE(train_text(corpus).ends_with(end));
  EXPECT_TRUE(validation_text(corpus).ends_with(end));
  const auto all = corpus.train.tokens.size() + corpus.validation.tokens.size();
  EXPECT_GE(all, 20'000u);
  EXPECT_LT(all, 20'400u);
  EXPECT_NEAR(static_cast<double>(corpus.train.tokens.size()), 0.9 * static_cast<double>(all), 200);
  EXPECT_EQ(corpus.sha256, sha256_hex(train_text(corpus) + validation_text(corpus)));
}

TEST_P(BuiltInCorpus, MarksAnswersInBothParts) {
  const Corpus corpus = load_corpus(GetParam(), {.characters = 20'000});
  EXPECT_EQ(corpus.train.distances.size(), corpus.train.tokens.size());
  EXPECT_EQ(corpus.validation.distances.size(), corpus.validation.tokens.size());
  const std::u32string before = corpus.name == "tales" ? U" " : U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";
  const std::u32string text = decode_utf8(validation_text(corpus), corpus.name);
  int answers = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (!corpus.validation.distances[i] || corpus.validation.distances[i - 1]) continue;
    ++answers;
    EXPECT_NE(before.find(text[i - 1]), std::u32string::npos);
  }
  EXPECT_GT(answers, 10);
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
  EXPECT_EQ(part.validation.distances.size(), part.validation.tokens.size());
  // The floor is that of these stories.
  const Corpus exactly = load_corpus(
      GetParam(), {.characters = 20'000,
                   .validation_characters = static_cast<Index>(part.validation.tokens.size())});
  EXPECT_EQ(exactly.validation.tokens, part.validation.tokens);
  EXPECT_EQ(exactly.entropy_per_character, part.entropy_per_character);
  EXPECT_EQ(part.entropy_per_character == all.entropy_per_character, part.only_answers);
}

TEST_P(BuiltInCorpus, DependsOnTheSeedAlone) {
  const Corpus one = load_corpus(GetParam(), {.seed = 1, .characters = 5'000});
  EXPECT_EQ(one.sha256, load_corpus(GetParam(), {.seed = 1, .characters = 5'000}).sha256);
  EXPECT_NE(one.sha256, load_corpus(GetParam(), {.seed = 2, .characters = 5'000}).sha256);
  const Corpus longer = load_corpus(GetParam(), {.seed = 1, .characters = 9'000});
  EXPECT_TRUE(train_text(longer).starts_with(train_text(one) + validation_text(one)));
}

TEST(WrittenCorpus, HasAPartOfEachEvenWithHugeStories) {
  const Corpus corpus =
      write_corpus(tales_of<TalesOptions{.events = 1000}>(), {.characters = 1000});
  EXPECT_FALSE(corpus.train.tokens.empty());
  EXPECT_FALSE(corpus.validation.tokens.empty());
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInCorpus, testing::Values("tales", "lookup"),
                         [](const auto& built_in) { return std::string(built_in.param); });

TEST(CorpusEntropy, IsWhatTheStoriesOfTheValidationTextCost) {
  const Corpus corpus = load_corpus("tales", {.seed = 5, .characters = 10'000});
  const std::string validation = validation_text(corpus);
  double nats = 0;
  std::size_t characters = 0;
  std::string text;
  for (std::uint32_t i = 0; text.size() < corpus.train.tokens.size() + validation.size(); ++i) {
    const Story story = tell_tale({}, random_chooser({5, random_stream("data/tales"), i}));
    text += story.text;
    if (text.size() <= corpus.train.tokens.size()) continue;
    nats += story.nats;
    characters += story.text.size();
  }
  EXPECT_EQ(text, train_text(corpus) + validation);
  EXPECT_EQ(characters, validation.size());
  EXPECT_NEAR(*corpus.entropy_per_character, nats / static_cast<double>(characters), 1e-12);
}

TEST(CorpusEntropy, IsZeroWhereTheLossCountsAnswersAlone) {
  const Corpus corpus = load_corpus("lookup", {.characters = 10'000});
  EXPECT_TRUE(corpus.only_answers);
  EXPECT_TRUE(corpus.marks(corpus.validation).only_answers);
  EXPECT_EQ(corpus.entropy_per_character, std::optional(0.0));
  EXPECT_FALSE(load_corpus("tales", {.characters = 10'000}).only_answers);
}

TEST(CorpusBaselines, AreTheSharesThatAreRightWithoutALookup) {
  const Baselines lookup = *load_corpus("lookup", {.characters = 100'000}).baselines;
  EXPECT_NEAR(lookup.guesser, 0.25, 1e-12);
  EXPECT_NEAR(lookup.copier, 0.3, 0.02);     // two questions may be about one piece
  EXPECT_NEAR(lookup.commonest, 0.5, 0.02);  // of five pieces with four values
  EXPECT_EQ(lookup.best(), lookup.commonest);
  // A guesser gets 1 or 2 in 12 first letters and 1 in 2 second letters right; a story has three
  // places.
  const Baselines tales = *load_corpus("tales", {.characters = 100'000}).baselines;
  EXPECT_GT(tales.guesser, 0.15);
  EXPECT_LT(tales.guesser, 0.25);
  EXPECT_GT(tales.commonest, 0.5);
  EXPECT_LT(tales.commonest, 0.8);
}

TEST(Corpus, KnowsWhichContextItsLongestStoryFits) {
  const Corpus corpus = load_corpus("tales", {.characters = 10'000});
  auto starts = corpus.train.starts;
  starts.push_back(std::ssize(corpus.train.tokens));
  Index longest = 0;
  for (std::size_t i = 1; i < starts.size(); ++i)
    longest = std::max(longest, starts[i] - starts[i - 1]);
  EXPECT_GE(corpus.longest_story, longest);
  EXPECT_TRUE(corpus.stories_fit(corpus.longest_story));
  EXPECT_FALSE(corpus.stories_fit(corpus.longest_story - 1));
  EXPECT_TRUE(load_corpus("lookup", {.characters = 10'000}).stories_fit(16));
}

TEST_P(BuiltInCorpus, KnowsWhereStoriesBegin) {
  const Corpus corpus = load_corpus(GetParam(), {.characters = 20'000});
  for (const auto& [tokens, starts] :
       {std::pair{&corpus.train.tokens, &corpus.train.starts},
        std::pair{&corpus.validation.tokens, &corpus.validation.starts}}) {
    ASSERT_GT(starts->size(), 5u);
    EXPECT_EQ(starts->front(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(*starts));
    const std::string end = corpus.name == "tales" ? ".\n\n" : "\n";
    for (std::size_t i = 1; i < starts->size(); ++i) {
      const auto length = static_cast<std::size_t>((*starts)[i] - (*starts)[i - 1]);
      const auto first = static_cast<std::size_t>((*starts)[i - 1]);
      const std::string story = corpus.vocabulary.decode(std::span(*tokens).subspan(first, length));
      EXPECT_TRUE(story.ends_with(end));
      EXPECT_EQ(story.find(end), story.size() - end.size());  // one story
    }
  }
}

TEST_P(BuiltInCorpus, KeepsWholeStoriesForTuning) {
  const Corpus whole = load_corpus(GetParam(), {.characters = 20'000});
  Corpus corpus = whole;
  keep_for_tuning(corpus, 2000);
  EXPECT_GE(corpus.tuning.tokens.size(), 2000u);
  EXPECT_LT(corpus.tuning.tokens.size(), 2400u);
  auto joined = corpus.tuning.tokens;
  joined.insert(joined.end(), corpus.train.tokens.begin(), corpus.train.tokens.end());
  EXPECT_EQ(joined, whole.train.tokens);
  auto answers = corpus.tuning.distances;
  answers.insert(answers.end(), corpus.train.distances.begin(), corpus.train.distances.end());
  EXPECT_EQ(answers, whole.train.distances);
  auto starts = corpus.tuning.starts;
  for (const Index start : corpus.train.starts)
    starts.push_back(start + std::ssize(corpus.tuning.tokens));
  EXPECT_EQ(starts, whole.train.starts);
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

}  // namespace
}  // namespace headcount
