// The report of `headcount compare`: what it says of given results, and that its page and charts
// are well-formed, self-contained and safe with any text.
#include "train/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "train/compare/verdict.h"
#include "train/report/cache_drawing.h"
#include "train/run_program.h"

namespace headcount {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What a reader sees: spaces that do not break lines are spaces to him.
std::string plain(std::string text) {
  for (auto at = text.find("\u00a0"); at != std::string::npos; at = text.find("\u00a0")) {
    text.replace(at, 2, " ");
  }
  return text;
}

/// What Python's parser says of the files of `folder` that are no well-formed XML; empty if all
/// are.
std::string xml_faults(const std::filesystem::path& folder) {
  constexpr const char* kScript = HEADCOUNT_FIXTURE_FOLDER "/../train/report/well_formed.py";
  const ProgramResult result =
      run_shell("'" HEADCOUNT_PYTHON "' '" + std::string(kScript) + "' .", folder);
  return result.exit_code == 0 ? "" : result.err;
}

/// Three seeds: losses `loss` and 0.001 about it, a falling curve, decoding at two contexts.
VariantResult variant(const std::string& spec, Index cache, double loss, Index seeds = 3) {
  VariantResult result;
  result.spec = spec;
  result.parameters = 804096;
  result.cache_bytes_per_token = cache;
  for (Index seed = 0; seed < seeds; ++seed) {
    RunResult run;
    run.seed = static_cast<std::uint64_t>(seed + 1);
    run.version = "a version";
    run.machine = "a machine";
    run.validation_loss = loss + 0.001 * static_cast<double>(seed - 1);
    run.curve_steps = {10, 20, 30};
    run.curve_losses = {2.0 * loss, 1.5 * loss, run.validation_loss};
    result.runs.push_back(run);
  }
  result.loss.mean = loss;
  if (seeds > 1) result.loss.half_width = 0.0025;
  result.train_tokens_per_second = 38123;
  result.decode = {{128, 5200}, {512, 2600}};
  result.decode_tokens_per_second = 5200;
  return result;
}

ComparisonResult comparison() {
  ComparisonResult result;
  result.command = "headcount compare --attention mha,mqa,mla48+16 --seeds 3";
  result.data = "tales";
  result.data_sha256 = std::string(64, 'a');
  result.seeds = {1, 2, 3};
  result.match = "none";
  result.context = 128;
  result.config = "{\"steps\": 30}";
  result.machine = "a machine";
  result.version = "a version";
  result.hours = 0.5;
  result.variants = {variant("mha", 4096, 0.2410), variant("mqa", 1024, 0.2490),
                     variant("mla48+16", 2048, 0.2500)};
  result.variants[0].pareto = result.variants[1].pareto = true;
  result.variants[1].difference = Estimate{0.0080, 0.0031};
  result.variants[2].difference = Estimate{0.0090, 0.0210};
  result.question.tolerance = 0.004;
  for (const std::size_t i : {1, 2}) {
    VariantResult& v = result.variants[i];
    v.cost = v.difference;
    v.costs = {{1, v.cost->mean - 0.001}, {2, v.cost->mean}, {3, v.cost->mean + 0.001}};
    v.verdict = verdict(*v.cost, result.question.tolerance);
  }
  result.variants[0].cache = {{{"k", 4, 64}, {"v", 4, 64}}, {{"k", 4, 64, 32}, {"v", 4, 64, 32}}};
  result.variants[1].cache = {{{"k", 1, 64}, {"v", 1, 64}}};
  result.variants[2].cache = {{{"latent", 1, 48}, {"rope_key", 1, 16}}};
  return result;
}

const ReportChart* chart(const std::vector<ReportChart>& charts, const std::string& file) {
  const auto found = std::ranges::find(charts, file, &ReportChart::file);
  return found == charts.end() ? nullptr : &*found;
}

std::string loss_chart(const ComparisonResult& result) {
  return chart(comparison_charts(result), "loss_against_cache.svg")->svg;
}

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

void expect_sound(const ComparisonResult& result) {
  constexpr std::string_view kNamespace = "http://www.w3.org/2000/svg";
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(folder.path() / file, std::ios::binary) << text;
  };
  const std::string page = comparison_report(result);
  ASSERT_TRUE(page.starts_with("<!DOCTYPE html>\n"));
  write("report.html", page);
  for (const ReportChart& chart : comparison_charts(result)) {
    write(chart.file, chart.svg);
    EXPECT_TRUE(has(page, chart.svg)) << chart.file;
    for (const char* text : {"nan", "inf"}) EXPECT_FALSE(has(chart.svg, text)) << chart.svg;
  }
  EXPECT_EQ(xml_faults(folder.path()), "");
  EXPECT_EQ(count(page, "http"), count(page, kNamespace) + count(page, "http-equiv"));
  for (const char* text : {"<script", "<link", "<img", "url(", "@import", " src=", " href=", ">nan",
                           ">-nan", ">inf", "± nan"}) {
    EXPECT_FALSE(has(page, text)) << text;
  }
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
                  "</h1>\n<p class=\"verdict\"><strong>Verdict:</strong> nothing is shown to be "
                  "enough (tolerance 0.0040); mqa is not enough: +0.0080 ± 0.0031; mla48+16 is "
                  "open: +0.0090 ± 0.0210</p>\n<figure class=\"lead\">\n<svg"))
      << begin;
  EXPECT_TRUE(has(begin, "<title>Loss against that of mha</title>")) << begin;
}

TEST(Report, SaysHowManySeedsWereAdded) {
  ComparisonResult result = comparison();
  result.question.seeds = {2, 9};
  result.variants[1].runs.resize(2);
  EXPECT_TRUE(has(summary(result),
                  "up to 3 seeds each (1, 2 and 3), more of those that 2 did not decide. On the"))
      << summary(result);
  EXPECT_TRUE(has(comparison_report(result), "repeated confidence intervals"));
}

// Where `svg` has the attribute of the element that says `hover`.
double attribute(const std::string& svg, const std::string& name, const std::string& hover) {
  const std::size_t title = svg.find("<title>" + hover);
  if (title == std::string::npos) throw std::runtime_error("nothing says " + hover + " in " + svg);
  const std::size_t element = svg.rfind('<', title - 1);
  const std::size_t at = svg.find(" " + name + "=\"", element) + name.size() + 3;
  return std::stod(svg.substr(at));
}

TEST(Report, DifferencesShowEverySeedAndWhichLieWithinTheTolerance) {
  ComparisonResult result = comparison();
  result.variants[1].costs[0].second = 0.0039;
  const std::string svg = plain(chart(comparison_charts(result), "differences.svg")->svg);
  EXPECT_TRUE(has(svg, "<title>mqa: +0.0080 ± 0.0031, not enough</title>"));
  EXPECT_EQ(count(svg, "<circle"), 6u);
  const std::size_t band = svg.find("class=\"hc-within\"");
  ASSERT_NE(band, std::string::npos);
  const auto number = [&](const std::string& name) {
    return std::stod(svg.substr(svg.find(" " + name + "=\"", band) + name.size() + 3));
  };
  const double end = number("x") + number("width");
  EXPECT_LT(attribute(svg, "cx", "mqa, seed 1: +0.0039"), end);
  EXPECT_GT(attribute(svg, "cx", "mqa, seed 2: +0.0080"), end);
}

TEST(Report, AnIntervalFarWiderThanItsValuesIsCut) {
  ComparisonResult result = comparison();
  const auto reach = [&] {
    const std::string svg = plain(chart(comparison_charts(result), "differences.svg")->svg);
    return attribute(svg, "cx", "mqa, seed 3") - attribute(svg, "cx", "mqa, seed 1");
  };
  const double before = reach();
  result.variants[2].cost->half_width = 5000;
  EXPECT_GT(reach(), before / 4);
  expect_sound(result);
}

TEST(Report, CachesAreDrawnToScale) {
  const ComparisonResult result = comparison();
  const std::string svg = chart(comparison_charts(result), "cache.svg")->svg;
  const auto width = [&](const std::string& hover) { return attribute(svg, "width", hover); };
  const auto height = [&](const std::string& hover) { return attribute(svg, "height", hover); };
  const std::string k = "mha, layer 1, k: 4 heads of 64 numbers, ";
  const std::string in_window = "mha, layer 2, k: 4 heads of 64 numbers, 32 tokens, 32 KiB";
  EXPECT_NEAR(width(k + "128 tokens, 128 KiB"),
              4 * width("mqa, layer 1, k: 1 head of 64 numbers, 128 tokens"), 0.3);
  EXPECT_NEAR(width("mla48+16, layer 1, latent"), 3 * width("mla48+16, layer 1, rope_key"), 0.3);
  EXPECT_NEAR(height(k + "128 tokens"), 4 * height(in_window), 0.3);
  // The long context is as high; the window is next to nothing of it.
  EXPECT_EQ(height(k + "131,072 tokens, 128 MiB"), height(k + "128 tokens"));
  EXPECT_EQ(svg.find(in_window) != std::string::npos, true);
  EXPECT_NEAR(attribute(svg.substr(svg.find(in_window) + 10), "height", in_window), 2, 0.1);
  // 2 x 2 blocks of 4 x 64 floats, half of them of 32 tokens only.
  EXPECT_TRUE(has(svg, ">320 KiB</text>")) << svg;
  EXPECT_EQ(cache_numbers(result.variants[0].cache, 128), 2 * 256 * (128 + 32));
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
  EXPECT_FALSE(has(comparison_report(result), "Trained earlier"));
  result.variants[1].runs[0].version = "another <build>";
  result.variants[1].train_tokens_per_second.reset();
  expect_sound(result);
  EXPECT_TRUE(has(summary(result), "Some runs were trained by another build or machine"));
  EXPECT_TRUE(has(comparison_report(result), "<li>Trained earlier, by another &lt;build&gt;, on "));
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
  result.command = result.data = result.config = result.machine = result.version = nasty;
  result.match = result.sweep = result.variants[0].adjusted = result.variants[0].spec = nasty;
  result.variants[0].failures = {nasty};
  expect_sound(result);
  EXPECT_EQ(count(comparison_report(result), "<pre>" + shown + "</pre>"), 2u);  // command, config
}

TEST(Report, ChartsDependOnTheData) {
  ComparisonResult result = comparison();
  for (VariantResult& each : result.variants) each.decode.resize(1);
  std::vector<ReportChart> charts = comparison_charts(result);
  EXPECT_NE(chart(charts, "loss_against_cache.svg"), nullptr);
  EXPECT_NE(chart(charts, "training_loss.svg"), nullptr);
  EXPECT_EQ(chart(charts, "decode_speed.svg"), nullptr);
  EXPECT_EQ(chart(charts, "answers_against_cache.svg"), nullptr);

  result = comparison();
  result.variants[2].answer_accuracy = Estimate{0.995, 0.02};
  charts = comparison_charts(result);
  EXPECT_NE(chart(charts, "decode_speed.svg"), nullptr);
  const ReportChart* answers = chart(charts, "answers_against_cache.svg");
  ASSERT_NE(answers, nullptr);
  EXPECT_TRUE(has(answers->svg, "mla48+16"));
  EXPECT_FALSE(has(answers->svg, "mqa"));
}

TEST(Report, PointsShowTheirValuesOnPointing) {
  const std::vector<ReportChart> charts = comparison_charts(comparison());
  EXPECT_TRUE(has(plain(chart(charts, "loss_against_cache.svg")->svg),
                  "<title>mqa: loss 0.2490 ± 0.0025, 1,024 bytes a token</title>"));
  EXPECT_TRUE(has(plain(chart(charts, "decode_speed.svg")->svg),
                  "<title>mla48+16, context 512: 2,600 tokens/s</title>"));
  EXPECT_TRUE(has(plain(chart(charts, "training_loss.svg")->svg),
                  "<title>mha, step 30: loss 0.2410 ± 0.0025</title>"));
}

TEST(Report, EveryChartHasItsOwnDarkColoursAndAText) {
  for (const ReportChart& chart : comparison_charts(comparison())) {
    EXPECT_TRUE(has(chart.svg, "@media (prefers-color-scheme:dark)")) << chart.file;
    EXPECT_FALSE(has(chart.svg, "var(")) << chart.file;  // rsvg-convert knows none
    EXPECT_TRUE(has(chart.svg, "role=\"img\"")) << chart.file;
    EXPECT_TRUE(has(chart.svg, "<desc>" + chart.caption + "</desc>")) << chart.file;
  }
}

TEST(Report, FloorIsDrawnWhereItLeavesRoomAndNamedWhereNot) {
  const auto with_floor = [](double floor) {
    ComparisonResult result = comparison();
    result.entropy_per_character = floor;
    return loss_chart(result);
  };
  EXPECT_TRUE(has(with_floor(0.2350), "class=\"hc-floor\""));
  EXPECT_TRUE(has(with_floor(0.2350), ">floor 0.2350<"));
  EXPECT_FALSE(has(with_floor(0.0100), "class=\"hc-floor\""));
  EXPECT_TRUE(has(with_floor(0.0100), ">floor 0.0100, below this chart<"));
}

// Places "x y" of the marks of a chart.
std::vector<std::string> mark_places(const std::string& svg) {
  constexpr std::string_view kStart = "transform=\"translate(";
  std::vector<std::string> places;
  for (auto at = svg.find("hc-mark hc-"); at != std::string::npos;
       at = svg.find("hc-mark hc-", at + 1)) {
    const std::size_t from = svg.find(kStart, at) + kStart.size();
    places.push_back(svg.substr(from, svg.find(')', from) - from));
  }
  return places;
}

TEST(Report, ALineOfAFewPointsMarksThemAll) {
  ComparisonResult result = comparison();
  result.variants.resize(1);
  result.variants[0].decode.clear();
  for (Index context = 128; context <= 32768; context *= 2)
    result.variants[0].decode.push_back({context, 1e6 / static_cast<double>(context)});
  const std::vector<ReportChart> charts = comparison_charts(result);
  EXPECT_EQ(mark_places(chart(charts, "decode_speed.svg")->svg).size(), 9u);
}

TEST(Report, EqualVariantsDoNotCoverEachOther) {
  ComparisonResult result = comparison();
  result.variants.assign(4, variant("mqa", 1024, 0.249));
  std::vector<std::string> places = mark_places(loss_chart(result));
  ASSERT_EQ(places.size(), 4u);
  std::ranges::sort(places);
  EXPECT_EQ(std::ranges::adjacent_find(places), places.end());
}

TEST(Report, NumbersThatAreNotFiniteAreLeftOut) {
  ComparisonResult result = comparison();
  result.variants[0].loss = {kNaN, kInfinity};
  result.variants[0].runs[1].curve_losses[1] = kNaN;
  result.variants[0].decode[0].tokens_per_second = kInfinity;
  result.variants[1].loss.half_width = kInfinity;
  result.variants[1].difference = Estimate{kNaN, kNaN};
  result.variants[2].train_tokens_per_second = kNaN;
  result.entropy_per_character = kNaN;
  result.hours = kInfinity;
  expect_sound(result);
  EXPECT_EQ(mark_places(loss_chart(result)).size(), 2u);
}

TEST(Report, TakesValuesOfAnySize) {
  ComparisonResult result = comparison();
  result.variants[0] = variant("mha", 1, 1e-9);
  result.variants[1] = variant("mqa", Index{1} << 50, 1e12);
  result.variants[2] = variant("zero", 0, 0);  // has no place on a logarithmic axis
  expect_sound(result);
  const std::string svg = loss_chart(result);
  EXPECT_EQ(mark_places(svg).size(), 2u);
  EXPECT_LT(count(svg, "<text"), 30u);  // ticks stay few
}

}  // namespace
}  // namespace headcount
