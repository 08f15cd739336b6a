#include "train/adamw.h"

#include <array>
#include <cmath>

#include "autograd/parallel.h"

namespace headcount {

namespace {

constexpr std::array<std::string_view, 2> kMoments = {"first_moment", "second_moment"};

}  // namespace

AdamW::AdamW(const AdamWSettings& settings, const ParameterStore& parameters)
    : Optimizer(parameters, kMoments), settings_(settings) {}

void AdamW::update(ParameterStore& parameters, const Update& at) {
  update(parameters, at, [](ParameterId) { return true; });
}

void AdamW::update(ParameterStore& parameters, const Update& at,
                   const std::function<bool(ParameterId)>& trains) {
  const auto& [beta1, beta2, weight_decay, epsilon] = settings_;
  const double learning_rate = at.learning_rate;
  const auto n = static_cast<double>(at.step);
  const auto b1 = static_cast<Real>(beta1), b2 = static_cast<Real>(beta2);
  const auto one_b1 = static_cast<Real>(1 - beta1), one_b2 = static_cast<Real>(1 - beta2);
  const auto rate = static_cast<Real>(learning_rate / (1 - std::pow(beta1, n)));
  const auto inverse_root = static_cast<Real>(1 / std::sqrt(1 - std::pow(beta2, n)));
  const auto tiny = static_cast<Real>(epsilon), factor = static_cast<Real>(at.gradient_scale);
  const auto decayed = static_cast<Real>(1 - learning_rate * weight_decay);
  Real* const x = parameters.all_values().data();
  Real* const m = moments()[0].numbers.all().data();
  Real* const v = moments()[1].numbers.all().data();
  const std::span<const Real> gradients = parameters.complete_gradients();
  const Real* const gradient = gradients.data();
  parallel_chunks(
      std::ssize(gradients), kElementChunk, [=, &parameters, &trains](Index begin, Index end) {
        parameters.for_slices(
            begin, end, [=, &parameters, &trains](ParameterId id, Index first, Index last) {
              if (!trains(id)) return;
              const Real keep = parameters.decays(id) ? decayed : Real{1};
              for (Index i = first; i < last; ++i) {
                const Real g = gradient[i] * factor;
                m[i] = b1 * m[i] + one_b1 * g;
                v[i] = b2 * v[i] + one_b2 * g * g;
                x[i] = keep * x[i] - rate * m[i] / (std::sqrt(v[i]) * inverse_root + tiny);
              }
            });
      });
}

const OptimizerKind kAdamW = {
    .name = "adamw",
    .summary = "AdamW for all weights",
    .settings = settings_of<AdamWSettings>,
    .make = [](const Given& settings,
               const ParameterStore& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<AdamW>(read<AdamWSettings>(settings), parameters);
    }};

}  // namespace headcount
