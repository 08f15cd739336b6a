// The charts of a comparison: what they draw of given results, to scale, with any numbers.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <regex>
#include <set>

#include "train/report/cache_drawing.h"
#include "train/report/report_samples.h"
#include "train/report/svg.h"

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
  EXPECT_TRUE(has(svg, ">320 KiB</tspan>")) << svg;
  EXPECT_EQ(numbers_at_context(result.variants[0].cache, 128), 2 * 256 * (128 + 32));
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
    EXPECT_TRUE(has(chart.svg, "@media screen and (prefers-color-scheme:dark)")) << chart.file;
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
  result.baselines = Baselines{.guesser = 0.25, .copier = 0.306, .commonest = 0.5};
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
  EXPECT_TRUE(has(svg, ">without a lookup 50.0")) << svg;
  EXPECT_TRUE(has(distances->caption, "guesser 25.0 %, copier 30.6 %, commonest value 50.0 %"));
  EXPECT_FALSE(has(svg, "mha"));
  // The spread over seeds says nothing if they form two clusters.
  mqa.answer_accuracy->half_width.reset();
  const std::vector<ReportChart> again = comparison_charts(result);
  const ReportChart* without = chart(again, "answers_against_distance.svg");
  EXPECT_TRUE(has(without->svg, "back: 55.0 % right"));
  EXPECT_TRUE(has(without->caption, "Means over seeds. "));
  EXPECT_FALSE(has(without->caption, "bands")) << without->caption;
}

TEST(ReportCharts, ShowWhatLessCacheCostsByPosition) {
  ComparisonResult result = comparison();
  EXPECT_EQ(chart(comparison_charts(result), "loss_by_position.svg"), nullptr);
  for (VariantResult& variant : result.variants) {
    for (RunResult& run : variant.runs) {
      const auto seed = static_cast<double>(run.seed);
      run.loss_by_position = {{0, 100, 2 + seed}, {32, 100, 1 + seed}};
    }
  }
  for (RunResult& run : result.variants[1].runs) run.loss_by_position[1].loss += 0.25;
  const std::vector<ReportChart> charts = comparison_charts(result);
  const ReportChart* positions = chart(charts, "loss_by_position.svg");
  ASSERT_NE(positions, nullptr);
  const std::string svg = plain(positions->svg);
  EXPECT_TRUE(has(svg, "<title>mqa, positions 0 to 31: 0.0000 ± 0.0000</title>")) << svg;
  EXPECT_TRUE(has(svg, "<title>mqa, positions 32 to 63: +0.2500 ± 0.0000</title>")) << svg;
  EXPECT_TRUE(has(svg, "<title>mha, positions 32 to 63: 0.0000 ± 0.0000</title>")) << svg;
  // A context of one range has no curve.
  for (VariantResult& variant : result.variants) {
    for (RunResult& run : variant.runs) run.loss_by_position.pop_back();
  }
  EXPECT_EQ(chart(comparison_charts(result), "loss_by_position.svg"), nullptr);
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

struct LabelBox {
  double left, right, top, bottom;
  std::string text;
  bool meets(const LabelBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// Where the labels beside the marks of a chart stand, as wide as in the widest usual font.
std::vector<LabelBox> label_boxes(const std::string& svg) {
  static const std::regex label(
      R"re(<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" class="hc-text hc-label">([^<]*)<)re");
  std::vector<LabelBox> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), label), end; at != end; ++at) {
    const double width = svg::width_of(at->str(4)), x = std::stod(at->str(1));
    const double left = at->str(3) == "start" ? x : at->str(3) == "end" ? x - width : x - width / 2;
    const double base = std::stod(at->str(2));
    boxes.push_back({left, left + width, base - 11, base + 3, at->str(4)});
  }
  return boxes;
}

std::vector<LabelBox> mark_boxes(const std::string& svg) {
  std::vector<LabelBox> boxes;
  for (const std::string& place : mark_places(svg)) {
    std::size_t used = 0;
    const double x = std::stod(place, &used), y = std::stod(place.substr(used));
    boxes.push_back({x - 6, x + 6, y - 6, y + 6, "the mark at " + place});
  }
  return boxes;
}

// A comparison of attentions that are as close to each other as attentions of one size are.
ComparisonResult crowd(std::size_t attentions) {
  ComparisonResult result = comparison();
  result.variants.clear();
  for (std::size_t i = 0; i < attentions; ++i) {
    VariantResult v = variant("attention-" + std::to_string(i + 1), Index{64} << i % 4,
                              0.240 + 0.001 * static_cast<double>(i % 5));
    v.pareto = i < 4;
    result.variants.push_back(std::move(v));
  }
  return result;
}

TEST(ReportCharts, LabelsOfManyAttentionsCoverNeitherEachOtherNorAnyMark) {
  for (const std::size_t attentions : {3, 7, 13}) {
    const std::string svg = loss_chart(crowd(attentions));
    std::vector<LabelBox> boxes = label_boxes(svg);
    ASSERT_EQ(boxes.size(), attentions) << svg;
    std::ranges::move(mark_boxes(svg), std::back_inserter(boxes));
    for (std::size_t i = 0; i < attentions; ++i) {
      for (std::size_t j = i + 1; j < boxes.size(); ++j)
        EXPECT_FALSE(boxes[i].meets(boxes[j])) << boxes[i].text << " and " << boxes[j].text;
    }
  }
}

TEST(ReportCharts, NumbersAndALegendTakeThePlaceOfNamesWithoutRoom) {
  const std::string few = loss_chart(crowd(3)), many = loss_chart(crowd(13));
  EXPECT_EQ(label_boxes(few).front().text, "attention-1");
  EXPECT_EQ(label_boxes(many).front().text, "1");
  for (int i = 1; i <= 13; ++i)
    EXPECT_EQ(count(many, ">attention-" + std::to_string(i) + "</text>"), 1u) << i;
  expect_sound(crowd(13));
}

TEST(ReportCharts, ManyLinesHaveNoBandsWhichWouldHideThem) {
  const auto training = [](std::size_t attentions) {
    const std::vector<ReportChart> charts = comparison_charts(crowd(attentions));
    return *chart(charts, "training_loss.svg");
  };
  EXPECT_EQ(count(training(5).svg, "class=\"hc-band"), 5u);
  EXPECT_TRUE(has(plain(training(5).caption), "bands are 95 % intervals"));
  EXPECT_EQ(count(training(6).svg, "class=\"hc-band"), 0u);
  EXPECT_TRUE(has(training(6).caption, "intervals are not drawn"));
}

TEST(ReportCharts, EveryNameInTheCacheDrawingHasAColourOfItsOwn) {
  ComparisonResult result = comparison();
  std::vector<std::string> names = {"k",        "v",        "state",   "k_a",      "k_b",
                                    "v_a",      "v_b",      "latent",  "rope_key", "kv",
                                    "q_inputs", "k_inputs", "v_inputs"};
  result.variants[0].cache.clear();
  for (const std::string& name : names) result.variants[0].cache.push_back({{name, 1, 8}});
  const std::string svg = chart(comparison_charts(result), "cache.svg")->svg;
  std::set<std::string> colours;
  for (const std::string& name : names) {
    const std::size_t entry = svg.rfind("<rect class=\"", svg.find("<title>" + name + "</title>"));
    colours.insert(svg.substr(entry + 13, svg.find('"', entry + 13) - entry - 13));
  }
  EXPECT_EQ(colours.size(), names.size());
}

TEST(ReportCharts, ALineOfAFewPointsMarksThemAll) {
  ComparisonResult result = comparison();
  result.variants.resize(1);
  result.variants[0].decode.clear();
  for (Index context = 128; context <= 32768; context *= 2)
    result.variants[0].decode.push_back({context, 1e6 / static_cast<double>(context)});
  const std::vector<ReportChart> charts = comparison_charts(result);
  // One more stands before the name.
  EXPECT_EQ(mark_places(chart(charts, "decode_speed.svg")->svg).size(), 9u + 1);
}

TEST(ReportCharts, SeedsInTwoClustersAreAllMarkedAndTheirAttentionIsNamedOnce) {
  ComparisonResult result = comparison();
  VariantResult& mqa = result.variants[1];
  mqa.answer_accuracy = Estimate{0.7, std::nullopt};
  for (RunResult& run : mqa.runs) run.answer_accuracy = run.seed == 2 ? 0.99 : 0.5;
  const std::vector<ReportChart> charts = comparison_charts(result);
  const ReportChart* answers = chart(charts, "answers_against_cache.svg");
  EXPECT_EQ(mark_places(answers->svg).size(), 3u);
  EXPECT_EQ(count(answers->svg, ">mqa<"), 1u) << answers->svg;
  EXPECT_TRUE(has(answers->caption, "Each point is one seed.")) << answers->caption;
}

TEST(ReportCharts, BarsOfAnswersGoFromTheLeastToTheMostOfTheSeeds) {
  ComparisonResult result = comparison();
  VariantResult& mqa = result.variants[1];
  mqa.answer_accuracy = Estimate{0.9, 0.5};
  for (RunResult& run : mqa.runs) run.answer_accuracy = run.seed == 2 ? 0.95 : 0.85;
  const ReportChart drawn = *chart(comparison_charts(result), "answers_against_cache.svg");
  EXPECT_TRUE(has(plain(drawn.caption), "Bars go from the least to the most of all seeds"))
      << drawn.caption;
  EXPECT_TRUE(has(drawn.svg, ">86<")) << drawn.svg;
  EXPECT_FALSE(has(drawn.svg, ">80<")) << "the axis begins at the least seed";
}

TEST(ReportCharts, OfConversionsIsLeftOutWhereNoConvertedModelFinished) {
  ComparisonResult result = comparison();
  result.variants[1].trained_on = 0;
  EXPECT_NE(chart(comparison_charts(result), "conversions.svg"), nullptr);
  result.variants[1].runs.clear();
  EXPECT_EQ(chart(comparison_charts(result), "conversions.svg"), nullptr);
}

TEST(ReportCharts, EqualVariantsDoNotCoverEachOther) {
  ComparisonResult result = comparison();
  result.variants.assign(4, variant("mqa", 1024, 0.249));
  std::vector<std::string> places = mark_places(loss_chart(result));
  ASSERT_EQ(places.size(), 4u + 4);
  places.resize(4);  // those of the legend follow
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
