// programs: train reference
// Muon against PyTorch, and the rates that optimizers get. models/reference_test.cpp holds AdamW
// against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/language_model.h"
#include "support/numbers.h"
#include "train/adamw.h"
#include "train/muon.h"

namespace headcount {
namespace {

TEST(AdamW, HasTheNumbersOfItsSettings) {
  const Given given(optimizer_settings(), {{"beta1", 0.5}, {"weight-decay", 0}});
  const auto settings = read<AdamWSettings>(resolve_optimizer(given).settings);
  EXPECT_EQ(settings.beta1, 0.5);
  EXPECT_EQ(settings.beta2, AdamWSettings().beta2);
  EXPECT_EQ(settings.weight_decay, 0);
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
    muon.update(store, {.step = step});
    EXPECT_LT(difference(numbers("w", step), store.value(id)), kTolerance) << step;
    EXPECT_LT(difference(numbers("m", step), muon.moments()[0].numbers.of(id)), kTolerance) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Matrices, MuonFixture, testing::Values("wide", "tall", "square"),
                         [](const auto& matrix) { return matrix.param; });

// Muon trains the matrices of layers; the other parameters change as by AdamW alone.
TEST(Muon, LeavesAllButTheMatricesOfLayersToAdamW) {
  for (const std::string attention : {"mha", "mla", "delta", "kda"}) {
    const ModelPlan plan = resolve_model(
        Given(model_settings(),
              {{"attention", attention}, {"layers", 2}, {"dim", 32}, {"positions", "learned"}}));
    LanguageModel by_muon(plan, 10), by_adamw(plan, 10);
    for (LanguageModel* model : {&by_muon, &by_adamw}) model->initialize(1);
    ParameterStore &a = by_muon.parameters(), &b = by_adamw.parameters();
    Muon muon({}, {}, a);
    AdamW adamw({}, b);
    for (const auto& [store, optimizer] :
         {std::pair<ParameterStore*, Optimizer*>{&a, &muon}, {&b, &adamw}}) {
      const std::span<Real> gradients = store->complete_gradients();
      std::ranges::copy(normal_values(4, std::ssize(gradients)), gradients.begin());
      optimizer->update(*store, {.learning_rate = 0.01});
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool of_layer = a.name({i}).find(".layers.") != std::string::npos;
      EXPECT_EQ(std::ranges::equal(a.value({i}), b.value({i})),
                !of_layer || a.shape({i}).rank() != 2)
          << attention << " " << a.name({i});
    }
  }
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
  expect_rates({.peak = 1, .least = 0.1, .warmup = 99, .steps = 5}, 0, {0.01, 0.02, 0.03});
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
  // A rate of zero leaves another optimizer its own.
  const Schedule zero{.peak = 0, .least = 0, .warmup = 3, .steps = 20};
  EXPECT_EQ(zero.of_peak(0), 0.25);
  EXPECT_EQ(zero.of_peak(200), 0.1);
}

}  // namespace
}  // namespace headcount
