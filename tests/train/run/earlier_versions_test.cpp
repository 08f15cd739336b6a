// What earlier versions left: fixtures/earlier has a checkpoint whose layers are of all kinds and a
// run, both on TrainFolder's text and made in November 2026. Losses are those of that version.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

constexpr double kLossTolerance = 1e-3;  // other processors round otherwise

class EarlierVersion : public testing::Test {
 protected:
  EarlierVersion() {
    fs::copy(HEADCOUNT_FIXTURE_FOLDER "/earlier", folder_.path(), fs::copy_options::recursive);
  }
  double number(const std::string& line, const char* key) const {
    return folder_.object(line + " --threads 1").at(key);
  }

  TrainFolder folder_;
};

TEST_F(EarlierVersion, LeftACheckpointOfEveryKindThatIsRead) {
  EXPECT_NEAR(number("eval --from kinds --data text.txt", "loss"), 2.813616, kLossTolerance);
}

TEST_F(EarlierVersion, LeftARunThatGoesOn) {
  EXPECT_NEAR(number("eval --from run", "loss"), 2.760567, kLossTolerance);
  EXPECT_NEAR(number("train --quiet --resume run --steps 12", "val_loss"), 2.645686,
              kLossTolerance);
}

TEST_F(EarlierVersion, LeftNoRunThatAComparisonTakesForItsOwn) {
  fs::create_directories(folder_ / "c/runs/mha");
  fs::rename(folder_ / "run", folder_ / "c/runs/mha/seed-1");
  folder_.file("c/runs/mha/seed-1/result.json", "{}");
  const std::string line = TrainFolder::compare_line("--out c");
  folder_.expect_refusal(line, kUsage,
                         {"c/runs/mha/seed-1 holds a run of headcount 0.1.0, ",
                          "whose results this version does not read; name another folder"});
  folder_.done(line + " --force");
  EXPECT_FALSE(folder_.has("c/runs/mha/seed-1/result.json"));
}

TEST_F(EarlierVersion, BeganThePresetsWithTheseLosses) {
  std::string squares;
  for (int i = 0; i < 400; ++i) squares += std::to_string(i * i) + " is a square.\n";
  folder_.file("squares.txt", squares);
  for (const auto& [preset, loss] : {std::pair{"shakespeare", 1.442717}, {"nanogpt-cpu", 2.023039}})
    EXPECT_NEAR(number("train --data squares.txt --steps 3 --eval-every 0 --batch 2 --warmup 1 "
                       "--quiet --out of-" +
                           std::string(preset) + " --preset " + preset,
                       "val_loss"),
                loss, kLossTolerance)
        << preset;
}

}  // namespace
}  // namespace headcount
