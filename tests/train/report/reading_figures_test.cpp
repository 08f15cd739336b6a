// The parts of the report that show how attentions read a passage: shades, numbers on pointing, and
// what each head looks at.
#include "train/report/reading_figures.h"

#include <gtest/gtest.h>

#include <limits>

#include "train/report/report_samples.h"

namespace headcount {
namespace {

// Three attentions that read "a<\n7", of which the 7 is an answer and the "a" is not predicted.
ComparisonResult read_comparison() {
  ComparisonResult result = comparison();
  result.passage = {.number = 4,
                    .characters = {"a", "<", "\n", "7"},
                    .answers = {false, false, false, true},
                    .entropy = {0.5, 1.5, 0, 0},
                    .question = 3};
  for (VariantResult& variant : result.variants) {
    Reading& reading = variant.reading.emplace();
    reading.seed = 1;
    reading.losses = {std::nullopt, 1.6, 0.05, 2.5};
    reading.looks = {{{{0.02, 0.9, 0.08}, 0.374}, {{1.0 / 3, 1.0 / 3, 1.0 / 3}, 1.0986}}};
  }
  return result;
}

std::string figures(const ComparisonResult& result) { return plain(reading_figures(result)); }

TEST(ReadingFigures, ShadeWhatIsLostBeyondTheGrammar) {
  const std::string text = figures(read_comparison());
  EXPECT_TRUE(has(text, "Passage 4 of the validation part")) << text;
  EXPECT_TRUE(has(text,
                  "<pre class=\"text\">a"
                  "<i class=\"l1\" title=\"1.600 nats, 1.500 of them the grammar&#39;s\">&lt;</i>"
                  "<i title=\"0.050 nats, 0.000 of them the grammar&#39;s\">↵\n</i>"
                  "<i class=\"l4 d\" title=\"2.500 nats, 0.000 of them the grammar&#39;s\">7</i>"
                  "</pre>"))
      << text;
  // (0.1 + 0.05 + 2.5) / 3
  EXPECT_TRUE(has(text, "<strong>mqa</strong> +0.883 nats a character, +2.500 an answer"));
}

TEST(ReadingFigures, ShadeTheWholeLossWhereThereIsNoGrammar) {
  ComparisonResult result = read_comparison();
  result.passage.entropy.clear();
  result.passage.answers.clear();
  const std::string text = figures(result);
  EXPECT_TRUE(has(text, "<i class=\"l3\" title=\"1.600 nats\">&lt;</i>")) << text;
  EXPECT_FALSE(has(text, "grammar"));
  EXPECT_FALSE(has(text, "decide"));
  EXPECT_TRUE(has(text, "+1.383 nats a character<"));
  EXPECT_TRUE(has(text, "<h2>What each head looks at</h2>"));
  EXPECT_FALSE(has(text, "question"));
}

TEST(ReadingFigures, SayNothingOfAnswersInAPassageWithoutAny) {
  ComparisonResult result = read_comparison();
  result.passage.answers.assign(result.passage.characters.size(), false);
  const std::string text = figures(result);
  EXPECT_FALSE(has(text, "answer")) << text;
  EXPECT_FALSE(has(text, "question"));
}

TEST(ReadingFigures, LeaveWhatTheLossDoesNotCountWithoutShade) {
  ComparisonResult result = read_comparison();
  result.only_answers = true;
  for (VariantResult& variant : result.variants)
    variant.reading->losses = {std::nullopt, std::nullopt, std::nullopt, 0.6};
  const std::string text = figures(result);
  EXPECT_TRUE(has(text, "<pre class=\"text\">a&lt;↵\n<i class=\"l2 d\" title=\"0.600 nats"))
      << text;
  EXPECT_TRUE(has(text, "+0.600 nats an answer<"));
}

TEST(ReadingFigures, ShowWhatEachHeadLooksAtWithItsEntropy) {
  ComparisonResult result = read_comparison();
  const std::string text = figures(result);
  EXPECT_TRUE(has(text,
                  "layer 1, head 1: entropy 0.37 nats</figcaption><pre class=\"text w\">"
                  "<i title=\"2.0 %\">a</i><i class=\"l4\" title=\"90.0 %\">&lt;</i>"
                  "<i class=\"l1\" title=\"8.0 %\">↵\n</i>"
                  "<i class=\"d q\" title=\"asked for\">7</i></pre>"))
      << text;
  EXPECT_TRUE(has(text, "layer 1, head 2: entropy 1.10 nats"));
  EXPECT_EQ(count(text, "<details open=\"open\">"), 3u);
}

TEST(ReadingFigures, SayWhichLayersHaveNoScores) {
  ComparisonResult result = read_comparison();
  result.variants[1].reading->looks.insert(result.variants[1].reading->looks.begin(), {{}});
  EXPECT_EQ(count(figures(result), "layer 1 has no scores"), 1u);
  EXPECT_TRUE(has(figures(result), "layer 2, head 2"));
}

TEST(ReadingFigures, AreNotThereWithoutAReadingAndTheReasonIsSaid) {
  ComparisonResult result = read_comparison();
  for (VariantResult& variant : result.variants) {
    variant.reading.reset();
    variant.no_reading = "it is gone";
  }
  EXPECT_EQ(figures(result), "");
  expect_sound(result);
  EXPECT_TRUE(
      has(comparison_report(result), "<li>mqa has no reading of the passage: it is gone.</li>"));
}

TEST(ReadingFigures, FoldManyHeadsUpAndKeepThePageSmall) {
  ComparisonResult result = read_comparison();
  result.passage.characters.assign(400, "&");
  result.passage.entropy.assign(400, 0.25);
  result.passage.answers.assign(400, true);
  result.passage.question = 399;
  for (int more = 0; more < 6; ++more) result.variants.push_back(result.variants[0]);
  for (VariantResult& variant : result.variants) {
    variant.reading->losses.assign(400, 4.5);
    // 30 characters that are looked at enough for a number.
    HeadLook look{std::vector<double>(399, 0), 3.4};
    for (std::size_t at = 0; at < 30; ++at) look.weights[at * 13] = 1.0 / 30;
    variant.reading->looks.assign(12, std::vector<HeadLook>(12, look));
  }
  const std::string page = comparison_report(result);
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_EQ(count(page, "<details open"), 0u);
  EXPECT_EQ(count(page, "104 more heads are not shown"), 9u);
}

TEST(ReadingFigures, AreSoundWithAnyText) {
  ComparisonResult result = read_comparison();
  result.passage.characters = {"\x01", "\xff", "\"", "]]>"};
  result.variants[0].reading->losses[2] = std::numeric_limits<double>::infinity();
  expect_sound(result);
}

}  // namespace
}  // namespace headcount
