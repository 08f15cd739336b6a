// What progress says of a run: what it takes, before it starts and after its first steps, and its
// steps.
#include "train/cli/progress.h"

#include <algorithm>
#include <numeric>

#include "train/run_program.h"
#include "train/show/units.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

class RunProgressTest : public testing::Test {
 protected:
  RunProgressTest() {
    options_.steps = 1000;
    options_.eval_every = 250;
    learner_.optimizer = options_.optimizer.make(learner_.model->parameters());
    corpus_.name = "a.txt";
    corpus_.train.tokens = tiny_tokens(900);
    corpus_.validation.tokens = tiny_tokens(120);
  }
  // What is written of the steps after `before`, each with the seconds of all so far.
  std::string said(Index before, const std::vector<double>& seconds,
                   ProgressMode mode = ProgressMode::automatic) const {
    testing::internal::CaptureStderr();
    {
      RunProgress progress(mode, options_, learner_, corpus_, before);
      Index step = before;
      for (const double all : seconds)
        progress.update({.step = ++step, .loss = 1, .tokens = 20, .bytes = 3 << 19}, validation_,
                        all);
    }
    return testing::internal::GetCapturedStderr();
  }

  std::optional<double> validation_ = 1;
  TrainOptions options_ = tiny_options();
  Learner learner_ = {{std::make_unique<LanguageModel>(options_.model, kTinyVocabulary), {}},
                      nullptr};
  Corpus corpus_;
};

TEST_F(RunProgressTest, BeginsWithTheSizesOfModelAndText) {
  const Index parameters = learner_.model->parameters().element_count();
  const auto bytes = static_cast<double>(4 * sizeof(Real) * static_cast<std::size_t>(parameters));
  EXPECT_EQ(said(0, {}), "mha: " + std::to_string(parameters) + " parameters, " +
                             binary_text(bytes) +
                             " with gradients and moments; a.txt: 900 characters to train on, "
                             "120 to evaluate on\n");
}

TEST_F(RunProgressTest, ExpectsTheTimeOfStepsAfterTheFirstAndOfEvaluations) {
  // 997 steps of 0.4 s, evaluations of 120 characters: six steps' tokens, forward only. The first
  // step takes memory from the system.
  const std::string estimate =
      "\nabout 6m42s to go: 997 steps of 400.0 ms, 4 evaluations of 0.8 s\n"
      "measured memory: a step 1.5 MiB, the process ";
  expect_no_parts(said(0, {5, 5.4}), {"to go"});
  const std::string text = said(0, {5, 5.4, 5.8, 6.2});
  expect_parts(text, {estimate});
  EXPECT_EQ(text.find("to go"), text.rfind("to go")) << text;
}

TEST_F(RunProgressTest, CountsFromWhereARunWasResumed) {
  // 20 tokens in five seconds.
  expect_parts(said(700, {5, 6, 7}), {": 297 steps of 1000.0 ms, 2 evaluations of ", "  4 tokens/s",
                                      "step 701/1000  loss 1.0000  val 1.0000  ETA 24m55s"});
  options_.steps = 3;  // nothing is left to say of a run that is over
  expect_no_parts(said(0, {1, 1, 1}), {"to go"});
}

TEST_F(RunProgressTest, IsAFewPlainLinesOrOneThatIsWrittenAgain) {
  validation_ = {};
  std::vector<double> seconds(1000);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = static_cast<double>(i + 1);
  const std::string plain = said(0, seconds);
  const std::vector<std::string> lines = lines_of(plain);
  EXPECT_TRUE(lines.size() >= 10 && lines.size() <= 30) << plain;
  expect_no_parts(plain, {"\r", "\033"});
  EXPECT_TRUE(lines[1].starts_with("step 1/1000  loss 1.0000  ETA ")) << plain;
  expect_parts(lines[1], {" tokens/s", "lr ", "grad "});
  EXPECT_EQ(said(0, seconds, ProgressMode::never), "");
  const std::string again = said(0, {1}, ProgressMode::always);
  const std::string progress = again.substr(again.find('\n') + 1);
  EXPECT_TRUE(progress.starts_with("\r\033[Kstep 1/1000 ")) << again;
  EXPECT_TRUE(progress.ends_with("\n")) << again;
  EXPECT_EQ(std::ranges::count(progress, '\n'), 1) << again;
}

TEST(ComparisonProgress, HasNoEtaBeforeStepsAreTimed) {
  const std::vector<RunPlan> runs(2, RunPlan{"mha", tiny_options(), "", ""});
  const std::vector<RunStatus> statuses(runs.size());
  const std::vector<std::size_t> round = {0, 1};
  const auto said = [&](Index steps) {
    testing::internal::CaptureStderr();
    {
      ComparisonProgress progress(ProgressMode::always, "");
      progress.update(runs, statuses, round);
      for (Index step = 1; step <= steps; ++step) progress.step(0, {.step = step, .loss = 1});
      progress.finish(0, {});
    }
    return testing::internal::GetCapturedStderr();
  };
  expect_parts(said(2), {"(0 of 2 runs done)"});
  expect_parts(said(40), {"(0 of 2 runs done, ETA "});
}

TEST(ComparisonProgress, TellsOfAboutTwentyRunsARoundAndOfEachThatFailed) {
  const std::vector<RunPlan> runs(45, RunPlan{"mha", tiny_options(), "", ""});
  std::vector<RunStatus> statuses(runs.size());
  std::vector<std::size_t> round(runs.size());
  std::iota(round.begin(), round.end(), std::size_t{0});
  testing::internal::CaptureStderr();
  ComparisonProgress progress(ProgressMode::automatic, "");
  progress.update(runs, statuses, round);
  for (const std::size_t run : round) {
    statuses[run].ended = true;
    if (run != 3) statuses[run].result.emplace();
    progress.update(runs, statuses, round);
    progress.finish(run, statuses[run]);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(text).size(), 16u) << text;
  expect_parts(text, {"mha: failed:  (4 of 45 runs done)\n", "(6 of 45 ", "(45 of 45 "});
  expect_no_parts(text, {"(2 of 45 ", "(5 of 45 "});
}

TEST(Progress, IsThatWhichIsAskedFor) {
  const TrainFolder folder;
  for (const std::string flag : {"--quiet", "--progress never"})
    EXPECT_EQ(folder.trained(flag + " --out run --warmup 0 --force").err, "");
  expect_parts(folder.trained("--out run --progress always --force").err, {"\r\033[Kstep 1/3 "});
  expect_parts(folder.trained("--out run --force").err,
               {"the warm-up of 100 steps is longer than the run", "\nstep 1/3 "});
}

}  // namespace
}  // namespace headcount
