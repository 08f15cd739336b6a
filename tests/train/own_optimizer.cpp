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

struct LionSettings {
  double momentum = 0.99;
};

constexpr Field<LionSettings> kLionFields[] = {
    fraction<&LionSettings::momentum>("momentum", "decay rate of the mean of gradients")};

constexpr std::array<std::string_view, 1> kMoments = {"mean"};

class Lion : public Optimizer {
 public:
  Lion(const LionSettings& settings, const ParameterStore& parameters)
      : Optimizer(parameters, kMoments), settings_(settings) {}

  void update(ParameterStore& parameters, const Update& at, Ranks&) override {
    constexpr Real kBeta1{0.9F};
    const auto rate = static_cast<Real>(at.learning_rate);
    const auto scale = static_cast<Real>(at.gradient_scale);
    const auto momentum = static_cast<Real>(settings_.momentum);
    const std::span<Real> x = parameters.all_values(), mean = moments()[0].numbers.all();
    const std::span<const Real> gradients = parameters.complete_gradients();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real g = gradients[i] * scale;
      x[i] -= std::copysign(rate, kBeta1 * mean[i] + (1 - kBeta1) * g);
      mean[i] = momentum * mean[i] + (1 - momentum) * g;
    }
  }

 private:
  LionSettings settings_;
};

const OptimizerKind kLion = {
    .name = "lion",
    .summary = "Lion for all weights",
    .own = own_fields<kLionFields>(),
    .resolve = [](const Given& given) -> std::any { return read_fields(kLionFields, given); },
    .make = [](const std::any& own,
               const ParameterStore& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Lion>(std::any_cast<const LionSettings&>(own), parameters);
    }};

const bool registered = [] {
  register_optimizer(kLion);
  return true;
}();

}  // namespace
}  // namespace headcount
