// programs: train reference
// Muon's updates against torch.optim.Muon in float64 (PyTorch 2.14).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "models/checkpoint/checkpoint.h"
#include "train/muon.h"

namespace headcount {
namespace {

constexpr double kMuonTolerance = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-4;

class MuonFixture : public testing::TestWithParam<std::string> {
 protected:
  // Tensor `part` of update `step`: w, weights after it; g, its gradient; m, momentum after it.
  std::vector<Real> numbers(const std::string& part, int step) const {
    const TensorView& tensor = file_.at(part + std::to_string(step) + "." + GetParam());
    std::vector<Real> values(tensor.element_count());
    read_into(tensor, values);
    return values;
  }
  void expect_near(std::span<const Real> ours, const std::vector<Real>& theirs,
                   const std::string& what) const {
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], kMuonTolerance) << what << " " << i;
  }

  Safetensors file_ = open_safetensors(std::filesystem::path(HEADCOUNT_FIXTURE_FOLDER) /
                                       "optimizer" / "muon.safetensors");
};

TEST_P(MuonFixture, GivesTheWeightsAndMomentsOfFiveUpdates) {
  const auto& shape = file_.at("w0." + GetParam()).shape;
  ParameterStore store;
  const ParameterId id = store.add("matrix", {shape[0], shape[1]}, Initializer::zeros());
  store.allocate();
  std::ranges::copy(numbers("w", 0), store.value(id).begin());
  Muon muon({.learning_rate = 0.02, .momentum = 0.95, .weight_decay = 0.1}, {}, store);
  for (int step = 1; step <= 5; ++step) {
    store.clear_gradients();
    Tape tape(&store);
    const Var w = tape.parameter(id);
    tape.backward(sum(w * tape.constant(w.shape(), numbers("g", step))));
    muon.update(store, {.step = step}, alone());
    expect_near(store.value(id), numbers("w", step), "weight");
    expect_near(muon.moments()[0].numbers.of(id), numbers("m", step), "momentum");
  }
}

INSTANTIATE_TEST_SUITE_P(Matrices, MuonFixture, testing::Values("wide", "tall", "square"),
                         [](const auto& matrix) { return matrix.param; });

}  // namespace
}  // namespace headcount
