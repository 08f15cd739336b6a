// programs: headcount_own
// An optimizer that a user of the library adds, in one file. It is linked into a program of its
// own; nothing else names it.
//
// Lion without weight decay (Chen et al. 2023): x = x - rate sign(beta1 m + (1 - beta1) g), then
// m = momentum m + (1 - momentum) g.
#include <array>
#include <cmath>
#include <memory>

#include "train/optimizer.h"

namespace headcount {
namespace {

constexpr std::array<std::string_view, 1> kMoments = {"mean"};

class Lion : public Optimizer {
 public:
  Lion(double momentum, const ParameterStore& parameters)
      : Optimizer(parameters, kMoments), momentum_(momentum) {}

  void update(ParameterStore& parameters, const Update& at) override {
    constexpr Real kBeta1{0.9F};
    const auto rate = static_cast<Real>(at.learning_rate);
    const auto scale = static_cast<Real>(at.gradient_scale);
    const auto momentum = static_cast<Real>(momentum_);
    const std::span<Real> x = parameters.all_values(), mean = moments()[0].numbers.all();
    const std::span<const Real> gradients = parameters.complete_gradients();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real g = gradients[i] * scale;
      x[i] -= std::copysign(rate, kBeta1 * mean[i] + (1 - kBeta1) * g);
      mean[i] = momentum * mean[i] + (1 - momentum) * g;
    }
  }

 private:
  double momentum_;
};

const OptimizerKind kLion = {
    .name = "lion",
    .summary = "Lion for all weights",
    .settings =
        [] {
          return SettingList{{"momentum", "decay rate of the mean of gradients", kFraction, 0.99}};
        },
    .make = [](const Given& settings,
               const ParameterStore& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Lion>(settings.number("momentum"), parameters);
    }};

const bool registered = [] {
  register_optimizer(kLion);
  return true;
}();

}  // namespace
}  // namespace headcount
