// Going on with a run that has lost something, or that lies elsewhere by now.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class DamagedRun : public testing::Test {
 protected:
  DamagedRun() {
    const ProgramResult result =
        folder_.train("--steps 20 --checkpoint-every 5 --keep 4 --out run --quiet");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    metrics_ = folder_.contents("run/metrics.jsonl");
  }
  // Removes later checkpoints, as if the run had been stopped after step 10.
  void go_back() const {
    for (const char* step : {"step-15", "step-20"})
      fs::remove_all(folder_ / "run/checkpoints" / step);
  }

  TrainFolder folder_;
  std::string metrics_;
};

TEST_F(DamagedRun, IsNotBegunAnewWhereItsCheckpointsCannotBeRead) {
  fs::rename(folder_ / "run/checkpoints", folder_ / "away");
  const std::string record = folder_.contents("run/run.json");
  const auto expect_untouched = [&](const char* what) {
    expect_refusal(folder_.headcount("train --resume run"), 3, {"run/checkpoints cannot be read: "},
                   what);
    EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_) << what;
    EXPECT_EQ(folder_.contents("run/run.json"), record) << what;
    fs::remove(folder_ / "run/checkpoints");
  };
  folder_.file("run/checkpoints", "a file");
  expect_untouched("a file");
  fs::create_symlink("checkpoints", folder_ / "run/checkpoints");
  expect_untouched("a link to itself");
  fs::create_symlink("/nowhere/checkpoints", folder_ / "run/checkpoints");
  expect_untouched("a link to a disk that is not there");
}

TEST_F(DamagedRun, GoesOnWithTheMetricsThatThereAre) {
  go_back();
  const std::size_t third = metrics_.find("{\"step\":3,");
  const std::size_t eleventh = metrics_.find("{\"step\":11,");
  ASSERT_NE(eleventh, std::string::npos);
  for (const std::string& left : {std::string(), metrics_.substr(0, third + 12)}) {
    const TrainFolder copy;
    fs::copy(folder_ / "run", copy / "run", fs::copy_options::recursive);
    copy.file("run/metrics.jsonl", left);
    if (left.empty()) fs::remove(copy / "run/metrics.jsonl");
    const ProgramResult result = copy.headcount("train --quiet --resume run");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(result.err.starts_with(
        left.empty() ? "headcount: run/metrics.jsonl ends at step 0 instead of 10; "
                     : "headcount: run/metrics.jsonl ends at step 2 instead of 10; "))
        << result.err;
    // Whole lines only, and those of the steps that were trained now.
    EXPECT_EQ(copy.contents("run/metrics.jsonl"),
              (left.empty() ? "" : metrics_.substr(0, third)) + metrics_.substr(eleventh));
    // Resumed once more, the run has lost nothing else.
    EXPECT_EQ(copy.headcount("train --quiet --resume run").err, "");
  }
}

TEST_F(DamagedRun, NamesTheOlderCheckpointThatLoads) {
  for (const char* step : {"step-20", "step-15"}) {
    const std::string file = "run/checkpoints/" + std::string(step) + "/optimizer.safetensors";
    std::string bytes = folder_.contents(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    folder_.file(file, bytes);
  }
  for (const char* line : {"train --resume run", "sample --from run"}) {
    expect_refusal(folder_.headcount(line), 3,
                   {"run/checkpoints/step-20/optimizer.safetensors is damaged",
                    "run/checkpoints/step-10 is whole: to continue from it, remove "
                    "run/checkpoints/step-20"},
                   line);
  }
  go_back();
  EXPECT_EQ(folder_.headcount("train --resume run --quiet").exit_code, 0);
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_);
}

// The error says neither that there are no weights nor what a library says.
TEST_F(DamagedRun, NamesTheOlderCheckpointWhereTheNewestCannotBeLookedAt) {
  const fs::path weights = folder_ / "run/checkpoints/step-20/model.safetensors";
  fs::remove(weights);
  fs::create_symlink(weights.filename(), weights);
  for (const char* line : {"train --resume run", "sample --from run"}) {
    expect_refusal(folder_.headcount(line), 3,
                   {"step-20/model.safetensors' cannot be read: Too many levels",
                    "run/checkpoints/step-15 is whole"},
                   line);
  }
  expect_refusal(folder_.headcount("sample --from run/checkpoints/step-20"), 3,
                 {"model.safetensors' cannot be read: Too many levels"}, "the checkpoint");
}

TEST_F(DamagedRun, FindsItsTextFromAnotherDirectory) {
  go_back();
  fs::create_directories(folder_ / "deep/er");
  const fs::path elsewhere = folder_ / "deep/er";
  const ProgramResult resumed =
      run_program(words("train --quiet --resume ../../run --data text.txt"), elsewhere);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_);
  EXPECT_EQ(run_program(words("eval --from ../../run"), elsewhere).exit_code, 0);

  // Moved with its text, it is found from where the text is, as before.
  fs::rename(folder_ / "run", elsewhere / "run");
  fs::rename(folder_ / "text.txt", elsewhere / "text.txt");
  EXPECT_EQ(run_program(words("train --quiet --resume run"), elsewhere).exit_code, 0);
  expect_refusal(folder_.headcount("train --quiet --resume deep/er/run"), 3,
                 {"the text of deep/er/run, 'text.txt', is not here and no longer in " +
                  fs::canonical(folder_.path()).string()},
                 "moved");
}

TEST_F(DamagedRun, FindsTheWeightsThatItStartsFromInAnotherDirectory) {
  ASSERT_EQ(folder_.train("--init run/checkpoints/step-10 --out second --quiet").exit_code, 0);
  const std::string metrics = folder_.contents("second/metrics.jsonl");
  fs::remove_all(folder_ / "second/checkpoints");
  fs::create_directory(folder_ / "deep");
  const ProgramResult resumed =
      run_program(words("train --quiet --resume ../second"), folder_ / "deep");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(folder_.contents("second/metrics.jsonl"), metrics);
}

}  // namespace
}  // namespace headcount
