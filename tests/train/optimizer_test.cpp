#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "autograd/parallel.h"
#include "autograd/random.h"
#include "train/adamw.h"
#include "train/reducer.h"

namespace headcount {
namespace {

// Puts the gradient `scale` * coefficients on every parameter: that of sum(coefficients * x).
void set_gradients(ParameterStore& store, Real scale) {
  store.clear_gradients();
  for (std::size_t i = 0; i < store.size(); ++i) {
    Tape tape(&store);
    std::vector<Real> coefficients;
    for (Index j = 0; j < store.shape({i}).size(); ++j) {
      const auto counter = static_cast<std::uint64_t>(j);
      const double deviate = random_normal({8, static_cast<std::uint32_t>(i), 0}, counter);
      coefficients.push_back(scale * static_cast<Real>(deviate));
    }
    const Var x = tape.parameter({i});
    tape.backward(sum(x * tape.constant(x.shape(), coefficients)));
  }
}

// AdamW of one number, in double and as the paper writes it.
struct Reference {
  double x = 0, m = 0, v = 0;

  void update(const AdamWSettings& adam, double rate, double g, Index step, bool decays) {
    m = adam.beta1 * m + (1 - adam.beta1) * g;
    v = adam.beta2 * v + (1 - adam.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(adam.beta1, static_cast<double>(step)));
    const double v_hat = v / (1 - std::pow(adam.beta2, static_cast<double>(step)));
    if (decays) x -= rate * adam.weight_decay * x;
    x -= rate * m_hat / (std::sqrt(v_hat) + adam.epsilon);
  }
};

class AdamWUpdate : public testing::Test {
 protected:
  AdamWUpdate() {
    // More elements than one chunk of a parallel loop.
    matrix_ = store_.add("matrix", {150, 150}, Initializer::normal(1));
    vector_ = store_.add("vector", {kElementChunk + 7}, Initializer::normal(1));
    store_.allocate();
    store_.initialize(1);
  }
  ParameterStore store_;
  ParameterId matrix_, vector_;
};

TEST_F(AdamWUpdate, FollowsThePapersFormula) {
  const AdamWSettings settings{.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3, .epsilon = 1e-3};
  AdamW adam(settings, store_);
  std::vector<std::vector<Reference>> expected(2);
  for (std::size_t i = 0; i < 2; ++i) {
    for (const Real x : store_.value({i})) expected[i].push_back({static_cast<double>(x), 0, 0});
  }
  for (Index step = 1; step <= 5; ++step) {
    const double rate = 0.1 / static_cast<double>(step), clip = 0.25 * static_cast<double>(step);
    set_gradients(store_, static_cast<Real>(step));
    for (const ParameterId id : {matrix_, vector_}) {
      const auto gradient = store_.gradient(id);
      for (std::size_t j = 0; j < gradient.size(); ++j) {
        expected[id.index][j].update(settings, rate, clip * static_cast<double>(gradient[j]), step,
                                     id.index == matrix_.index);
      }
    }
    adam.update(store_, {rate, 1, clip, step}, alone());
  }
  for (const ParameterId id : {matrix_, vector_}) {
    for (std::size_t j = 0; j < expected[id.index].size(); ++j) {
      const Reference& e = expected[id.index][j];
      ASSERT_NEAR(static_cast<double>(store_.value(id)[j]), e.x, 1e-5) << store_.name(id) << j;
      ASSERT_NEAR(static_cast<double>(adam.moments()[0].numbers.of(id)[j]), e.m, 1e-5);
      ASSERT_NEAR(static_cast<double>(adam.moments()[1].numbers.of(id)[j]), e.v, 1e-4);
    }
  }
}

TEST_F(AdamWUpdate, IsThatOfItsSettings) {
  const Given given(optimizer_settings(), {{"beta1", 0.5}, {"weight-decay", 0}});
  const auto settings = read_adamw(resolve_optimizer(given).settings);
  EXPECT_EQ(settings.beta1, 0.5);
  EXPECT_EQ(settings.beta2, AdamWSettings().beta2);
  EXPECT_EQ(settings.weight_decay, 0);
}

TEST_F(AdamWUpdate, IsGivenTheSumOfAllShardsGradients) {
  set_gradients(store_, 2);
  const std::span<const Real> all = store_.complete_gradients();
  const std::vector<Real> own(all.begin(), all.end());
  std::vector<Gradients> shards;
  for (int i = 0; i < 2; ++i) shards.emplace_back(store_);
  std::ranges::fill(store_.complete_gradients(shards[0]), Real{0.5});
  std::ranges::fill(store_.complete_gradients(shards[1]), Real{1});
  const double norm = sum_gradients(store_, shards);
  double total = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(all[i], own[i] + Real{0.5} + Real{1}) << i;
    total += std::pow(static_cast<double>(all[i]), 2);
  }
  EXPECT_NEAR(norm, std::sqrt(total), 1e-9 * norm);
}

TEST(ClipScale, ShrinksWhatIsTooLargeAsPyTorchDoes) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_DOUBLE_EQ(clip_scale(4, 1), 1 / (4 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_scale(4, 2), 2 / (4 + 1e-6));
  EXPECT_EQ(clip_scale(1e9, 0), 1);  // no limit
}

TEST(LearningRateSchedule, WarmsUpLinearlyThenFollowsHalfACosine) {
  const Schedule schedule{.peak = 1e-3, .least = 1e-4, .warmup = 100, .steps = 2100};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(schedule.at(49), 1e-3 * 50 / 101);
  EXPECT_DOUBLE_EQ(schedule.at(99), 1e-3 * 100 / 101);
  EXPECT_DOUBLE_EQ(schedule.at(100), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.at(1100), (1e-3 + 1e-4) / 2);
  EXPECT_DOUBLE_EQ(schedule.at(600), 1e-4 + 9e-4 * (1 + std::numbers::sqrt2 / 2) / 2);
  for (const Index after : {2100, 2101, 100'000}) EXPECT_DOUBLE_EQ(schedule.at(after), 1e-4);
  EXPECT_DOUBLE_EQ((Schedule{.peak = 1, .least = 0.1, .warmup = 0, .steps = 10}.at(0)), 1);
}

TEST(LearningRateSchedule, FallsLinearlyNotAtAllOrInTheLastFifth) {
  Schedule schedule{.peak = 1, .least = 0.2, .warmup = 4, .steps = 20, .decay = Decay::linear};
  const auto rates = [&](std::vector<double> expected, Index first) {
    for (const double rate : expected) EXPECT_NEAR(schedule.at(first++), rate, 1e-12) << first - 1;
  };
  rates({0.2, 0.4, 0.6, 0.8, 1, 0.95}, 0);
  rates({0.6}, 12);
  rates({0.25, 0.2, 0.2}, 19);
  schedule.decay = Decay::wsd;
  rates({0.2, 0.4, 0.6, 0.8, 1, 1}, 0);
  rates({1, 1, 0.8, 0.6, 0.4, 0.2, 0.2}, 15);
  schedule.warmup = 18;  // the decay waits for its end
  rates({18 / 19.0, 1, 0.6, 0.2}, 17);
  schedule.decay = Decay::constant;
  rates({18 / 19.0, 1, 1, 1, 1}, 17);
  EXPECT_EQ((Schedule{.peak = 0, .steps = 20, .decay = Decay::constant}.of_peak(200)), 1);
}

TEST(LearningRateSchedule, LongerWarmUpThanTheRunIsARampOfItsOwnSlope) {
  const Schedule schedule{.peak = 1, .least = 0.1, .warmup = 99, .steps = 5};
  for (Index step = 0; step < 5; ++step) {
    EXPECT_DOUBLE_EQ(schedule.at(step), static_cast<double>(step + 1) / 100);
  }
}

TEST(LearningRateSchedule, OfPeakZeroLeavesTheRateOfAnotherOptimizer) {
  const Schedule frozen{.peak = 0, .least = 0, .warmup = 3, .steps = 20};
  const Schedule usual{.peak = 2, .least = 0.2, .warmup = 3, .steps = 20};
  for (Index step = 0; step < 20; ++step)
    EXPECT_DOUBLE_EQ(frozen.of_peak(step), usual.of_peak(step));
}

}  // namespace
}  // namespace headcount
