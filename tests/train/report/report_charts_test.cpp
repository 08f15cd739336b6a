// The charts of a comparison: what they draw of given results, to scale, with any numbers.
#include <gtest/gtest.h>

#include <limits>

#include "train/report/cache_drawing.h"
#include "train/report/report_samples.h"

namespace headcount {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string loss_chart(const ComparisonResult& result) {
  return chart(comparison_charts(result), "loss_against_cache.svg")->svg;
}

// Where `svg` has the attribute of the element that says `hover`.
double attribute(const std::string& svg, const std::string& name, const std::string& hover) {
  const std::size_t title = svg.find("<title>" + hover);
  if (title == std::string::npos) throw std::runtime_error("nothing says " + hover + " in " + svg);
  const std::size_t element = svg.rfind('<', title - 1);
  const std::size_t at = svg.find(" " + name + "=\"", element) + name.size() + 3;
  return std::stod(svg.substr(at));
}

TEST(ReportCharts, DifferencesShowEverySeedAndWhichLieWithinTheTolerance) {
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

TEST(ReportCharts, AnIntervalFarWiderThanItsValuesIsCut) {
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

TEST(ReportCharts, CachesAreDrawnToScale) {
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

TEST(ReportCharts, ChartsDependOnTheData) {
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

TEST(ReportCharts, PointsShowTheirValuesOnPointing) {
  const std::vector<ReportChart> charts = comparison_charts(comparison());
  EXPECT_TRUE(has(plain(chart(charts, "loss_against_cache.svg")->svg),
                  "<title>mqa: loss 0.2490 ± 0.0025, 1,024 bytes a token</title>"));
  EXPECT_TRUE(has(plain(chart(charts, "decode_speed.svg")->svg),
                  "<title>mla48+16, context 512: 2,600 tokens/s</title>"));
  EXPECT_TRUE(has(plain(chart(charts, "training_loss.svg")->svg),
                  "<title>mha, step 30: loss 0.2410 ± 0.0025</title>"));
}

TEST(ReportCharts, EveryChartHasItsOwnDarkColoursAndAText) {
  for (const ReportChart& chart : comparison_charts(comparison())) {
    EXPECT_TRUE(has(chart.svg, "@media (prefers-color-scheme:dark)")) << chart.file;
    EXPECT_FALSE(has(chart.svg, "var(")) << chart.file;  // rsvg-convert knows none
    EXPECT_TRUE(has(chart.svg, "role=\"img\"")) << chart.file;
    EXPECT_TRUE(has(chart.svg, "<desc>" + chart.caption + "</desc>")) << chart.file;
  }
}

TEST(ReportCharts, FloorIsDrawnWhereItLeavesRoomAndNamedWhereNot) {
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

TEST(ReportCharts, ShowAnswersAgainstHowFarBackTheyWereTold) {
  ComparisonResult result = comparison();
  EXPECT_EQ(chart(comparison_charts(result), "answers_against_distance.svg"), nullptr);
  result.answer_chance = 0.25;
  VariantResult& mqa = result.variants[1];
  mqa.answer_accuracy = Estimate{0.7, 0.1};
  for (RunResult& run : mqa.runs) run.answers_by_distance = {{2, 10, 9}, {16, 40, 20}};
  mqa.runs[0].answers_by_distance[1].right = 26;
  const std::vector<ReportChart> charts = comparison_charts(result);
  const ReportChart* distances = chart(charts, "answers_against_distance.svg");
  ASSERT_NE(distances, nullptr);
  const std::string svg = plain(distances->svg);
  EXPECT_TRUE(has(svg, "<title>mqa, 2 to 3 characters back: 90.0 ± 0.0 % right</title>")) << svg;
  // 65, 50 and 50 %
  EXPECT_TRUE(has(svg, "<title>mqa, 16 to 31 characters back: 55.0 ± 21.5 % right</title>")) << svg;
  EXPECT_TRUE(has(svg, "class=\"hc-band")) << svg;
  EXPECT_TRUE(has(svg, ">chance 25.0")) << svg;
  EXPECT_FALSE(has(svg, "mha"));
  // Of two clusters the seeds' spread says nothing.
  mqa.answer_accuracy->half_width.reset();
  const std::vector<ReportChart> again = comparison_charts(result);
  EXPECT_TRUE(has(chart(again, "answers_against_distance.svg")->svg, "back: 55.0 % right"));
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

TEST(ReportCharts, ALineOfAFewPointsMarksThemAll) {
  ComparisonResult result = comparison();
  result.variants.resize(1);
  result.variants[0].decode.clear();
  for (Index context = 128; context <= 32768; context *= 2)
    result.variants[0].decode.push_back({context, 1e6 / static_cast<double>(context)});
  const std::vector<ReportChart> charts = comparison_charts(result);
  EXPECT_EQ(mark_places(chart(charts, "decode_speed.svg")->svg).size(), 9u);
}

TEST(ReportCharts, SeedsInTwoClustersAreAllMarkedAndTheirAttentionIsNamedOnce) {
  ComparisonResult result = comparison();
  VariantResult& mqa = result.variants[1];
  mqa.answer_accuracy = Estimate{0.7, std::nullopt};
  for (RunResult& run : mqa.runs) run.answer_accuracy = run.seed == 2 ? 0.99 : 0.5;
  const std::string svg = chart(comparison_charts(result), "answers_against_cache.svg")->svg;
  EXPECT_EQ(mark_places(svg).size(), 3u);
  EXPECT_EQ(count(svg, ">mqa<"), 1u) << svg;
}

TEST(ReportCharts, EqualVariantsDoNotCoverEachOther) {
  ComparisonResult result = comparison();
  result.variants.assign(4, variant("mqa", 1024, 0.249));
  std::vector<std::string> places = mark_places(loss_chart(result));
  ASSERT_EQ(places.size(), 4u);
  std::ranges::sort(places);
  EXPECT_EQ(std::ranges::adjacent_find(places), places.end());
}

TEST(ReportCharts, NumbersThatAreNotFiniteAreLeftOut) {
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

TEST(ReportCharts, TakesValuesOfAnySize) {
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
