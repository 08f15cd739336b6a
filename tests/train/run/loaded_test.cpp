// Runs and weights that are read again: by a run that is resumed, also where it has lost something
// or lies elsewhere by now, and by one that starts from the weights of another.
#include "train/run/loaded.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class DamagedRun : public testing::Test {
 protected:
  DamagedRun() {
    folder_.trained("--steps 20 --checkpoint-every 5 --keep 4 --out run --quiet");
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
  const fs::path checkpoints = folder_ / "run/checkpoints";
  fs::rename(checkpoints, folder_ / "away");
  const std::string record = folder_.contents("run/run.json");
  // A link to itself, and one to a disk that is not there.
  for (const char* target : {"checkpoints", "/nowhere/checkpoints"}) {
    fs::create_symlink(target, checkpoints);
    folder_.expect_refusal("train --resume run", kData, {"run/checkpoints cannot be read: "});
    EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_) << target;
    EXPECT_EQ(folder_.contents("run/run.json"), record) << target;
    fs::remove(checkpoints);
  }
}

TEST_F(DamagedRun, GoesOnWithTheMetricsThatThereAre) {
  go_back();
  const std::size_t third = metrics_.find("{\"step\":3,"),
                    eleventh = metrics_.find("{\"step\":11,");
  ASSERT_NE(eleventh, std::string::npos);
  folder_.copy("run", "unread");
  for (const auto& [last, whole, cut] :
       {std::tuple<const char*, std::size_t, std::size_t>{"0", 0, 0}, {"2", third, third + 12}}) {
    fs::remove_all(folder_ / "run");
    folder_.copy("unread", "run");
    folder_.file("run/metrics.jsonl", metrics_.substr(0, cut));
    if (cut == 0) fs::remove(folder_ / "run/metrics.jsonl");
    const std::string err = folder_.done("train --quiet --resume run").err;
    EXPECT_TRUE(err.starts_with("headcount: run/metrics.jsonl ends at step " + std::string(last) +
                                " instead of 10; "))
        << err;
    // Whole lines only, and those of the steps that were trained now.
    EXPECT_EQ(folder_.contents("run/metrics.jsonl"),
              metrics_.substr(0, whole) + metrics_.substr(eleventh));
    // Resumed once more, the run has lost nothing else.
    EXPECT_EQ(folder_.done("train --quiet --resume run").err, "");
  }
}

TEST_F(DamagedRun, NamesTheOlderCheckpointThatLoads) {
  for (const std::string step : {"step-20", "step-15"}) {
    const std::string file = "run/checkpoints/" + step + "/optimizer.safetensors";
    std::string bytes = folder_.contents(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    folder_.file(file, bytes);
  }
  for (const char* line : {"train --resume run", "sample --from run"})
    folder_.expect_refusal(line, kData,
                           {"run/checkpoints/step-20/optimizer.safetensors is damaged",
                            "run/checkpoints/step-10 is whole: to continue from it, remove "
                            "run/checkpoints/step-20"});
  go_back();
  folder_.done("train --resume run --quiet");
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_);
}

TEST_F(DamagedRun, FindsWhatItNeedsFromAnotherDirectory) {
  go_back();
  folder_.trained("--init run/checkpoints/step-10 --out second --quiet");
  const std::string second = folder_.contents("second/metrics.jsonl");
  fs::remove_all(folder_ / "second/checkpoints");
  const fs::path elsewhere = folder_ / "deep/er";
  fs::create_directories(elsewhere);
  const auto done = [&](const std::string& line) {
    EXPECT_EQ(run_program(words(line), elsewhere).exit_code, 0) << line;
  };
  done("train --quiet --resume ../../second");  // with the weights that it starts from
  EXPECT_EQ(folder_.contents("second/metrics.jsonl"), second);
  done("train --quiet --resume ../../run --data text.txt");
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_);
  done("eval --from ../../run");
  // Moved with its text, it is found from where the text is, as before.
  fs::rename(folder_ / "run", elsewhere / "run");
  fs::rename(folder_ / "text.txt", elsewhere / "text.txt");
  done("train --quiet --resume run");
  folder_.expect_refusal("train --quiet --resume deep/er/run", kData,
                         {"the text of deep/er/run, 'text.txt', is not here and no longer in " +
                          fs::canonical(folder_.path()).string()});
  folder_.file("deep/er/run/run.json", "[");
  folder_.expect_refusal("eval --from deep/er/run", kData, {"deep/er/run/run.json"});
}

TEST_F(DamagedRun, IsNotTheRunOfAnotherTextModelOrLength) {
  const std::string text = folder_.contents("text.txt");
  folder_.file("text.txt", text + "0 is 1.\n");
  folder_.expect_refusal("train --resume run", kData,
                         {"text.txt is not the text of the run in run"});
  folder_.file("text.txt", text);
  const nlohmann::json config = folder_.settings("run");
  for (const auto& [setting, value, code, said] :
       {std::tuple{"steps", 5, kData, "run has a checkpoint of step 20, but its --steps are 5"},
        {"rope-theta", 5000, kUsage, "--rope-theta is 5000.0 here and 10000.0 there"}}) {
    nlohmann::json other = config;
    other[setting] = value;
    folder_.settings("run", other);
    folder_.expect_refusal("train --resume run", code, {said});
  }
  folder_.settings("run", config);
  EXPECT_EQ(folder_.contents("run/metrics.jsonl"), metrics_);
  // Flags that repeat the settings of the run are taken.
  folder_.done("train --quiet --resume run --seed 1 --dim 16");
}

// Runs that start from the weights of another, at a learning rate of 0.
class InitialWeights : public testing::Test {
 protected:
  static std::string init(const std::string& flags, const std::string& run = "first") {
    return "train --data text.txt --steps 1 --lr 0 --min-lr 0 --init " + run + " " + flags;
  }
  TrainFolder folder_;
};

TEST_F(InitialWeights, BringTheSettingsOfTheirModel) {
  const std::string first = "first/checkpoints/step-1";
  folder_.trained(
      "--layers 2 --dim 24 --attention mla6+4/share --dropout 0.1 --steps 1 --quiet --out first");
  folder_.done("train --data text.txt --steps 1 --quiet --out second --init " + first);
  nlohmann::json settings = folder_.settings("first");
  const nlohmann::json second = folder_.settings("second");
  settings.update({{"init", first}, {"dropout", 0.0}, {"batch", second["batch"]}});
  EXPECT_EQ(second, settings) << "dropout is of a training, not of a model";
  folder_.file("other.txt", std::string(400, 'x') + std::string(400, 'y'));
  for (const auto& [line, code, said] :
       {std::tuple{
            init("--attention gqa --heads 3 --dim 48 --out third", first), kUsage,
            "--attention is \"gqa\" here and \"mla6+4/share\" there, --dim is 48 here and 24 "
            "there, --heads is 3 here and 2 there"},
        {"train --data other.txt --out third --init " + first, kData, "lacks 'x'"}})
    folder_.expect_refusal(line, code, {said});
  EXPECT_FALSE(folder_.has("third"));
}

TEST_F(InitialWeights, GoOnInAnotherContextWindowAndBaseOfFrequencies) {
  folder_.trained("--attention mla --quiet --out first");
  const std::string before = folder_.weights("first"), flags = "--force --out second";
  const ProgramResult second =
      folder_.done(init("--context 24 --attention mla@5 --rope-theta 500 " + flags));
  EXPECT_EQ(folder_.weights("second", 1), before);
  expect_parts(second.err, {"headcount: the weights of first go on with --window 5 instead of 0, "
                            "--rope-theta 500 instead of 10000, --context 24 instead of 16\n"});
  folder_.expect_refusal("train --resume second --context 16", kUsage, {"--context is 16"});
  EXPECT_EQ(folder_.done(init(flags)).err.find("go on with"), std::string::npos);
  // No run that starts from them replaces them.
  for (const std::string run : {"first", "first/checkpoints/step-3"})
    folder_.expect_refusal(init("--out ./first --force", run), kUsage, {"lies in --out ./first"});
  EXPECT_EQ(folder_.weights("first"), before);
}

TEST_F(InitialWeights, GoOnOnTheFirstLearnedPositionsAndOnNoMore) {
  folder_.trained("--positions learned --quiet --out first");
  expect_parts(folder_.done(init("--context 8 --out second")).err,
               {"later learned positions are left out"});
  ASSERT_LT(folder_.weights("second", 1).size(), folder_.weights("first").size());
  folder_.expect_refusal(
      init("--context 17 --out third"), kUsage,
      {"--context 17 is more than the 16 learned positions of first/checkpoints/step-3"});
  EXPECT_FALSE(folder_.has("third"));
}

}  // namespace
}  // namespace headcount
