// What a run is said to take, before it starts and after its first steps.
#include "train/cli/run_estimate.h"

#include <gtest/gtest.h>

#include "train/tiny_training.h"
#include "train/units.h"

namespace headcount {
namespace {

class RunEstimateTest : public testing::Test {
 protected:
  RunEstimateTest() {
    options_.steps = 1000;
    options_.eval_every = 250;
    learner_.model->initialize(options_.seed);
    learner_.optimizer = options_.optimizer.make(learner_.model->parameters());
    corpus_.train.tokens = tiny_tokens(900);
    corpus_.validation.tokens = tiny_tokens(120);
  }
  // The line after `step`, if there is one.
  std::string after(RunEstimate& estimate, Index step, double seconds) const {
    return estimate.measured({.step = step, .bytes = 3 << 19}, seconds).value_or("");
  }

  TrainOptions options_ = tiny_options();
  Learner learner_ = {
      std::make_unique<LanguageModel>(options_.model, kTinyVocabulary), nullptr, {}};
  Corpus corpus_;
};

TEST_F(RunEstimateTest, BeginsWithTheSizesOfModelAndText) {
  corpus_.name = "a.txt";
  const RunEstimate estimate(options_, learner_, corpus_, 0);
  const Index parameters = learner_.model->parameters().element_count();
  const auto bytes = static_cast<double>(4 * sizeof(Real) * static_cast<std::size_t>(parameters));
  EXPECT_EQ(estimate.sizes(), "mha: " + std::to_string(parameters) + " parameters, " +
                                  binary_text(bytes) +
                                  " with gradients and moments; a.txt: 900 characters to train on, "
                                  "120 to evaluate on");
}

TEST_F(RunEstimateTest, ExpectsTheTimeOfStepsAfterTheFirstAndOfEvaluations) {
  RunEstimate estimate(options_, learner_, corpus_, 0);
  EXPECT_EQ(after(estimate, 1, 5), "");  // takes memory from the system
  EXPECT_EQ(after(estimate, 2, 5.4), "");
  // 997 steps of 0.4 s, evaluations of 120 characters: six steps' tokens, forward only.
  const std::string line = after(estimate, 3, 5.8);
  EXPECT_TRUE(
      line.starts_with("about 6m42s to go: 997 steps of 400.0 ms, 4 evaluations of 0.8 s\n"
                       "measured memory: a step 1.5 MiB, the process "))
      << line;
  EXPECT_EQ(after(estimate, 4, 6.2), "");
}

TEST_F(RunEstimateTest, CountsFromWhereARunWasResumed) {
  RunEstimate estimate(options_, learner_, corpus_, 700);
  EXPECT_EQ(after(estimate, 701, 5), "");
  EXPECT_EQ(after(estimate, 702, 6), "");
  const std::string line = after(estimate, 703, 7);
  EXPECT_NE(line.find(": 297 steps of 1000.0 ms, 2 evaluations of "), std::string::npos) << line;
}

TEST_F(RunEstimateTest, HasNothingToSayOfARunThatIsOver) {
  options_.steps = 3;
  RunEstimate estimate(options_, learner_, corpus_, 0);
  for (Index step = 1; step <= 3; ++step) EXPECT_EQ(after(estimate, step, 1), "");
}

}  // namespace
}  // namespace headcount
