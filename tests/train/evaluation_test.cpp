#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

// A model whose predictions differ much from one token to another.
LanguageModel decided_model(Index context = kTinyContext) {
  LanguageModel model = tiny_model(tiny_options({{"context", context}}));
  for (Real& x : model.parameters().all_values()) x *= 3;
  return model;
}

struct Prediction {
  Index target, position;  // of the target in the text, and of the prediction in its window
  double loss;
  bool right;
};

// Predictions of all tokens but the first, window by window.
std::vector<Prediction> predictions(const LanguageModel& model, std::span<const std::int32_t> text,
                                    const std::vector<Index>& starts) {
  std::vector<Prediction> all;
  const Index last = std::ssize(text) - 1, width = model.vocabulary();
  for (Index begin = 0, end = 0; begin < last; begin = end) {
    end = std::min(last, begin + model.plan()->context);
    for (const Index start : starts) end = start > begin ? std::min(end, start) : end;
    Tape tape(model.parameters());
    const Var logits = model.logits(tape, text.subspan(begin, end - begin), 1);
    for (Index t = 0; t < end - begin; ++t) {
      const auto row = logits.value().subspan(t * width, width);
      const Real right = row[text[begin + t + 1]];
      double sum = 0;
      for (const Real x : row) sum += std::exp(static_cast<double>(x));
      all.push_back({begin + t + 1, t, std::log(sum) - static_cast<double>(right),
                     *std::ranges::max_element(row) == right});
    }
  }
  return all;
}

struct Mean {
  double sum = 0;
  Index count = 0;
  void add(double number) {
    sum += number;
    ++count;
  }
  double value() const { return sum / static_cast<double>(count); }
};

TEST(EvaluationOfAText, IsOfEachPredictionOnce) {
  const std::vector<Index> stories = {0, 8, 90};
  for (const auto& [context, starts, only_answers] : {std::tuple{5, std::vector<Index>(), false},
                                                      {5, stories, false},
                                                      {5, stories, true},
                                                      {100, {}, false},
                                                      {100, stories, true}}) {
    const LanguageModel model = decided_model(context);
    const Tokens text = tiny_tokens(212);
    Tokens distances(text.size(), 0);
    for (std::size_t i = 0; i < text.size(); i += 3) distances[i] = 1 + (i * 7) % 20;
    // Every third token, from token 1 on, is a question, in one of two directions.
    std::vector<Index> directions;
    for (Index token = 0; token < kTinyVocabulary; ++token)
      directions.push_back(token % 3 == 1 ? token / 3 % 2 * 7 : -1);
    Mean loss, accuracy, answers;
    std::map<Index, Mean> by_distance, by_direction, by_position;
    for (const Prediction& at : predictions(model, text, starts)) {
      const std::uint32_t distance = distances[at.target], position = at.position;
      if (only_answers && distance == 0) continue;
      loss.add(at.loss);
      accuracy.add(at.right);
      by_position[position < 32 ? 0 : std::bit_floor(position)].add(at.loss);
      if (distance == 0) continue;
      answers.add(at.right);
      by_distance[std::bit_floor(distance)].add(at.right);
      const Index direction = directions[text[at.target - 1]];
      if (direction >= 0) by_direction[direction].add(at.right);
    }
    const TextMarks marks = {.distances = distances,
                             .starts = starts,
                             .only_answers = only_answers,
                             .directions = directions};
    const Evaluation evaluation = evaluate(model, text, {.marks = marks});
    EXPECT_EQ(evaluation.characters, loss.count);
    EXPECT_NEAR(evaluation.loss, loss.value(), 1e-6);
    EXPECT_DOUBLE_EQ(evaluation.accuracy, accuracy.value());
    EXPECT_NEAR(evaluate(model, text, {.marks = marks, .rounding = CacheType::real}).loss,
                loss.value(), 1e-6);
    std::vector<AnswersAt> expected;
    for (const auto& [from, right] : by_distance)
      expected.push_back({from, right.count, std::lround(right.sum)});
    EXPECT_EQ(evaluation.answers_by_distance, expected);
    EXPECT_DOUBLE_EQ(evaluation.answer_accuracy.value(), answers.value());
    double least = 1;
    std::vector<AnswersIn> in_directions;
    for (const auto& [direction, right] : by_direction) {
      in_directions.push_back({direction, right.count, std::lround(right.sum)});
      least = std::min(least, right.value());
    }
    EXPECT_EQ(evaluation.answers_by_direction, in_directions);
    EXPECT_EQ(in_directions.size(), 2u);
    EXPECT_DOUBLE_EQ(least_answer_accuracy(evaluation).value(), least);
    ASSERT_EQ(evaluation.loss_by_position.size(), by_position.size());
    auto range = by_position.begin();
    for (const LossAt& at : evaluation.loss_by_position) {
      EXPECT_EQ(std::pair(at.from, at.characters), std::pair(range->first, range->second.count));
      EXPECT_NEAR(at.loss, range->second.value(), 1e-6);
      ++range;
    }
  }
  EXPECT_FALSE(evaluate(decided_model(), tiny_tokens(23)).answer_accuracy.has_value());
}

TEST(EvaluationOfAText, RefusesNumbersThatAreNotFinite) {
  LanguageModel model = decided_model();
  const auto refusal = [&] {
    return message_of<NonFiniteError>([&] { evaluate(model, tiny_tokens(23)); });
  };
  ParameterStore& parameters = model.parameters();
  const auto weight = [&](const char* name) { return parameters.value(parameters.find(name)); };
  // Logits of 3e38 and -3e38: their difference, a loss, overflows.
  for (Real& x : parameters.all_values()) x = 0;
  std::ranges::fill(weight("model.embed_tokens.weight"), Real{1});
  weight("model.norm.weight")[0] = Real{3e38F};
  const auto head = weight("lm_head.weight");
  for (std::size_t token = 0; token < kTinyVocabulary; ++token)
    head[token * head.size() / kTinyVocabulary] = token % 2 == 0 ? 1 : -1;
  EXPECT_TRUE(refusal().starts_with("the loss")) << refusal();
  head[0] = 2;
  EXPECT_NE(refusal().find("all weights are: numbers grow too large"), std::string::npos);
}

TEST(AnswersLine, SetsThemAgainstWhatIsRightWithoutALookup) {
  Evaluation evaluation;
  const Baselines baselines = {.guesser = 0.25, .copier = 0.3064, .commonest = 0.4984};
  EXPECT_EQ(answers_line(evaluation, baselines, true), "");
  evaluation.answer_accuracy = 0.971;
  EXPECT_EQ(answers_line(evaluation, baselines, false),
            "answers right 97.1 % (guessing 25.0 %, copying answers 30.6 %, the commonest value "
            "49.8 %)\n");
  evaluation.answers_by_direction = {{0, 200, 196}, {3, 200, 181}};
  EXPECT_TRUE(answers_line(evaluation, baselines, false)
                  .starts_with("answers right 97.1 %, in the worst of 2 directions 90.5 % (guess"));
}

TEST(EvaluationOfAText, HasTheLossesOfItsSixteenStretches) {
  const LanguageModel model = decided_model();
  const Tokens all = tiny_tokens(16 * 60 + 1);  // parts are windows of at most 64 tokens
  const std::span<const std::int32_t> text = all;
  const std::vector<double> losses = evaluate(model, text).loss_by_block;
  ASSERT_EQ(losses.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(losses[i], evaluate(model, text.subspan(60 * i, 61)).loss, 1e-6);
  EXPECT_TRUE(evaluate(model, text.first(100)).loss_by_block.empty()) << "few parts";
}

TEST(LossByPositionLine, NamesTheRanges) {
  const std::array<LossAt, 3> losses = {{{0, 64, 2.5}, {32, 64, 2}, {64, 8, 1}}};
  EXPECT_EQ(loss_by_position_line(losses, 68),
            "loss by position 0-31: 2.5000, 32-63: 2.0000, 64-67: 1.0000\n");
  EXPECT_EQ(loss_by_position_line(std::span(losses).first(1), 128), "");
}

}  // namespace
}  // namespace headcount
