// How the trained models of a comparison read a passage of the validation text.
#include "train/compare/reading.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "train/loaded_run.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

ProgramResult compare(const TrainFolder& folder, const std::string& flags) {
  return folder.headcount(
      "compare " +
      over_defaults("--attention delta/gqa --layers 2 --dim 16 --heads 4 --context 64 "
                    "--seeds 1 --intervals off --steps 5 --batch 2 --threads 2 --out c",
                    flags));
}

fs::path first_run(const TrainFolder& folder) {
  for (const auto& entry : fs::directory_iterator(folder / "c/runs"))
    return entry.path() / "seed-1";
  throw std::runtime_error("no run");
}

// What the first run of a comparison is to read.
struct Text {
  fs::path run;
  Corpus corpus;
  Passage passage;
  ReadPassage shown;

  Text(const TrainFolder& folder, Index number) : run(first_run(folder)) {
    const TrainOptions options = read_run_options(run.string());
    corpus = load_corpus(options.data, options.corpus);
    passage = passage_to_read(corpus, options.corpus, number, options.model.context);
    shown = headcount::shown(passage, corpus, number);
  }
  Reading read() const { return read_passage(run, passage, shown, corpus); }
};

TEST(Reading, HasTheLossesOfAnEvaluation) {
  for (const std::string data : {"tales", "lookup"}) {
    const TrainFolder folder;
    ASSERT_EQ(compare(folder, "--data " + data).exit_code, 0);
    const Text text(folder, 3);
    const Passage& passage = text.passage;
    const Reading reading = text.read();
    ASSERT_EQ(reading.losses.size(), passage.tokens.size());
    EXPECT_FALSE(reading.losses[0]) << "there is nothing before it";
    double sum = 0;
    Index count = 0;
    for (std::size_t i = 1; i < reading.losses.size(); ++i) {
      EXPECT_EQ(reading.losses[i].has_value(), data == "tales" || passage.answers[i] > 0);
      sum += reading.losses[i].value_or(0);
      count += reading.losses[i].has_value();
    }
    const LoadedRun loaded = load_run(text.run.string());
    const Evaluation evaluation =
        evaluate(*loaded.model, passage.tokens,
                 {.marks = {.answers = passage.answers, .only_answers = text.corpus.only_answers}});
    EXPECT_EQ(count, evaluation.characters);
    EXPECT_NEAR(sum / static_cast<double>(count), evaluation.loss, 1e-5);
  }
}

TEST(Reading, LooksAtWhatStandsBeforeTheLastCharacterThatDecides) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--data lookup").exit_code, 0);
  const Text text(folder, 1);
  EXPECT_EQ(text.shown.question, 62u) << "the digit before the end of the line";
  const Reading reading = text.read();
  ASSERT_EQ(reading.looks.size(), 2u);
  EXPECT_TRUE(reading.looks[0].empty()) << "a state has no scores";
  ASSERT_EQ(reading.looks[1].size(), 4u);
  for (const HeadLook& look : reading.looks[1]) {
    ASSERT_EQ(look.weights.size(), 62u);
    EXPECT_NEAR(std::accumulate(look.weights.begin(), look.weights.end(), 0.0), 1, 1e-5);
    EXPECT_GT(look.entropy, 0);
  }
}

TEST(Reading, IsOfThePassageThatIsAskedForWithoutTrainingAgain) {
  const TrainFolder folder;
  const ProgramResult first = compare(folder, "--data lookup");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string before = folder.contents("c/report.html");
  EXPECT_NE(before.find("Passage 1 of the validation part"), std::string::npos);
  EXPECT_NE(before.find("layer 1 has no scores"), std::string::npos);
  EXPECT_TRUE(folder.has("c/answers_against_distance.svg"));
  const ProgramResult again = compare(folder, "--data lookup --sample 2");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("finished before"), std::string::npos) << again.err;
  const std::string after = folder.contents("c/report.html");
  EXPECT_NE(after.find("Passage 2 of the validation part"), std::string::npos);
  const auto distances = [](const std::string& page) {
    const std::size_t at = page.find("Right answers against distance");
    return page.substr(at, page.find("</svg>", at) - at);
  };
  EXPECT_EQ(distances(after), distances(before)) << "from what the runs have recorded";
}

TEST(Reading, IsLeftOutWhereTheWeightsAreGone) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--data text.txt --context 16").exit_code, 0);
  fs::remove_all(first_run(folder) / "checkpoints");
  const ProgramResult again = compare(folder, "--data text.txt --context 16");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("delta/gqa does not show how it reads: "), std::string::npos)
      << again.out;
  EXPECT_EQ(folder.contents("c/report.html").find("Where the loss arises"), std::string::npos);
}

TEST(Reading, RefusesAPassageThatThereIsNot) {
  const TrainFolder folder;
  expect_refusal(compare(folder, "--data text.txt --context 16 --sample 9"), 2,
                 {"--sample is 9, but the validation part of text.txt has 4 stretches of 17 "
                  "characters; give 1 to 4"},
                 "--sample 9");
  expect_refusal(compare(folder, "--data lookup --sample 100000"), 2,
                 {"the validation part of lookup has ", " stories; give 1 to "}, "lookup");
  EXPECT_FALSE(folder.has("c/runs"));
}

}  // namespace
}  // namespace headcount
