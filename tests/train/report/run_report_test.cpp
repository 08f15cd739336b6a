// The page that `headcount report` leaves: curves, numbers and settings of given runs.
#include "train/report/run_report.h"

#include "train/report/report_samples.h"

namespace headcount {
namespace {

// Steps 1 to 60, the validation loss after every 20.
RunCurves run_named(const std::string& name, double loss = 1) {
  RunCurves run{
      .name = name,
      .folder = "runs/" + name,
      .options = resolve_training(Given(training_settings(), {{"data", "lookup"}, {"steps", 60}})),
      .record = {},
      .parameters = {},
      .rows = {}};
  run.record = {.data_sha256 = std::string(64, 'a'), .seed = 1, .starts = {}};
  run.record.starts.push_back({0, "headcount train --out runs/" + name, "a version", "a machine"});
  run.parameters = 27808;
  for (int step = 1; step <= 60; ++step) {
    CurveRow row = {{"step", step}, {"train_loss", loss * (1 + 1.0 / step)}, {"lr", 0.001}};
    if (step % 20 == 0) row["val_loss"] = loss * (1.1 + 1.0 / step);
    run.rows.push_back(row);
  }
  return run;
}

std::string sound_page(const std::vector<RunCurves>& runs) {
  const TemporaryFolder folder;
  const std::string page = run_report(runs);
  std::ofstream(folder.path() / "report.html", std::ios::binary) << page;
  EXPECT_EQ(xml_faults(folder.path()), "");
  for (const char* text : {"<script", "<link", "<img", "url(", " src=", " href=", ">nan", ">inf"})
    EXPECT_FALSE(has(page, text)) << text;
  return plain(page);
}

TEST(RunReport, DrawsTrainingAndValidationOfEveryRunInOneChart) {
  const std::string svg = plain(losses_svg({run_named("mha"), run_named("mla", 1.2)}));
  EXPECT_EQ(count(svg, "class=\"hc-faint hc-line"), 2u);
  // Each colour twice, for both losses of a run.
  EXPECT_EQ(count(svg, "class=\"hc-faint hc-line hc-0\""), 1u);
  EXPECT_TRUE(has(svg, "<title>mha, step 20: validation loss 1.1500</title>")) << svg;
  EXPECT_TRUE(has(svg, "<title>mla, step 60: validation loss 1.3400</title>"));
  EXPECT_EQ(count(svg, ">mha</text>"), 1u);
}

TEST(RunReport, WithoutAnEvaluationTheTrainingLossIsNamed) {
  RunCurves run = run_named("mha");
  for (CurveRow& row : run.rows) row.erase("val_loss");
  const std::string svg = losses_svg({run});
  EXPECT_EQ(count(svg, "class=\"hc-faint hc-line"), 0u);
  EXPECT_EQ(count(svg, ">mha</text>"), 1u);
  EXPECT_TRUE(has(sound_page({run}), "No validation loss was measured yet."));
}

TEST(RunReport, SaysWhichThickLinesAreTrainingLosses) {
  RunCurves begun = run_named("mqa");
  for (CurveRow& row : begun.rows) row.erase("val_loss");
  const std::string caption = "Without an evaluation, the training loss is the thick line: mqa.";
  EXPECT_TRUE(has(sound_page({run_named("mha"), begun}), caption));
  EXPECT_FALSE(has(sound_page({run_named("mha")}), "Without an evaluation"));
}

TEST(RunReport, ChartHasAShortRunBesideALongOne) {
  RunCurves begun = run_named("mqa");
  begun.rows.resize(2);
  const std::string svg = losses_svg({run_named("mha"), begun});
  EXPECT_EQ(count(svg, ">mqa</text>"), 1u) << svg;
}

TEST(RunReport, SettingsThatDifferStandBesideEachOther) {
  RunCurves other = run_named("mla");
  other.options.learning_rate = 0.1 * 0.003;  // 0.00030000000000000003
  const std::string page = sound_page({run_named("mha"), other});
  const std::size_t differ = page.find("<h2>Settings that differ</h2>");
  const std::size_t alike = page.find("Settings that all runs share");
  ASSERT_LT(differ, alike);
  EXPECT_TRUE(has(page.substr(differ, alike - differ),
                  "<th scope=\"row\">lr</th><td class=\"words\">0.001</td>"
                  "<td class=\"words\">0.0003</td>"))
      << page.substr(differ, alike - differ);
  EXPECT_FALSE(has(page.substr(differ, alike - differ), ">steps<"));
  EXPECT_TRUE(has(page.substr(alike), ">steps</th><td class=\"words\">60<"));
}

TEST(RunReport, TableHoldsTheNewestNumbers) {
  RunCurves run = run_named("mha");
  run.rows.back()["val_answer_accuracy"] = 0.814;
  const std::string page = sound_page({run, run_named("mla")});
  EXPECT_TRUE(has(page, "<td>27,808</td>"));
  EXPECT_TRUE(has(page, "<td>1.0167</td><td>1.1167</td><td>81.4</td>")) << page;
  EXPECT_TRUE(has(page, "<td>1.0167</td><td>1.1167</td><td>–</td>"));
  EXPECT_TRUE(has(page, "mha has the least validation loss, 1.1167."));
}

TEST(RunReport, SaysWhereLossesDoNotCompare) {
  RunCurves other = run_named("mla");
  EXPECT_FALSE(has(sound_page({run_named("mha"), other}), "different texts"));
  other.options.corpus.validation_characters = 500;
  const std::string parts = sound_page({run_named("mha"), other});
  EXPECT_TRUE(has(parts, "evaluated on different parts of their text"));
  EXPECT_FALSE(has(parts, "the least validation loss"));
  RunCurves shorter = run_named("mla");
  shorter.options = resolve_training(
      Given(training_settings(), {{"data", "lookup"}, {"steps", 60}, {"context", 32}}));
  const std::string contexts = sound_page({run_named("mha"), shorter});
  EXPECT_TRUE(has(contexts, "The runs have different contexts, whose losses do not compare."));
  EXPECT_FALSE(has(contexts, "the least validation loss"));
  other.record.data_sha256 = std::string(64, 'b');
  EXPECT_TRUE(has(sound_page({run_named("mha"), other}), "The runs are on different texts"));
  EXPECT_FALSE(has(sound_page({run_named("mha"), other}), "precision"));
  other.options.precision = Precision::bf16;
  const std::string page = sound_page({run_named("mha"), other});
  EXPECT_TRUE(has(page, "The runs differ in precision"));
  EXPECT_TRUE(has(page,
                  "<th scope=\"row\">precision</th><td class=\"words\">–</td>"
                  "<td class=\"words\">bf16</td>"))
      << page;
}

TEST(RunReport, TakesNumbersThatAreNotFiniteAndForeignText) {
  RunCurves run = run_named("<b>&\"");
  run.rows[5]["train_loss"] = nullptr;
  run.rows[59]["val_loss"] = nullptr;
  run.record.starts[0].command = "</pre><script>";
  const std::string page = sound_page({run});
  EXPECT_TRUE(has(page, "&lt;/pre&gt;&lt;script&gt;"));
}

TEST(RunReport, ALongCurveIsDrawnByFewPointsThatKeepItsEnd) {
  RunCurves run = run_named("mha");
  run.rows.clear();
  for (int step = 1; step <= 50000; ++step)
    run.rows.push_back({{"step", step}, {"train_loss", 1.0 + step % 2}});
  const std::string svg = losses_svg({run});
  EXPECT_LT(svg.size(), 20000u);
  EXPECT_TRUE(has(svg, "step 50,000: training loss 1.5000")) << svg;
}

}  // namespace
}  // namespace headcount
