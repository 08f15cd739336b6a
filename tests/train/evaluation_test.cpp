#include "train/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

// 23 tokens have 22 targets: four windows of five and one of two.
class EvaluationOfAText : public testing::Test {
 protected:
  EvaluationOfAText() : model_(tiny_model(tiny_options())), tokens_(tiny_tokens(23)) {
    for (Real& x : model_.parameters().all_values()) x *= 3;
  }
  // Makes all logits equal: token 0 is predicted everywhere.
  void predict_zero() {
    ParameterStore& parameters = model_.parameters();
    std::ranges::fill(parameters.value(parameters.find("lm_head.weight")), Real{0});
  }
  // A mark at each of these places, of a text of 23 tokens.
  static Tokens marks(const std::vector<std::pair<std::size_t, std::int32_t>>& places) {
    Tokens distances(23, 0);
    for (const auto& [at, distance] : places) distances[at] = distance;
    return distances;
  }
  LanguageModel model_;
  Tokens tokens_;
};

TEST_F(EvaluationOfAText, IsTheMeanOverEachTargetOnce) {
  double total = 0;
  Index right = 0;
  Tape tape(model_.parameters());
  for (std::size_t begin = 0; begin < 22; begin += 5) {
    const std::size_t length = std::min<std::size_t>(5, 22 - begin);
    tape.reset();
    const Var logits = model_.logits(tape, std::span(tokens_).subspan(begin, length), 1);
    for (std::size_t t = 0; t < length; ++t) {
      const auto row = logits.value().subspan(t * 7, 7);
      const auto target = static_cast<std::size_t>(tokens_[begin + t + 1]);
      double sum = 0;
      for (const Real x : row) sum += std::exp(static_cast<double>(x));
      total += std::log(sum) - static_cast<double>(row[target]);
      right += *std::ranges::max_element(row) == row[target];
    }
  }
  const Evaluation evaluation = evaluate(model_, tokens_);
  EXPECT_EQ(evaluation.characters, 22);
  EXPECT_NEAR(evaluation.loss, total / 22, 1e-6);
  EXPECT_DOUBLE_EQ(evaluation.accuracy, static_cast<double>(right) / 22);
  EXPECT_FALSE(evaluation.answer_accuracy.has_value());
}

TEST_F(EvaluationOfAText, RefusesNumbersThatAreNotFinite) {
  const auto refusal = [&](const EvaluationOptions& options) {
    return message_of<NonFiniteError>([&] { evaluate(model_, tokens_, options); });
  };
  ParameterStore& parameters = model_.parameters();
  const auto weight = [&](const char* name) { return parameters.value(parameters.find(name)); };
  EXPECT_EQ(refusal({.attention_stats = true}), "no error");
  // Logits of 3e38 and -3e38: their difference, a loss, overflows.
  for (Real& x : parameters.all_values()) x = 0;
  std::ranges::fill(weight("model.embed_tokens.weight"), Real{1});
  weight("model.norm.weight")[0] = Real{3e38F};
  const auto head = weight("lm_head.weight");
  for (std::size_t token = 0; token < kTinyVocabulary; ++token)
    head[token * head.size() / kTinyVocabulary] = token % 2 == 0 ? 1 : -1;
  EXPECT_TRUE(refusal({}).starts_with("the loss")) << refusal({});
  head[0] = 2;
  EXPECT_TRUE(refusal({}).find("all weights are: numbers grow too large") != std::string::npos)
      << refusal({});
  weight("model.layers.0.self_attn.k_proj.weight")[3] = std::numeric_limits<Real>::quiet_NaN();
  for (const EvaluationOptions& options :
       {EvaluationOptions{}, {.attention_stats = true}, {.rounding = CacheType::int8}})
    EXPECT_TRUE(refusal(options).find(
                    "because model.layers.0.self_attn.k_proj.weight is nan at element 3") !=
                std::string::npos)
        << refusal(options);
}

TEST(AnswersLine, SetsThemAgainstWhatIsRightWithoutALookup) {
  Evaluation evaluation;
  const Baselines baselines = {.guesser = 0.25, .copier = 0.3064, .commonest = 0.4984};
  EXPECT_EQ(answers_line(evaluation, baselines, true), "");
  evaluation.answer_accuracy = 0.971;
  EXPECT_EQ(answers_line(evaluation, baselines, true),
            "answers right 97.1 % (guessing 25.0 %, copying answers 30.6 %, the commonest value "
            "49.8 %, at most 100 %)\n");
  EXPECT_EQ(answers_line(evaluation, baselines, false),
            "answers right 97.1 % (guessing 25.0 %, copying answers 30.6 %, the commonest value "
            "49.8 %)\n");
}

TEST_F(EvaluationOfAText, AsksBeforeEachBatchWhetherToStop) {
  static std::atomic<int> asked;
  asked = 0;
  const std::vector<std::int32_t> many(6401, 1);
  const double loss = evaluate(model_, many, {.stop = [] { return ++asked < 0; }}).loss;
  EXPECT_GE(asked, 100);  // a batch has 64 characters at most
  EXPECT_EQ(loss, evaluate(model_, many).loss);
  asked = 0;
  EXPECT_THROW(evaluate(model_, many, {.stop = [] { return ++asked > 3; }}), EvaluationStopped);
}

TEST_F(EvaluationOfAText, ScoresTheAnswersThatAreMarkedApart) {
  predict_zero();  // which is right where the text has it
  for (std::size_t answer = 1; answer < 23; ++answer) {
    EXPECT_EQ(
        evaluate(model_, tokens_, {.marks = {.distances = marks({{answer, 1}})}}).answer_accuracy,
        std::optional<double>(tokens_[answer] == 0))
        << answer;
  }
  const auto zeros = static_cast<double>(std::count(tokens_.begin() + 1, tokens_.end(), 0));
  EXPECT_GT(zeros, 0);
  const Evaluation all = evaluate(model_, tokens_, {.marks = {.distances = Tokens(23, 1)}});
  EXPECT_DOUBLE_EQ(all.accuracy, zeros / 22);
  EXPECT_EQ(all.answer_accuracy, std::optional(all.accuracy));
  // The first character is not predicted.
  EXPECT_FALSE(evaluate(model_, tokens_, {.marks = {.distances = marks({{0, 1}})}})
                   .answer_accuracy.has_value());
  const auto is_zero = [&](std::size_t at) { return Index{tokens_[at] == 0}; };
  const Tokens told = marks({{5, 1}, {9, 4}, {20, 7}, {22, 8}});  // so far back
  EXPECT_EQ(evaluate(model_, tokens_, {.marks = {.distances = told}}).answers_by_distance,
            (std::vector<AnswersAt>{
                {1, 1, is_zero(5)}, {4, 2, is_zero(9) + is_zero(20)}, {8, 1, is_zero(22)}}));
}

TEST_F(EvaluationOfAText, LossIsOfAnswersAloneWhereItIsToldTo) {
  const auto of = [&](const Tokens& marked, std::optional<CacheType> type = std::nullopt) {
    return evaluate(model_, tokens_,
                    {.marks = {.distances = marked, .only_answers = true}, .rounding = type});
  };
  const Tokens answers = marks({{4, 1}, {17, 1}});
  const Evaluation both = of(answers), first = of(marks({{4, 1}})), second = of(marks({{17, 1}}));
  EXPECT_EQ(both.characters, 2);
  EXPECT_EQ(first.characters, 1);
  EXPECT_NEAR(both.loss, (first.loss + second.loss) / 2, 1e-6);
  EXPECT_NE(first.loss, second.loss);
  EXPECT_NEAR(of(answers, CacheType::real).loss, both.loss, 1e-6);
  EXPECT_EQ(both.answer_accuracy, std::optional(both.accuracy));
}

TEST_F(EvaluationOfAText, BeginsItsWindowsWhereStoriesBegin) {
  const std::vector<Index> starts = {0, 8};
  const Evaluation whole = evaluate(model_, tokens_, {.marks = {.starts = starts}});
  EXPECT_EQ(whole.characters, 22);
  // The second story alone, and the first one with the letter that follows it.
  const Evaluation first = evaluate(model_, std::span(tokens_).first(9));
  const Evaluation second = evaluate(model_, std::span(tokens_).subspan(8));
  EXPECT_NEAR(whole.loss, (8 * first.loss + 14 * second.loss) / 22, 1e-5);
}

TEST_F(EvaluationOfAText, HasTheLossesOfItsSixteenStretches) {
  const Index length = 16 * 60;  // parts are windows of at most 64 tokens
  const Tokens text = tiny_tokens(length + 1);
  const Evaluation whole = evaluate(model_, text);
  ASSERT_EQ(whole.loss_by_block.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(whole.loss_by_block[i], evaluate(model_, std::span(text).subspan(60 * i, 61)).loss,
                1e-6);
  }
  EXPECT_TRUE(evaluate(model_, std::span(text).first(100)).loss_by_block.empty()) << "few parts";
}

TEST(LossByPosition, IsTheMeanOfEachRangeOfPositions) {
  nlohmann::json settings = {{"layers", 1}, {"dim", 16}, {"context", 100}};
  const LanguageModel model =
      tiny_model(resolve_training(Given(training_settings(), std::move(settings))));
  const Tokens tokens = tiny_tokens(201);  // two windows of 100 predictions
  const Evaluation evaluation = evaluate(model, tokens);
  const std::vector<LossAt>& losses = evaluation.loss_by_position;
  ASSERT_EQ(losses.size(), 3u);
  double total = 0;
  const std::array<std::pair<Index, Index>, 3> expected = {{{0, 64}, {32, 64}, {64, 72}}};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(std::pair(losses[i].from, losses[i].characters), expected[i]);
    total += losses[i].loss * static_cast<double>(losses[i].characters);
  }
  EXPECT_NEAR(total / 200, evaluation.loss, 1e-6);
  // The first range is what the model knows of texts of 32 predictions.
  Tape tape(model.parameters());
  const auto of_a_text = [&](std::size_t begin) {
    const auto text = std::span(tokens).subspan(begin, 33);
    tape.reset();
    return static_cast<double>(
        model.loss(tape, text.first(32), text.last(32), 1).cross_entropy.item());
  };
  EXPECT_NEAR(losses[0].loss, (of_a_text(0) + of_a_text(100)) / 2, 1e-6);
}

TEST(LossByPosition, LineNamesTheRanges) {
  EXPECT_EQ(loss_by_position_line(std::array<LossAt, 1>{{{0, 64, 2.0}}}, 128), "");
  const std::array<LossAt, 3> losses = {{{0, 64, 2.5}, {32, 64, 2}, {64, 8, 1}}};
  EXPECT_EQ(loss_by_position_line(losses, 128),
            "loss by position 0-31: 2.5000, 32-63: 2.0000, 64-127: 1.0000\n");
  EXPECT_EQ(loss_by_position_line(losses, 68),
            "loss by position 0-31: 2.5000, 32-63: 2.0000, 64-67: 1.0000\n");
}

}  // namespace
}  // namespace headcount
