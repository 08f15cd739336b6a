// `headcount report` as its users meet it: the page and the files beside it, what is printed, and
// what it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "train/runs_of_a_suite.h"

namespace headcount {
namespace {

using nlohmann::json;

class ReportCommand : public RunsOfASuite<ReportCommand> {
 public:
  static constexpr const char* kCommand = "report";
  static void prepare() {
    train("a", "--steps 4 --eval-every 2");
    train("b", "--steps 4 --attention mqa --lr 0.002");
  }

 protected:
  // A copy of the run in a, for tests that damage it.
  static void copy(const std::string& name) {
    std::filesystem::copy(*folder_ / "a", *folder_ / name,
                          std::filesystem::copy_options::recursive);
  }
};

TEST_F(ReportCommand, OfOneRunWritesThePageAndItsCurve) {
  const ProgramResult result = call("--from a --out one");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("run  attention  params  KV B/token  context")) << result.out;
  EXPECT_TRUE(result.out.ends_with("report one/report.html\n")) << result.out;
  EXPECT_NE(folder_->contents("one/report.html").find("<h1>Training run: a</h1>"),
            std::string::npos);
  const json run = json::parse(folder_->contents("one/curves.json")).at("runs").at(0);
  ASSERT_EQ(run.at("curve").size(), 4u);
  for (const json& was : folder_->metrics("a")) {
    const json is = run.at("curve").at(was.at("step").get<std::size_t>() - 1);
    EXPECT_EQ(is.at("step"), was.at("step"));
    EXPECT_EQ(is.at("train_loss"), was.at("loss"));
    EXPECT_EQ(is.contains("val_loss"), was.contains("val_loss"));
  }
  EXPECT_EQ(run.at("val_loss"), run.at("curve").at(3).at("val_loss"));
  EXPECT_GT(run.at("params"), 0);
}

TEST_F(ReportCommand, CsvHasALineForEachRunAndStep) {
  ASSERT_EQ(call("--from a b --out two").exit_code, 0);
  const std::vector<std::string> lines = lines_of(folder_->contents("two/curves.csv"));
  ASSERT_EQ(lines.size(), 1u + 4 + 4);
  EXPECT_EQ(lines[0], "run,step,train_loss,val_loss,val_accuracy,lr,grad_norm\r");
  EXPECT_TRUE(lines[1].starts_with("a,1,")) << lines[1];
  EXPECT_NE(lines[1].find(",,,"), std::string::npos) << lines[1];  // evaluated after step 2 first
  EXPECT_TRUE(lines[8].starts_with("b,4,")) << lines[8];
}

TEST_F(ReportCommand, JsonPrintsWhatTheFileHolds) {
  const ProgramResult result = call("--from=a b --format json --out as_json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, folder_->contents("as_json/curves.json"));
  const json runs = json::parse(result.out).at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].at("run"), "b");
  EXPECT_EQ(runs[1].at("settings").at("lr"), 0.002);
  const ProgramResult csv = call("--from a b --format csv --out as_json");
  EXPECT_EQ(csv.out, folder_->contents("as_json/curves.csv"));
  const ProgramResult table = call("a b --format markdown --out as_json");
  EXPECT_TRUE(table.out.starts_with("|  run  |  attention  |")) << table.out;
}

TEST_F(ReportCommand, TakesThePlaceOfAnEarlierReportOnly) {
  EXPECT_EQ(call("--from a --out again").exit_code, 0);
  EXPECT_EQ(call("--from b --out again").exit_code, 0);
  EXPECT_NE(folder_->contents("again/report.html").find("Training run: b"), std::string::npos);
  std::filesystem::create_directory(*folder_ / "other");
  folder_->file("other/report.html", "mine");
  expect_refusal(kUsage, "--from a --out other",
                 {"--out other has a report.html that headcount report did not write"});
  EXPECT_EQ(folder_->contents("other/report.html"), "mine");
}

TEST_F(ReportCommand, WritesThePageAloneToAFile) {
  for (const char* words : {"--from a --out page.html", "--out page.html a"}) {
    const ProgramResult result = folder_->headcount("report " + std::string(words));
    EXPECT_TRUE(result.out.ends_with("report page.html\n")) << result.out << result.err;
    EXPECT_NE(folder_->contents("page.html").find("Training run: a"), std::string::npos);
    std::filesystem::remove(*folder_ / "page.html");
  }
}

TEST_F(ReportCommand, LeavesColumnsOutOfANarrowTable) {
  const std::string line = "COLUMNS=60 \"$headcount\" report a --out page.html";
  const std::string narrow = folder_->shell(line).out;
  EXPECT_NE(narrow.find("left out, see --wide: context; seed"), std::string::npos) << narrow;
  const std::string wide = folder_->shell(line + " --wide").out;
  EXPECT_EQ(wide.find("left out"), std::string::npos) << wide;
  EXPECT_NE(folder_->contents("page.html").find("context  seed"), std::string::npos);
}

TEST_F(ReportCommand, RefusesWhatIsNoRun) {
  expect_refusal(kUsage, "", {"--from is missing"});
  expect_refusal(kUsage, "--from", {"from"});
  expect_refusal(kUsage, "--from a a/", {"--from names the run in a/ twice"});
  expect_refusal(kData, "--from nowhere", {"'nowhere' is no run folder", "config.json"});
  expect_refusal(kData, "--from a nowhere", {"'nowhere' is no run folder"});
  expect_refusal(kData, "--from a/checkpoints/step-4", {"is no run folder", "metrics.jsonl"});
  expect_refusal(kUsage, "--from a --out text.txt", {"--out text.txt is a file"});
}

TEST_F(ReportCommand, RefusesADamagedConfigurationAndNamesTheFile) {
  copy("broken");
  for (const char* text : {"{", "[]", "{\"steps\": \"none\"}"}) {
    folder_->file("broken/config.json", text);
    expect_refusal(kData, "--from broken", {"broken/config.json: "});
  }
}

TEST_F(ReportCommand, RefusesDamagedMetricsAndNamesTheLine) {
  copy("damaged");
  folder_->file("damaged/metrics.jsonl", "{\"step\":1,\"loss\":3.5}\nnothing\n");
  expect_refusal(kData, "--from damaged", {"damaged/metrics.jsonl, line 2, is damaged"});
  folder_->file("damaged/metrics.jsonl", "{\"step\":1,\"lo");
  expect_refusal(kData, "--from damaged", {"damaged/metrics.jsonl has no whole line"});
  folder_->file("damaged/metrics.jsonl", "");
  expect_refusal(kData, "--from damaged",
                 {"no step of the run is recorded yet; continue it by --resume damaged"});
}

TEST_F(ReportCommand, ReadsNoWeights) {
  copy("damaged_weights");
  for (const auto& each :
       std::filesystem::directory_iterator(*folder_ / "damaged_weights/checkpoints"))
    std::ofstream(each.path() / "model.safetensors") << "no weights";
  const ProgramResult result = call("--from damaged_weights a --format json");
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
  const ProgramResult result = call("--from going_on --format json --out half");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(result.out).at("runs").at(0);
  EXPECT_EQ(run.at("steps_done"), 3);
  EXPECT_EQ(run.at("params"), nullptr);
  EXPECT_NE(folder_->contents("half/report.html").find("\"steps_done\":3"), std::string::npos);
}

TEST_F(ReportCommand, ShowsResultsOfEarlierVersionsBesideRuns) {
  const std::string kept = HEADCOUNT_FIXTURE_FOLDER "/../bench/results/";
  const std::string files = kept + "mqar_bytes.json " + kept + "shakespeare_looks.json";
  const ProgramResult result = call("" + files + " a --out beside");
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
    expect_refusal(kData, "other.json", {"other.json: "});
  }
  expect_refusal(kData, "gone.json", {"gone.json"});
}

TEST_F(ReportCommand, NothingThatARunIsCalledEndsItsScript) {
  copy("ends");
  std::string record = folder_->contents("ends/run.json");
  const std::string name = "headcount train";
  ASSERT_NE(record.find(name), std::string::npos) << record;
  record.replace(record.find(name), name.size(), "</script><b>&<!--");
  folder_->file("ends/run.json", record);
  ASSERT_EQ(call("ends --out ended").exit_code, 0);
  const std::string page = folder_->contents("ended/report.html");
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>&\\u003c!--"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
}

}  // namespace
}  // namespace headcount
