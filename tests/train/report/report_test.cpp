// The page that `headcount compare` leaves: what it says of given results, and that it is
// well-formed, self-contained and safe with any text.
#include "train/report/report.h"

#include "train/report/report_samples.h"

namespace headcount {
namespace {

std::string summary(const ComparisonResult& result) {
  const std::string page = plain(comparison_report(result));
  const std::size_t from = page.find("<p>", page.find("<h1>"));
  return page.substr(from, page.find("</p>", from) - from);
}

// The row of the table that is about `spec`.
std::string row(const ComparisonResult& result, const std::string& spec) {
  const std::string page = plain(comparison_report(result));
  const std::size_t from = page.find("<th scope=\"row\">" + spec + "</th>");
  return from == std::string::npos ? "" : page.substr(from, page.find("</tr>", from) - from);
}

TEST(Report, IsWellFormedAndLoadsNothing) {
  expect_sound(comparison());
  ComparisonResult result = comparison();
  result.entropy_per_character = 0.2305;
  result.variants[0].answer_accuracy = Estimate{0.81, 0.02};
  result.variants[1].failures = {"seed 2: killed"};
  expect_sound(result);
}

TEST(Report, SummaryNamesTheFrontAndWhatTheDataDecides) {
  const std::string text = summary(comparison());
  EXPECT_TRUE(has(text, "3 attentions on tales, 3 seeds each (1, 2 and 3).")) << text;
  EXPECT_TRUE(has(text, "Pareto front of KV cache and mean loss are mha and mqa; every other"))
      << text;
  EXPECT_TRUE(has(text, "excludes zero, for mqa (+0.0080 ± 0.0031).")) << text;
  EXPECT_TRUE(has(text,
                  "does not decide whether the loss differs from that of mha for mla48+16 "
                  "(+0.0090 ± 0.0210)"))
      << text;
}

TEST(Report, BeginsWithTheVerdictAndTheDifferences) {
  const std::string page = plain(comparison_report(comparison()));
  const std::string begin = page.substr(page.find("</h1>"), 600);
  EXPECT_TRUE(has(begin,
                  "</h1>\n<div class=\"columns\">\n<p class=\"verdict\"><strong>Verdict:</strong> "
                  "no attention is shown to be "
                  "enough (tolerance 0.0040); mqa is not enough: +0.0080 ± 0.0031; mla48+16 is "
                  "open: +0.0090 ± 0.0210</p>\n<figure>\n<svg"))
      << begin;
  EXPECT_TRUE(has(begin, "<title>Loss compared with mha</title>")) << begin;
}

TEST(Report, SaysHowManySeedsWereAdded) {
  ComparisonResult result = comparison();
  result.question.seeds = {2, 9};
  result.variants[1].runs.resize(2);
  EXPECT_TRUE(
      has(summary(result), "up to 3 seeds each (1, 2 and 3), more where 2 did not decide. On the"))
      << summary(result);
  EXPECT_TRUE(has(comparison_report(result), "repeated confidence intervals"));
}

TEST(Report, OffersThePageThatLiesBesideIt) {
  ComparisonResult result = comparison();
  result.config = {{"data", "tales"}, {"dim", 64}};
  EXPECT_FALSE(has(comparison_report(result), "headcount.html"));
  EXPECT_TRUE(
      has(comparison_report(result, true),
          "<a href=\"headcount.html#settings=%7B%22settings%22%3A%7B%22data%22%3A%22tales%22"
          "%2C%22dim%22%3A64%7D%2C%22attentions%22%3A%5B%22mha%22%2C%22mqa%22%2C"
          "%22mla48%2B16%22%5D%7D\">Try it</a>"))
      << comparison_report(result, true).substr(0, 9000);
}

TEST(Report, OffersNoPageForSettingsThatItDoesNotTake) {
  ComparisonResult result = comparison();
  result.variants[1].adjusted = "ffn-dim 408";
  EXPECT_FALSE(has(comparison_report(result, true), "Try it"));
  result = comparison();
  result.variants[1].trained_on = 5;
  EXPECT_FALSE(has(comparison_report(result, true), "Try it"));
}

TEST(Report, OnPaperShowsTheWholeTableAndSplitsNoFigure) {
  const std::string page = comparison_report(comparison());
  const std::string paper = page.substr(page.find("@media print{"));
  EXPECT_TRUE(has(paper, ".scroll{overflow:visible"));
  EXPECT_TRUE(has(paper, "figure,pre,tr,.scroll,.key{break-inside:avoid}"));
}

TEST(Report, SaysThatNoSeedsWereAddedWhereNoneWere) {
  ComparisonResult result = comparison();
  result.question.seeds = {3, 20};
  EXPECT_TRUE(has(summary(result),
                  "3 attentions on tales, 3 seeds each (1, 2 and 3); none needed more of at most "
                  "20. On the"))
      << summary(result);
}

TEST(Report, ChartsOfTheQuestionStandBesideTheVerdict) {
  const auto begin = [](const ComparisonResult& result) {
    const std::string page = comparison_report(result);
    return page.substr(0, page.find("<h2>Results"));
  };
  ComparisonResult result = comparison();
  EXPECT_TRUE(has(begin(result), "<title>Validation loss against KV cache</title>"));
  result.question.metric = Metric::answers;
  for (VariantResult& v : result.variants) v.answer_accuracy = Estimate{0.8, 0.02};
  EXPECT_TRUE(has(begin(result), "<title>Right answers against KV cache</title>"));
  EXPECT_FALSE(has(begin(result), "<title>Validation loss against KV cache</title>"));
  for (const ReportChart& chart : comparison_charts(result))
    EXPECT_EQ(count(comparison_report(result), chart.svg), 1u) << chart.file;
}

TEST(Report, OfManyAttentionsTheTitleSaysHowManyAndTheSummaryLeavesNumbersToTheTable) {
  ComparisonResult result = comparison();
  result.variants.resize(9, result.variants[1]);
  EXPECT_TRUE(has(comparison_report(result), "<h1>9 attentions compared</h1>"));
  EXPECT_TRUE(has(summary(result), "excludes zero, for mqa, mqa")) << summary(result);
}

TEST(Report, SummarySaysWhenAllAreOnTheFrontOrOneAlone) {
  ComparisonResult result = comparison();
  result.variants[2].pareto = true;
  EXPECT_TRUE(has(summary(result), "All that finished are on the Pareto front"));
  result.variants[1].pareto = result.variants[2].pareto = false;
  EXPECT_TRUE(has(summary(result),
                  "is mha; every other attention is matched or beaten in both by "
                  "it."));
}

TEST(Report, TableHoldsTheNumbers) {
  ComparisonResult result = comparison();
  result.entropy_per_character = 0.1348;
  result.variants[1].adjusted = "ffn-dim 540";
  result.variants[1].answer_accuracy = Estimate{0.814, 0.021};
  const std::string text = row(result, "mqa");
  for (const char* cell :
       {">ffn-dim 540<", ">804,096<", ">1,024<", ">0.2490 ± 0.0025<", ">0.1142<",
        ">+0.0080 ± 0.0031<", ">not enough<", ">0.3592<", ">81.4 ± 2.1<", ">38,123<", ">5,200<"}) {
    EXPECT_TRUE(has(text, cell)) << cell << " in " << text;
  }
  EXPECT_TRUE(has(row(result, "mla48+16"), ">+0.0090 ± 0.0210</td><td>open<"));
  EXPECT_TRUE(has(row(result, "mha"), ">–</td><td>–<"));  // no difference from itself
}

TEST(Report, NegativeDifferencesHaveAMinusAndMayExcludeZero) {
  ComparisonResult result = comparison();
  result.variants[1].difference = Estimate{-0.0080, 0.0031};
  EXPECT_TRUE(has(row(result, "mqa"), ">−0.0080 ± 0.0031</td>"));
  EXPECT_TRUE(has(summary(result), "excludes zero, for mqa (−0.0080 ± 0.0031)."));
}

TEST(Report, WithOneSeedNothingClaimsAnInterval) {
  ComparisonResult result = comparison();
  result.seeds = {7};
  result.variants = {variant("mha", 4096, 0.241, 1), variant("mqa", 1024, 0.249, 1)};
  result.variants[1].difference = result.variants[1].cost = Estimate{0.008, std::nullopt};
  result.variants[1].costs = {{7, 0.008}};
  expect_sound(result);
  const std::string page = plain(comparison_report(result));
  EXPECT_TRUE(has(summary(result), "one seed (7)"));
  EXPECT_TRUE(has(summary(result), "With one seed there are no intervals"));
  EXPECT_FALSE(has(summary(result), "excludes zero"));
  EXPECT_FALSE(has(page, "±"));
  EXPECT_FALSE(has(page, "class=\"hc-band"));
  EXPECT_TRUE(has(row(result, "mqa"), ">+0.0080</td><td>open<"));
}

TEST(Report, AVariantWithoutRunsIsInTheTableWithItsFailuresOnly) {
  ComparisonResult result = comparison();
  result.variants[1] = variant("mqa", 1024, 0, 0);
  result.variants[1].failures = {"seed 1: the loss became NaN at step 12"};
  expect_sound(result);
  EXPECT_TRUE(has(summary(result), "Of 9 runs, 6 finished."));
  EXPECT_TRUE(has(row(result, "mqa"), ">1,024</td><td>0</td><td>–<"));
  EXPECT_TRUE(
      has(comparison_report(result), "<li>mqa, seed 1: the loss became NaN at step 12</li>"));
  for (const ReportChart& chart : comparison_charts(result)) {
    EXPECT_FALSE(has(chart.svg, "mqa")) << chart.file;
    EXPECT_TRUE(has(chart.svg, "mha")) << chart.file;
  }
}

TEST(Report, AnAttentionWithoutRunsIsNotSaidToBeBeaten) {
  ComparisonResult result = comparison();
  result.variants[1] = variant("mqa", 1024, 0, 0);
  result.variants[1].failures = {"seed 1: killed"};
  result.variants[1].pareto = result.variants[2].pareto = false;
  EXPECT_TRUE(has(summary(result),
                  "is mha; every other attention that has a finished run is matched or beaten in "
                  "both by it."))
      << summary(result);
}

TEST(Report, SaysWhichRunsAnotherBuildTrained) {
  ComparisonResult result = comparison();
  EXPECT_FALSE(has(comparison_report(result), "Trained by"));
  result.variants[1].runs[0].version = "another <build>";
  result.variants[1].train_tokens_per_second.reset();
  expect_sound(result);
  EXPECT_TRUE(has(summary(result), "Some runs were trained by another build or machine"));
  EXPECT_TRUE(has(comparison_report(result), "<li>Trained by another &lt;build&gt;, on "));
  EXPECT_TRUE(has(row(result, "mqa"), ">0.3592</td><td>–</td>"));
}

TEST(Report, WithoutAnyRunThereAreNoCharts) {
  ComparisonResult result = comparison();
  for (VariantResult& each : result.variants) {
    each = variant(each.spec, each.cache_bytes_per_token, 0, 0);
  }
  expect_sound(result);
  EXPECT_TRUE(comparison_charts(result).empty());
  EXPECT_TRUE(has(summary(result), "No run finished"));
}

TEST(Report, ForeignTextStaysText) {
  ComparisonResult result = comparison();
  const std::string nasty = "<script>\"a\" & 'b'</script>\x01\xff";
  const std::string shown =
      "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;\ufffd\ufffd";
  result.command = result.data = result.machine = result.version = nasty;
  result.config = {{"data", "<script>\"a\" & 'b'</script>\x01"}};
  result.match = result.sweep = result.variants[0].adjusted = result.variants[0].spec = nasty;
  result.variants[0].failures = {nasty};
  expect_sound(result);
  EXPECT_EQ(count(comparison_report(result), "<pre>" + shown + "</pre>"), 1u);  // command
  EXPECT_EQ(count(comparison_report(result),
                  "&quot;data&quot;: &quot;&lt;script&gt;\\&quot;a\\&quot; &amp; "
                  "&#39;b&#39;&lt;/script&gt;\\u0001&quot;"),
            1u);
}

}  // namespace
}  // namespace headcount
