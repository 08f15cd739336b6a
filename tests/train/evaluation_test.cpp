#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
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
LanguageModel decided_model(Index context = kTinyContext, Index layers = 1) {
  LanguageModel model = tiny_model(tiny_options({{"context", context}, {"layers", layers}}));
  for (Real& x : model.parameters().all_values()) x *= 3;
  return model;
}

struct Prediction {
  Index target, position;  // of the target in the text, and of the prediction in its window
  double loss;
  bool right;
  std::vector<Real> logits;
};

// Predictions of all tokens but the first, window by window; through a cache token by token.
std::vector<Prediction> predictions(const LanguageModel& model, std::span<const std::int32_t> text,
                                    const std::vector<Index>& starts,
                                    const std::optional<CacheRounding>& rounding = std::nullopt) {
  std::vector<Prediction> all;
  const Index last = std::ssize(text) - 1, width = model.vocabulary();
  for (Index begin = 0, end = 0; begin < last; begin = end) {
    end = std::min(last, begin + model.plan()->context);
    for (const Index start : starts) end = start > begin ? std::min(end, start) : end;
    Tape tape(model.parameters());
    const Var logits = model.logits(tape, text.subspan(begin, end - begin), 1);
    std::optional<Decoder> decoder;
    if (rounding) decoder.emplace(model, DecodeOptions{.rounding = *rounding});
    for (Index t = 0; t < end - begin; ++t) {
      const auto row = decoder ? decoder->feed(text.subspan(begin + t, 1))
                               : logits.value().subspan(t * width, width);
      const Real right = row[text[begin + t + 1]];
      double sum = 0;
      for (const Real x : row) sum += std::exp(static_cast<double>(x));
      all.push_back({begin + t + 1,
                     t,
                     std::log(sum) - static_cast<double>(right),
                     *std::ranges::max_element(row) == right,
                     {row.begin(), row.end()}});
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
    EXPECT_DOUBLE_EQ(evaluation.least_answer_accuracy().value(), least);
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

// log(softmax(logits)).
std::vector<double> log_chances(const std::vector<Real>& logits) {
  std::vector<double> all(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : all) sum += std::exp(x);
  for (double& x : all) x -= std::log(sum);
  return all;
}

TEST(RoundedEvaluation, SetsEachPredictionAgainstTheUnroundedOne) {
  const Tokens text = tiny_tokens(212);
  Tokens distances(text.size(), 0);
  for (std::size_t i = 0; i < text.size(); i += 3) distances[i] = 1;
  Index all_lost = 0, all_gained = 0;
  for (const auto& [context, starts, only_answers] :
       {std::tuple{5, std::vector<Index>(), false}, {5, {0, 8, 90}, true}, {100, {}, false}}) {
    const LanguageModel model = decided_model(context, 2);
    for (const std::string cache : {"int2", "int1+layer1=f32"}) {
      const auto rounding = CacheRounding::parse(cache);
      const std::vector<Prediction> exact = predictions(model, text, starts),
                                    rounded = predictions(model, text, starts, rounding);
      Mean loss, before, kept;
      double largest = 0;
      std::vector<double> divergences;
      Index lost = 0, gained = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const bool is_answer = distances[exact[i].target] > 0;
        if (only_answers && !is_answer) continue;
        const std::vector<double> p = log_chances(exact[i].logits),
                                  q = log_chances(rounded[i].logits);
        double divergence = 0;
        for (std::size_t k = 0; k < p.size(); ++k) {
          divergence += std::exp(p[k]) * (p[k] - q[k]);
          const Real change = exact[i].logits[k] - rounded[i].logits[k];
          largest = std::max(largest, std::abs(static_cast<double>(change)));
        }
        divergences.push_back(divergence);
        loss.add(rounded[i].loss);
        before.add(exact[i].loss);
        kept.add(std::ranges::max_element(p) - p.begin() ==
                 std::ranges::max_element(q) - q.begin());
        lost += is_answer && exact[i].right && !rounded[i].right;
        gained += is_answer && !exact[i].right && rounded[i].right;
      }
      std::ranges::sort(divergences);
      const TextMarks marks = {
          .distances = distances, .starts = starts, .only_answers = only_answers};
      const Evaluation result = evaluate(model, text, {.marks = marks, .rounding = rounding});
      const RoundingChange change = result.change.value();
      EXPECT_NEAR(result.loss, loss.value(), 1e-5);
      EXPECT_NEAR(change.exact_loss, before.value(), 1e-6);
      Mean divergence;
      for (const double one : divergences) divergence.add(one);
      EXPECT_NEAR(change.divergence, divergence.value(), 1e-5);
      EXPECT_GT(change.divergence, cache == "int2" ? 1e-3 : 0) << cache;
      const auto rank = static_cast<std::size_t>(std::ceil(0.99 * std::ssize(divergences)));
      EXPECT_NEAR(change.divergence99, divergences[rank - 1], 1e-4);
      EXPECT_DOUBLE_EQ(change.same_choice, kept.value());
      EXPECT_NEAR(change.largest_change, largest, 1e-4);
      EXPECT_EQ(std::pair(change.lost.value(), change.gained.value()), std::pair(lost, gained));
      all_lost += lost;
      all_gained += gained;
    }
  }
  EXPECT_GT(std::min(all_lost, all_gained), 0) << "answers flip both ways";
  EXPECT_FALSE(evaluate(decided_model(), text).change.has_value());
  EXPECT_FALSE(evaluate(decided_model(), text, {.rounding = CacheType::int2}).change->lost);
}

// p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2): log(2) / 2 + 0 - log(2) / 4.
TEST(RowDivergence, OfThreeTokensIsThatByHand) {
  const Real two = std::log(Real{2});
  const std::array<Real, 3> p = {two, 0, 0}, q = {-1, -1, two - 1};
  EXPECT_NEAR(row_divergence(p, q), std::numbers::ln2 / 4, 1e-7);
  EXPECT_EQ(row_divergence(p, p), 0);
  const std::array<Real, 3> even = {100, 100, 100};  // 3/2 of the second half of p
  EXPECT_NEAR(row_divergence(p, even), std::log(3) - 1.5 * std::numbers::ln2, 1e-7);
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
            "answers right 97.1 % (guessing 25.0 %, commonest value shown 49.8 %)\n");
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
