#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/settings.h"
#include "autograd/parameters.h"

namespace headcount {

/// Arguments of one update of the weights.
struct Update {
  double learning_rate = 0;   ///< of this step
  double of_peak = 1;         ///< learning rate over its peak, for optimizers with several rates
  double gradient_scale = 1;  ///< factor of the gradients
  Index step = 1;             ///< counts from 1
};

/// Changes weights by their gradients. It may keep moments: numbers per weight that depend on
/// earlier gradients.
class Optimizer {
 public:
  /// One number per weight, under its name in checkpoints.
  struct Moment {
    std::string name;
    ParameterNumbers numbers;
  };

  virtual ~Optimizer() = default;

  /// Does one update with the gradients of `parameters`.
  virtual void update(ParameterStore& parameters, const Update& at) = 0;
  std::span<const Moment> moments() const { return moments_; }

 protected:
  Optimizer(const ParameterStore& parameters, std::span<const std::string_view> names) {
    for (const std::string_view name : names)
      moments_.push_back({std::string(name), ParameterNumbers(parameters)});
  }

 private:
  std::vector<Moment> moments_;
};

/// A kind of optimizer, declared in its one file. Flags, help, config.json and checkpoints follow.
struct OptimizerKind {
  std::string_view name;
  std::string_view summary;  ///< which weights it trains by which method, for help
  SettingList (*settings)() = [] { return SettingList(); };
  std::unique_ptr<Optimizer> (*make)(const Given& settings,
                                     const ParameterStore& parameters) = nullptr;
};

/// All optimizers, in the order of help; the first is the default.
std::span<const OptimizerKind* const> optimizer_kinds();
/// Adds an optimizer, which must live as long as the program. Call it before main. Throws
/// ShapeError if the name is taken.
void register_optimizer(const OptimizerKind& kind);
/// The setting `optimizer`, and the settings of each optimizer, marked with its name.
const SettingList& optimizer_settings();

/// An optimizer with its settings, resolved.
struct OptimizerPlan {
  const OptimizerKind* kind;
  Given settings;

  std::unique_ptr<Optimizer> make(const ParameterStore& parameters) const {
    return kind->make(settings, parameters);
  }
  /// The settings with their values.
  nlohmann::ordered_json values() const;
};
/// Optimizer that `given` names, by default the first kind, with its settings and their defaults.
OptimizerPlan resolve_optimizer(const Given& given);

/// Factor for gradients of norm `norm`, so that the norm does not exceed `limit`; 1 if `limit` is
/// 0. Clips as torch.nn.utils.clip_grad_norm_ does.
double clip_scale(double norm, double limit);

/// How the learning rate falls from `peak` to `least`, which it reaches one step after the last.
enum class Decay {
  cosine,  ///< along half a cosine, as in nanoGPT
  linear,
  constant,  ///< no fall: the peak to the end
  wsd,       ///< linearly over the last fifth of the steps: warm-up, stable, decay
};

/// Learning rate over a run: linear warm-up to `peak`, then the decay. `wsd`: Hu et al., "MiniCPM"
/// (2024), with the linear last fifth of Hägele et al., "Scaling laws and compute-optimal training
/// beyond fixed training durations" (2024).
struct Schedule {
  double peak = 1e-3;
  double least = 1e-4;
  Index warmup = 100;
  Index steps = 1000;
  Decay decay = Decay::cosine;

  double at(Index step) const;  ///< `step` counts from 0
  /// at(step) / peak, for optimizers with several rates; with a peak of 0, as if `least` were the
  /// default, a tenth.
  double of_peak(Index step) const {
    return peak > 0 ? at(step) / peak : Schedule{1, 0.1, warmup, steps, decay}.at(step);
  }
};

}  // namespace headcount
