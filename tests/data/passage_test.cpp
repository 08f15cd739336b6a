#include <gtest/gtest.h>

#include <numeric>

#include "data/corpus.h"
#include "data/temporary_folder.h"

namespace headcount {
namespace {

TEST(Passage, IsAStoryOfABuiltInText) {
  const CorpusOptions options = {.seed = 3, .characters = 5000};
  for (const std::string name : {"tales", "lookup"}) {
    const Corpus corpus = load_corpus(name, options);
    const Index stories = passages(corpus, 100);
    ASSERT_EQ(stories, std::ssize(corpus.validation.starts));
    std::vector<std::int32_t> tokens, answers;
    double nats = 0;
    for (Index number = 1; number <= stories; ++number) {
      const Passage whole = passage(corpus, options, number, 1000);
      ASSERT_EQ(whole.nats.size(), whole.tokens.size());
      tokens.insert(tokens.end(), whole.tokens.begin(), whole.tokens.end());
      answers.insert(answers.end(), whole.distances.begin(), whole.distances.end());
      nats += std::accumulate(whole.nats.begin(), whole.nats.end(), 0.0);
    }
    EXPECT_EQ(tokens, corpus.validation.tokens);
    EXPECT_EQ(answers, corpus.validation.distances);
    if (name == "tales") {
      EXPECT_NEAR(nats / static_cast<double>(tokens.size()), *corpus.entropy_per_character, 1e-9);
    }
    const Passage cut = passage(corpus, options, 1, 10);
    EXPECT_EQ(cut.tokens,
              std::vector(corpus.validation.tokens.begin(), corpus.validation.tokens.begin() + 10));
    EXPECT_EQ(cut.nats.size(), 10u);
  }
}

TEST(Passage, IsAStretchOfAFile) {
  const TemporaryFolder folder;
  const Corpus corpus =
      load_corpus(folder.file("text", "abcdefghijklmnopqrst"), {.validation_fraction = 0.5});
  EXPECT_EQ(passages(corpus, 4), 2);
  EXPECT_EQ(passages(corpus, 100), 1);
  const Passage second = passage(corpus, {}, 2, 4);
  EXPECT_EQ(corpus.vocabulary.decode(second.tokens), "opqr");
  EXPECT_TRUE(second.nats.empty() && second.distances.empty());
  EXPECT_EQ(passage(corpus, {}, 1, 100).tokens, corpus.validation.tokens);
}

}  // namespace
}  // namespace headcount
