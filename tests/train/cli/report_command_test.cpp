// `headcount report` as its users meet it: the page, what is printed, and what it refuses.

#include "train/run_program.h"

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
};

TEST_F(ReportCommand, OfOneRunWritesThePage) {
  text("--from b --out one");  // an earlier report, which the next one replaces
  const std::string out = text("--from a --out one");
  EXPECT_TRUE(out.starts_with("run  attention  params  KV B/token  context")) << out;
  EXPECT_TRUE(out.ends_with("report one/report.html\n")) << out;
  const std::string title = "<h1>Training run: a</h1>";
  expect_parts(folder_->contents("one/report.html"), {title});
  EXPECT_TRUE(text("--out page.html a").ends_with("report page.html\n"));
  expect_parts(folder_->contents("page.html"), {title});
}

TEST_F(ReportCommand, PrintsTheCurveOfARun) {
  const json run = object("a").at("runs").at(0);
  ASSERT_EQ(run.at("curve").size(), 4u);
  EXPECT_EQ(run.at("curve"), json(folder_->metrics("a")));
  EXPECT_EQ(run.at("val_loss"), run.at("curve").at(3).at("val_loss"));
}

TEST_F(ReportCommand, PrintsRunsForPrograms) {
  const json runs = object("--from=a b").at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].at("run"), "b");
  EXPECT_EQ(runs[1].at("settings").at("lr"), 0.002);
  const std::vector<std::string> lines = lines_of(text("--from a b --format csv"));
  ASSERT_EQ(lines.size(), 1u + 4 + 4);
  EXPECT_EQ(lines[0], "run,step,loss,val_loss,val_accuracy,lr,grad_norm");
  EXPECT_TRUE(lines[1].starts_with("a,1,")) << lines[1];
  expect_parts(lines[1], {",,,"});  // evaluated after step 2 first
  EXPECT_TRUE(lines[8].starts_with("b,4,")) << lines[8];
  EXPECT_TRUE(text("a b --format markdown").starts_with("|  run  |  attention  |"));
}

TEST_F(ReportCommand, LeavesColumnsOutOfANarrowTable) {
  const std::string line = "COLUMNS=60 headcount report a --out page.html";
  expect_parts(folder_->shell(line).out, {"left out, see --wide: context; seed"});
  expect_no_parts(folder_->shell(line + " --wide").out, {"left out"});
  expect_parts(folder_->contents("page.html"), {"context  seed"});
}

TEST_F(ReportCommand, NamesTheFileAndLineThatIsDamaged) {
  folder_->copy("a", "damaged");
  const std::string line = R"({"step":1,"loss":3,"lr":1,"grad_norm":1})";
  for (const auto& [content, said] :
       {std::pair{line + "\n{\"step\":2}\n", "damaged/metrics.jsonl, line 2, is damaged"},
        {line, "damaged/metrics.jsonl has no whole line"},
        {"", "continue it by --resume damaged"}}) {
    folder_->file("damaged/metrics.jsonl", content);
    expect_refusal(kData, "damaged", {said});
  }
  folder_->settings("damaged", {{"steps", "none"}});
  expect_refusal(kData, "damaged", {"damaged/run.json: "});
  for (const char* content : {"{", "[]", "{}", "null", R"({"variants": []})", R"({"runs": []})"}) {
    folder_->file("damaged/other.json", content);
    expect_refusal(kData, "damaged/other.json", {"damaged/other.json: "});
  }
}

TEST_F(ReportCommand, ShowsARunThatIsGoingOnAndReadsNoWeights) {
  folder_->copy("a", "going_on");
  folder_->file("going_on/checkpoints/step-4/model.safetensors", "no weights");
  const json runs = object("--from going_on a").at("runs");
  EXPECT_GT(runs[0].at("params"), 0);
  EXPECT_EQ(runs[0].at("params"), runs[1].at("params"));
  const std::string metrics = folder_->contents("a/metrics.jsonl");
  folder_->file("going_on/metrics.jsonl", metrics.substr(0, metrics.size() - 10));
  std::filesystem::remove_all(*folder_ / "going_on/checkpoints");
  const json run = object("--from going_on --out half").at("runs").at(0);
  EXPECT_EQ(run.at("steps_done"), 3);
  EXPECT_EQ(run.at("params"), nullptr);
  expect_parts(folder_->contents("half/report.html"), {"\"steps_done\":3"});
}

TEST_F(ReportCommand, JudgesKeptResultsAgainAndShowsThemBesideRuns) {
  const std::string kept = HEADCOUNT_FIXTURE_FOLDER "/../bench/results/",
                    files = kept + "mqar_bytes.json " + kept + "shakespeare_looks.json";
  expect_parts(text(files + " a --out beside"),
               {"verdict: mqa is enough: 25 % of mha's KV cache, at",
                "\nverdict: enough too: gta2 and gqa2\n"});
  expect_parts(
      folder_->contents("beside/report.html"),
      {"<h2>Training run: a</h2>", "<h2>mqar: 13 attentions compared</h2>",
       "<strong>Verdict, against mha:</strong> <p><b>enough</b> mqa: 25&nbsp;% of mha's KV cache",
       "What was asked: a line is pairs of a key and its value",
       "<dt>verdict</dt>\n<dd>Enough: shown, seed by seed, to take",
       "<th scope=\"row\">mqa</th><td>262</td>"});
  expect_parts(text(kept + "mqar_bytes.json --format csv"), {"spec,", "\nmqa,"});
  expect_refusal(kUsage, kept + "mqar_bytes.json a --format csv",
                 {"--format csv prints one comparison, or runs"});
}

TEST_F(ReportCommand, NothingThatARunIsCalledEndsItsScript) {
  folder_->copy("a", "ends");
  json record = folder_->json("ends/run.json");
  record["starts"][0]["command"] = "</script><b>&<!--";
  folder_->file("ends/run.json", record.dump());
  text("ends --out ended");
  folder_->copy("ends", "esc\x1b[2J");
  expect_parts(text("esc\x1b[2J --out esc\x1b[2J"), {"report esc\\x1b[2J/report.html\n"});
  expect_no_parts(text("esc\x1b[2J ends --out ended"), {"\x1b"});
  const std::string page = folder_->contents("ended/report.html");
  expect_parts(page, {"\\u003c/script>\\u003cb>&\\u003c!--"});
  expect_no_parts(page, {"</script><b>"});
}

}  // namespace
}  // namespace headcount
