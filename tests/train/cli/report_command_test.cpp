// `headcount report` as its users meet it: the page and the files beside it, what is printed, and
// what it refuses.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

class ReportCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TrainFolder>();
    for (const char* flags : {"--out a --eval-every 2", "--out b --attention mqa --lr 0.002"}) {
      const ProgramResult result = folder_->train(std::string(flags) + " --steps 4 --quiet");
      ASSERT_EQ(result.exit_code, 0) << result.err;
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // A copy of the run in a, for tests that damage it.
  static void copy(const std::string& name) {
    std::filesystem::copy(*folder_ / "a", *folder_ / name,
                          std::filesystem::copy_options::recursive);
  }
  static void expect_refused(const std::string& flags, int code,
                             const std::vector<std::string>& parts) {
    expect_refusal(folder_->headcount("report" + flags), code, parts, flags);
  }

  static std::unique_ptr<TrainFolder> folder_;
};

std::unique_ptr<TrainFolder> ReportCommand::folder_;

TEST_F(ReportCommand, OfOneRunWritesThePageAndItsCurve) {
  const ProgramResult result = folder_->headcount("report --from a --out one");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("run  attention  params  KV B/token  context")) << result.out;
  EXPECT_TRUE(result.out.ends_with("report one/report.html\n")) << result.out;
  EXPECT_NE(folder_->contents("one/report.html").find("<h1>Training run: a</h1>"),
            std::string::npos);
  const json run = json::parse(folder_->contents("one/curves.json")).at("runs").at(0);
  ASSERT_EQ(run.at("curve").size(), 4u);
  std::istringstream metrics(folder_->contents("a/metrics.jsonl"));
  std::size_t step = 0;
  for (std::string line; std::getline(metrics, line); ++step) {
    const json was = json::parse(line), is = run.at("curve").at(step);
    EXPECT_EQ(is.at("step"), was.at("step"));
    EXPECT_EQ(is.at("train_loss"), was.at("loss"));
    EXPECT_EQ(is.contains("val_loss"), was.contains("val_loss"));
  }
  EXPECT_EQ(run.at("val_loss"), run.at("curve").at(3).at("val_loss"));
  EXPECT_GT(run.at("params"), 0);
}

TEST_F(ReportCommand, CsvHasALineForEachRunAndStep) {
  ASSERT_EQ(folder_->headcount("report --from a b --out two").exit_code, 0);
  std::istringstream csv(folder_->contents("two/curves.csv"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(csv, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1u + 4 + 4);
  EXPECT_EQ(lines[0], "run,step,train_loss,val_loss,val_accuracy,lr,grad_norm\r");
  EXPECT_TRUE(lines[1].starts_with("a,1,")) << lines[1];
  EXPECT_NE(lines[1].find(",,,"), std::string::npos) << lines[1];  // evaluated after step 2 first
  EXPECT_TRUE(lines[8].starts_with("b,4,")) << lines[8];
}

TEST_F(ReportCommand, JsonPrintsWhatTheFileHolds) {
  const ProgramResult result = folder_->headcount("report --from=a b --json --out as_json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, folder_->contents("as_json/curves.json"));
  const json runs = json::parse(result.out).at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].at("run"), "b");
  EXPECT_EQ(runs[1].at("settings").at("lr"), 0.002);
  const ProgramResult csv = folder_->headcount("report --from a b --format csv --out as_json");
  EXPECT_EQ(csv.out, folder_->contents("as_json/curves.csv"));
  const ProgramResult table = folder_->headcount("report a b --format markdown --out as_json");
  EXPECT_TRUE(table.out.starts_with("|  run  |  attention  |")) << table.out;
}

TEST_F(ReportCommand, TakesThePlaceOfAnEarlierReportOnly) {
  EXPECT_EQ(folder_->headcount("report --from a --out again").exit_code, 0);
  EXPECT_EQ(folder_->headcount("report --from b --out again").exit_code, 0);
  EXPECT_NE(folder_->contents("again/report.html").find("Training run: b"), std::string::npos);
  std::filesystem::create_directory(*folder_ / "other");
  folder_->file("other/report.html", "mine");
  expect_refused(" --from a --out other", kUsage,
                 {"--out other has a report.html that headcount report did not write"});
  EXPECT_EQ(folder_->contents("other/report.html"), "mine");
}

TEST_F(ReportCommand, RefusesWhatIsNoRun) {
  expect_refused("", kUsage, {"--from is missing"});
  expect_refused(" --from", kUsage, {"from"});
  expect_refused(" --from a a/", kUsage, {"--from names the run in a/ twice"});
  expect_refused(" --from nowhere", kData, {"'nowhere' is no run folder", "config.json"});
  expect_refused(" --from a nowhere", kData, {"'nowhere' is no run folder"});
  expect_refused(" --from a/checkpoints/step-4", kData, {"is no run folder", "metrics.jsonl"});
  expect_refused(" --from a --out text.txt", kUsage, {"--out text.txt is a file"});
}

TEST_F(ReportCommand, RefusesADamagedConfigurationAndNamesTheFile) {
  copy("broken");
  for (const char* text : {"{", "[]", "{\"steps\": \"none\"}"}) {
    folder_->file("broken/config.json", text);
    expect_refused(" --from broken", kData, {"broken/config.json: "});
  }
}

TEST_F(ReportCommand, RefusesDamagedMetricsAndNamesTheLine) {
  copy("damaged");
  folder_->file("damaged/metrics.jsonl", "{\"step\":1,\"loss\":3.5}\nnothing\n");
  expect_refused(" --from damaged", kData, {"damaged/metrics.jsonl, line 2, is damaged"});
  folder_->file("damaged/metrics.jsonl", "{\"step\":1,\"lo");
  expect_refused(" --from damaged", kData, {"damaged/metrics.jsonl has no whole line"});
  folder_->file("damaged/metrics.jsonl", "");
  expect_refused(" --from damaged", kData,
                 {"no step of the run is recorded yet; continue it by --resume damaged"});
}

TEST_F(ReportCommand, ReadsNoWeights) {
  copy("damaged_weights");
  for (const auto& each :
       std::filesystem::directory_iterator(*folder_ / "damaged_weights/checkpoints"))
    std::ofstream(each.path() / "model.safetensors") << "no weights";
  const ProgramResult result = folder_->headcount("report --from damaged_weights a --json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json runs = json::parse(result.out).at("runs");
  EXPECT_GT(runs[0].at("params"), 0);
  EXPECT_EQ(runs[0].at("params"), runs[1].at("params"));
}

TEST_F(ReportCommand, ShowsARunThatIsGoingOn) {
  copy("going_on");
  const std::string metrics = folder_->contents("a/metrics.jsonl");
  folder_->file("going_on/metrics.jsonl", metrics.substr(0, metrics.size() - 10));
  std::filesystem::remove_all(*folder_ / "going_on/checkpoints");
  const ProgramResult result = folder_->headcount("report --from going_on --json --out half");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(result.out).at("runs").at(0);
  EXPECT_EQ(run.at("steps_done"), 3);
  EXPECT_EQ(run.at("params"), nullptr);
  EXPECT_NE(folder_->contents("half/report.html").find("\"steps_done\":3"), std::string::npos);
}

TEST_F(ReportCommand, ShowsResultsOfEarlierVersionsBesideRuns) {
  const std::string kept = HEADCOUNT_FIXTURE_FOLDER "/../bench/results/";
  const std::string files = kept + "mqar_bytes.json " + kept + "shakespeare_looks.json";
  const ProgramResult result = folder_->headcount("report " + files + " a --out beside");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("verdict: mqa is enough: 262 B of KV cache per token"),
            std::string::npos);
  const std::string page = folder_->contents("beside/report.html");
  for (const char* shown : {"<h2>Training run: a</h2>", "<h2>13 attentions compared</h2>",
                            "<strong>Verdict:</strong> mqa is enough", "502 B of KV cache"})
    EXPECT_NE(page.find(shown), std::string::npos) << shown;
}

TEST_F(ReportCommand, RefusesResultsThatAreNone) {
  for (const char* text : {"{", "[]", "{}", "{\"variants\": []}", "{\"runs\": []}"}) {
    folder_->file("other.json", text);
    expect_refused(" other.json", kData, {"other.json: "});
  }
  expect_refused(" gone.json", kData, {"gone.json"});
}

TEST_F(ReportCommand, NothingThatARunIsCalledEndsItsScript) {
  copy("ends");
  std::string record = folder_->contents("ends/run.json");
  const std::string name = "headcount train";
  ASSERT_NE(record.find(name), std::string::npos) << record;
  record.replace(record.find(name), name.size(), "</script><b>&<!--");
  folder_->file("ends/run.json", record);
  ASSERT_EQ(folder_->headcount("report ends --out ended").exit_code, 0);
  const std::string page = folder_->contents("ended/report.html");
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>&\\u003c!--"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
}

}  // namespace
}  // namespace headcount
