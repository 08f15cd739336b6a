#include "train/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "models/language_model.h"
#include "train/options.h"

namespace headcount {
namespace {

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
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  Muon muon({}, {}, by_muon.parameters());
  AdamW adamw({}, by_adamw.parameters());
  for (const auto& [model, optimizer] :
       {std::pair<LanguageModel*, Optimizer*>{&by_muon, &muon}, {&by_adamw, &adamw}}) {
    model->initialize(1);
    Tape tape(&model->parameters());
    tape.backward(model->loss(tape, tokens, tokens, 1).cross_entropy);
    optimizer->update(model->parameters(), {.learning_rate = 0.01}, alone());
  }
  const ParameterStore &a = by_muon.parameters(), &b = by_adamw.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(std::ranges::equal(a.value({i}), b.value({i})), !a.maps_features({i})) << a.name({i});
  }
}

// Matrices with rows of very different sizes, as gradients have them. Columns of zeros change no
// number; with many of them, the iteration is on the Gram matrix, which squares the differences.
// muon_reference_test.cpp holds either way against PyTorch.
TEST(Orthogonalize, ComputesTheSameByTheGramMatrixAndOfTheTranspose) {
  constexpr Index kRows = 24, kCols = 30;
  const auto result = [&](Index cols, bool tall) {
    const auto at = [&](Index row, Index col) {
      return static_cast<std::size_t>(tall ? col * kRows + row : row * cols + col);
    };
    std::vector<Real> x(static_cast<std::size_t>(kRows * cols)), scratch, numbers;
    for (Index row = 0; row < kRows; ++row)
      for (Index col = 0; col < kCols; ++col)
        x[at(row, col)] = static_cast<Real>(
            random_normal({3, 1, 0}, static_cast<std::uint64_t>(row * kCols + col)) *
            std::pow(10, -4.0 * static_cast<double>(row) / kRows));
    const std::span<const Real> y =
        orthogonalize(x, tall ? cols : kRows, tall ? kRows : cols, scratch);
    for (Index row = 0; row < kRows; ++row)
      for (Index col = 0; col < kCols; ++col) numbers.push_back(y[at(row, col)]);
    return numbers;
  };
  const std::vector<Real> direct = result(kCols, false);
  for (const auto& [cols, tall] : {std::pair{kCols, true}, {96, false}, {96, true}}) {
    const std::vector<Real> other = result(cols, tall);
    for (std::size_t i = 0; i < direct.size(); ++i)
      ASSERT_NEAR(other[i], direct[i], 1e-3) << cols << " " << i;
  }
}

TEST(Orthogonalize, LeavesZerosAlone) {
  std::vector<Real> x(12), scratch;
  for (const Real number : orthogonalize(x, 3, 4, scratch)) EXPECT_EQ(number, 0);
}

}  // namespace
}  // namespace headcount
