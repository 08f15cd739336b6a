// label: unsanitized
// How the trained models of a comparison read a passage of the validation text.
#include "train/compare/reading.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autograd/base/text.h"
#include "train/run/loaded.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kLookup = "--data lookup --context 16 --out lookup",
                  kText = "--data text.txt --context 16 --out text";

// Small comparisons of lookups, of recall with hidden answers and of a text, each in the folder of
// its name: lookup, mqar, text.
class Readings : public RunsOfASuite<Readings> {
 public:
  static constexpr const char* kCommand =
      "compare --attention delta/gqa --layers 2 --dim 16 --heads 4 --seeds 1 --intervals off "
      "--steps 5 --batch 2 --threads 2 --eval-characters 1000";
  static void prepare() {
    for (const std::string& flags :
         {kLookup, kText,
          std::string("--data mqar --pairs 3 --line-length 16 --context 16 --out mqar")})
      text("--quiet " + flags);
  }

 protected:
  // What a comparison read, by its only attention.
  static json reading_of(const std::string& comparison) {
    return folder_->json(comparison + "/results.json")["variants"][0]["reading"];
  }
};

// Text that the only run of a comparison reads.
struct Text {
  fs::path run;
  Corpus corpus;
  TextPart passage;

  Text(const fs::path& comparison, Index number) : run(comparison / "runs/delta_gqa/seed-1") {
    const TrainOptions options = found_from_here(read_run_options(run.string()), run);
    corpus = load_corpus(options.data, options.corpus);
    passage = passage_to_read(corpus, number, options.model->context);
  }
  nlohmann::ordered_json read() const { return read_passage(run, passage, corpus); }
};

TEST_F(Readings, HaveTheLossesOfAnEvaluation) {
  for (const std::string comparison : {"lookup", "mqar", "text"}) {
    const Text text(*folder_ / comparison, 2);
    const auto losses = text.read()["losses"];
    ASSERT_EQ(losses.size(), text.passage.tokens.size());
    EXPECT_TRUE(losses[0].is_null()) << "there is nothing before it";
    double sum = 0;
    Index count = 0;
    for (std::size_t i = 1; i < losses.size(); ++i) {
      EXPECT_EQ(losses[i].is_number(), comparison == "text" || text.passage.distances[i] > 0);
      if (!losses[i].is_number()) continue;
      sum += losses[i].get<double>();
      ++count;
    }
    // An evaluation takes a window and the character after it: here that is no answer.
    std::vector<std::int32_t> tokens = text.passage.tokens, answers = text.passage.distances;
    if (comparison != "text") {
      tokens.push_back(0);
      answers.push_back(0);
    }
    const LoadedRun loaded = load_run(text.run.string());
    const Evaluation evaluation =
        evaluate(*loaded.model, tokens,
                 {.marks = {.distances = answers,
                            .only_answers = text.corpus.only_answers,
                            .hidden_answers = text.corpus.hidden_answers}});
    EXPECT_EQ(count, evaluation.characters);
    EXPECT_NEAR(sum / static_cast<double>(count), evaluation.loss, 1e-4);
  }
}

TEST_F(Readings, LookAtWhatStandsBeforeTheLastCharacterThatDecides) {
  const Text text(*folder_ / "lookup", 1);
  EXPECT_EQ(question_of(text.passage), 14u) << "the digit before the end of the line";
  const auto layers = text.read()["heads"];
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_TRUE(layers[0].empty()) << "a state has no scores";
  ASSERT_EQ(layers[1].size(), 4u);
  for (const auto& head : layers[1]) {
    const auto weights = head["weights"].get<std::vector<double>>();
    ASSERT_EQ(weights.size(), 14u);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-3);
    EXPECT_GT(head["entropy"], 0);
  }
}

TEST_F(Readings, AreOfThePassageThatIsAskedForWithoutTrainingAgain) {
  const json before = folder_->json("lookup/results.json"), &passage = before["passage"];
  EXPECT_EQ(passage["number"], 1);
  EXPECT_EQ(passage["characters"].size(), reading_of("lookup")["losses"].size());
  EXPECT_EQ(passage["question"], passage["answers"].back());
  const ProgramResult again = call(kLookup + " --sample 2");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  expect_parts(again.err, {"1 of 1 runs finished in an earlier call"});
  const json after = folder_->json("lookup/results.json");
  EXPECT_EQ(after["passage"]["number"], 2);
  EXPECT_EQ(after["variants"][0]["runs"], before["variants"][0]["runs"])
      << "from what the runs have recorded";
}

TEST_F(Readings, AreLeftOutWhereTheWeightsAreGone) {
  const fs::path weights = *folder_ / "text/runs/delta_gqa/seed-1/checkpoints",
                 aside = *folder_ / "aside";
  fs::rename(weights, aside);
  const ProgramResult again = call(kText);
  fs::rename(aside, weights);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  expect_parts(again.out, {"delta/gqa has no reading of the passage: "});
  EXPECT_TRUE(reading_of("text").is_null());
}

// Of two models, one that has learned a little lacks less than one that has learned nothing, and
// never the other way round in the same passage.
TEST_F(Readings, ShowWhatOneModelHasNotLearnedAndAnotherHas) {
  const fs::path& folder = folder_->path();
  folder_->done(
      "train --data recall --attention mqa --layers 2 --dim 32 --heads 4 --symbols 8 --pairs 1 "
      "--line-length 4 --context 16 --batch 8 --lr 0.01 --steps 150 --quiet --out learned");
  folder_->done(
      "train --data recall --attention mqa --layers 2 --dim 32 --heads 4 --symbols 8 --pairs 1 "
      "--line-length 4 --context 16 --batch 8 --lr 0.01 --steps 1 --quiet --out untrained");
  const TrainOptions options = read_run_options((folder / "untrained").string());
  const Corpus corpus = load_corpus(options.data, options.corpus);
  const Index context = options.model->context;
  const auto number = telling_passage(corpus, context, folder / "untrained", {folder / "learned"});
  ASSERT_TRUE(number.has_value());
  const TextPart passage = passage_to_read(corpus, *number, context);
  const auto loss = [&](const char* run) {
    return read_passage(folder / run, passage, corpus)["losses"][question_of(passage)]
        .get<double>();
  };
  EXPECT_GT(loss("untrained"), loss("learned") + 0.5);
  EXPECT_FALSE(
      telling_passage(corpus, context, folder / "untrained", {folder / "untrained"}).has_value());
  const auto said = read_passage(folder / "learned", passage, corpus)["said"];
  EXPECT_EQ(character_count(said.get<std::string>()), 1u);
  const Text text(*folder_ / "text", 1);  // which marks no answers
  EXPECT_FALSE(telling_passage(text.corpus, 16, text.run, {}).has_value());
}

TEST_F(Readings, AreOfAPassageThatAnAttentionHasNotLearned) {
  folder_->done(
      "compare --data recall --attention mqa,mha:canon=off@1 --layers 2 --dim 32 --heads 4 "
      "--symbols 8 --pairs 1 --line-length 4 --context 16 --batch 8 --lr 0.01 --steps 150 "
      "--eval-every 25 --seeds 5 --threads 1 --quiet --out shown");
  const json passage = folder_->json("shown/results.json")["passage"];
  EXPECT_EQ(passage["shown_for"], "mha:canon=off@1") << "which sees no token but its own";
}

TEST_F(Readings, RefuseAPassageThatThereIsNot) {
  expect_refusal(kUsage, "--data text.txt --context 16 --sample 9 --out new",
                 {"--sample is 9, but the validation part of text.txt has 4 stretches of 17 "
                  "characters; give 1 to 4"});
  EXPECT_FALSE(folder_->has("new"));
}

}  // namespace
}  // namespace headcount
