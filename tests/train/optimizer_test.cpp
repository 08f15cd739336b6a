// programs: train reference
// AdamW against its formula, Muon against PyTorch, and the rates that both get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/parallel.h"
#include "models/checkpoint/checkpoint.h"
#include "models/language_model.h"
#include "support/numbers.h"
#include "train/adamw.h"
#include "train/muon.h"
#include "train/reducer.h"

namespace headcount {
namespace {

class AdamWUpdate : public testing::Test {
 protected:
  AdamWUpdate() {
    // More elements than one chunk of a parallel loop.
    matrix_ = store_.add("matrix", {150, 150}, Initializer::normal(1));
    vector_ = store_.add("vector", {kElementChunk + 7}, Initializer::normal(1));
    store_.allocate();
    store_.initialize(1);
  }
  // The gradients, of which each step has others; those of padding are 0.
  std::span<const Real> set_gradients(Index step) {
    store_.clear_gradients();
    const std::span<Real> gradients = store_.complete_gradients();
    for (const ParameterId id : {matrix_, vector_}) {
      const Values values =
          normal_values(static_cast<std::uint32_t>(id.index), store_.shape(id).size(), step);
      std::ranges::copy(values, gradients.begin() + offset(id));
    }
    return gradients;
  }
  Index offset(ParameterId id) { return store_.value(id).data() - store_.all_values().data(); }

  ParameterStore store_;
  ParameterId matrix_, vector_;
};

// AdamW in double and as the paper writes it; the vector does not decay.
TEST_F(AdamWUpdate, FollowsThePapersFormula) {
  const AdamWSettings adam{.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3, .epsilon = 1e-3};
  AdamW optimizer(adam, store_);
  const std::span<const Real> weights = store_.all_values();
  std::vector<double> x(weights.begin(), weights.end()), m(x.size()), v(x.size());
  for (Index step = 1; step <= 5; ++step) {
    const auto t = static_cast<double>(step);
    const double rate = 0.1 / t, clip = 0.25 * t;
    const std::span<const Real> gradients = set_gradients(step);
    for (Index i = 0; i < std::ssize(x); ++i) {
      const double g = clip * static_cast<double>(gradients[i]);
      m[i] = adam.beta1 * m[i] + (1 - adam.beta1) * g;
      v[i] = adam.beta2 * v[i] + (1 - adam.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(adam.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(adam.beta2, t));
      if (i < offset(vector_)) x[i] -= rate * adam.weight_decay * x[i];
      x[i] -= rate * m_hat / (std::sqrt(v_hat) + adam.epsilon);
    }
    optimizer.update(store_, {rate, 1, clip, step}, alone());
  }
  const auto expect_near = [](std::span<const Real> ours, const std::vector<double>& expected,
                              double tolerance) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(static_cast<double>(ours[i]), expected[i], tolerance) << i;
  };
  expect_near(weights, x, 1e-5);
  expect_near(optimizer.moments()[0].numbers.all(), m, 1e-5);
  expect_near(optimizer.moments()[1].numbers.all(), v, 1e-4);
}

TEST_F(AdamWUpdate, IsThatOfItsSettings) {
  const Given given(optimizer_settings(), {{"beta1", 0.5}, {"weight-decay", 0}});
  const auto settings = read_adamw(resolve_optimizer(given).settings);
  EXPECT_EQ(settings.beta1, 0.5);
  EXPECT_EQ(settings.beta2, AdamWSettings().beta2);
  EXPECT_EQ(settings.weight_decay, 0);
}

TEST_F(AdamWUpdate, IsGivenTheSumOfAllShardsGradients) {
  const std::span<const Real> all = set_gradients(2);
  const std::vector<Real> own(all.begin(), all.end());
  std::vector<Gradients> shards;
  for (const Real number : {Real{0.5}, Real{1}})
    std::ranges::fill(store_.complete_gradients(shards.emplace_back(store_)), number);
  const double norm = sum_gradients(store_, shards);
  double squares = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(all[i], own[i] + Real{0.5} + Real{1}) << i;
    squares += std::pow(static_cast<double>(all[i]), 2);
  }
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-9 * norm);
}

// Five updates of torch.optim.Muon in float64 (PyTorch 2.14).
class MuonFixture : public testing::TestWithParam<std::string> {
 protected:
  // Tensor `part` of update `step`: w, weights after it; g, its gradient; m, momentum after it.
  Values numbers(const std::string& part, int step) const {
    const TensorView& tensor = file_.at(part + std::to_string(step) + "." + GetParam());
    Values values(tensor.element_count());
    read_into(tensor, values);
    return values;
  }

  Safetensors file_ = open_safetensors(HEADCOUNT_FIXTURE_FOLDER "/optimizer/muon.safetensors");
};

TEST_P(MuonFixture, GivesTheWeightsAndMomentsOfFiveUpdates) {
  constexpr double kTolerance = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-4;
  const auto& shape = file_.at("w0." + GetParam()).shape;
  ParameterStore store;
  const ParameterId id = store.add("matrix", {shape[0], shape[1]}, Initializer::zeros());
  store.allocate();
  std::ranges::copy(numbers("w", 0), store.value(id).begin());
  Muon muon({.learning_rate = 0.02, .momentum = 0.95, .weight_decay = 0.1}, {}, store);
  for (int step = 1; step <= 5; ++step) {
    std::ranges::copy(numbers("g", step), store.complete_gradients().begin());
    muon.update(store, {.step = step}, alone());
    EXPECT_LT(difference(numbers("w", step), store.value(id)), kTolerance) << step;
    EXPECT_LT(difference(numbers("m", step), muon.moments()[0].numbers.of(id)), kTolerance) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Matrices, MuonFixture, testing::Values("wide", "tall", "square"),
                         [](const auto& matrix) { return matrix.param; });

ModelPlan small_model(const std::string& attention) {
  return resolve_model(Given(model_settings(), {{"attention", attention},
                                                {"layers", 2},
                                                {"dim", 32},
                                                {"positions", "learned"},
                                                {"tie-embeddings", "off"},
                                                {"context", 16}}));
}

TEST(Muon, TrainsTheMatricesOfLayersAndNothingElse) {
  for (const std::string attention : {"mha", "mla", "delta", "kda"}) {
    const LanguageModel model(small_model(attention), 10);
    const ParameterStore& store = model.parameters();
    for (std::size_t i = 0; i < store.size(); ++i) {
      const std::string& name = store.name({i});
      const bool of_layer = name.find(".layers.") != std::string::npos;
      EXPECT_EQ(store.maps_features({i}), of_layer && store.shape({i}).rank() == 2) << name;
    }
  }
}

// Parameters that Muon does not train change as by AdamW alone.
TEST(Muon, LeavesTheOtherParametersToAdamW) {
  LanguageModel by_muon(small_model("mha"), 10), by_adamw(small_model("mha"), 10);
  ParameterStore &a = by_muon.parameters(), &b = by_adamw.parameters();
  for (LanguageModel* model : {&by_muon, &by_adamw}) model->initialize(1);
  Muon muon({}, {}, a);
  AdamW adamw({}, b);
  for (const auto& [store, optimizer] :
       {std::pair<ParameterStore*, Optimizer*>{&a, &muon}, {&b, &adamw}}) {
    const std::span<Real> gradients = store->complete_gradients();
    std::ranges::copy(normal_values(4, std::ssize(gradients)), gradients.begin());
    optimizer->update(*store, {.learning_rate = 0.01}, alone());
  }
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::ranges::equal(a.value({i}), b.value({i})), !a.maps_features({i})) << a.name({i});
}

// Matrices with rows of very different sizes, as gradients have them. Columns of zeros change no
// number; with many of them, the iteration is on the Gram matrix, which squares the differences.
// The fixtures hold either way against PyTorch.
TEST(Orthogonalize, ComputesTheSameByTheGramMatrixAndOfTheTranspose) {
  constexpr Index kRows = 24, kCols = 30;
  const Values normal = normal_values(3, kRows * kCols);
  const auto result = [&](Index cols, bool tall) {
    Values x(kRows * cols), scratch, numbers;
    std::vector<Index> places;
    for (Index i = 0; i < kRows * kCols; ++i) {
      const Index row = i / kCols, col = i % kCols;
      places.push_back(tall ? col * kRows + row : row * cols + col);
      x[places[i]] = normal[i] * std::pow(Real{10}, Real{-4} * row / kRows);
    }
    const auto y = orthogonalize(x, tall ? cols : kRows, tall ? kRows : cols, scratch);
    for (const Index place : places) numbers.push_back(y[place]);
    return numbers;
  };
  const Values direct = result(kCols, false);
  for (const auto& [cols, tall] : {std::pair{kCols, true}, {96, false}, {96, true}})
    EXPECT_LT(difference(direct, result(cols, tall)), 1e-3) << cols;
}

TEST(Orthogonalize, LeavesZerosAlone) {
  std::vector<Real> x(12), scratch;
  for (const Real number : orthogonalize(x, 3, 4, scratch)) EXPECT_EQ(number, 0);
}

TEST(ClipScale, ShrinksWhatIsTooLargeAsPyTorchDoes) {
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(0, 1), 1);
  EXPECT_DOUBLE_EQ(clip_scale(4, 1), 1 / (4 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_scale(4, 2), 2 / (4 + 1e-6));
  EXPECT_EQ(clip_scale(1e9, 0), 1);  // no limit
}

// Rates from step `first` on.
void expect_rates(const Schedule& schedule, Index first, const std::vector<double>& expected) {
  for (const double rate : expected) {
    EXPECT_NEAR(schedule.at(first), rate, 1e-12) << first;
    ++first;
  }
}

TEST(LearningRateSchedule, WarmsUpLinearlyThenFollowsHalfACosine) {
  const Schedule schedule{.peak = 1e-3, .least = 1e-4, .warmup = 100, .steps = 2100};
  expect_rates(schedule, 0, {1e-3 / 101});
  expect_rates(schedule, 49, {1e-3 * 50 / 101});
  expect_rates(schedule, 99, {1e-3 * 100 / 101, 1e-3});
  expect_rates(schedule, 600, {1e-4 + 9e-4 * (1 + std::numbers::sqrt2 / 2) / 2});
  expect_rates(schedule, 1100, {(1e-3 + 1e-4) / 2});
  expect_rates(schedule, 2100, {1e-4, 1e-4});
  expect_rates(schedule, 100'000, {1e-4});
  expect_rates({.peak = 1, .least = 0.1, .warmup = 0, .steps = 10}, 0, {1});
}

TEST(LearningRateSchedule, FallsLinearlyNotAtAllOrInTheLastFifth) {
  Schedule schedule{.peak = 1, .least = 0.2, .warmup = 4, .steps = 20, .decay = Decay::linear};
  expect_rates(schedule, 0, {0.2, 0.4, 0.6, 0.8, 1, 0.95});
  expect_rates(schedule, 12, {0.6});
  expect_rates(schedule, 19, {0.25, 0.2, 0.2});
  schedule.decay = Decay::wsd;
  expect_rates(schedule, 0, {0.2, 0.4, 0.6, 0.8, 1, 1});
  expect_rates(schedule, 15, {1, 1, 0.8, 0.6, 0.4, 0.2, 0.2});
  schedule.warmup = 18;  // the decay waits for its end
  expect_rates(schedule, 17, {18 / 19.0, 1, 0.6, 0.2});
  schedule.decay = Decay::constant;
  expect_rates(schedule, 17, {18 / 19.0, 1, 1, 1, 1});
  schedule.peak = 0;
  EXPECT_EQ(schedule.of_peak(200), 1);
}

TEST(LearningRateSchedule, LongerWarmUpThanTheRunIsARampOfItsOwnSlope) {
  expect_rates({.peak = 1, .least = 0.1, .warmup = 99, .steps = 5}, 0,
               {0.01, 0.02, 0.03, 0.04, 0.05});
}

TEST(LearningRateSchedule, OfPeakZeroLeavesTheRateOfAnotherOptimizer) {
  const Schedule frozen{.peak = 0, .least = 0, .warmup = 3, .steps = 20},
      usual{.peak = 2, .least = 0.2, .warmup = 3, .steps = 20};
  for (Index step = 0; step < 20; ++step)
    EXPECT_DOUBLE_EQ(frozen.of_peak(step), usual.of_peak(step));
}

}  // namespace
}  // namespace headcount
