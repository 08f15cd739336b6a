#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/base/registry.h"

namespace headcount {

extern const OptimizerKind kAdamW, kMuon;

namespace {

constexpr const char* kChoice = "optimizer";

Registry<OptimizerKind>& registry() {
  static Registry<OptimizerKind> all = {&kAdamW, &kMuon};
  return all;
}

}  // namespace

std::span<const OptimizerKind* const> optimizer_kinds() { return registry().all(); }

void register_optimizer(const OptimizerKind& kind) { registry().add(kind); }

SettingList optimizer_settings() {
  const bool several = optimizer_kinds().size() > 1;
  const std::string_view standard = optimizer_kinds().front()->name;
  SettingList all;
  if (several) {
    Choices names = {};
    std::string help;
    for (const OptimizerKind* kind : optimizer_kinds()) {
      names.add({kind->name, 0});
      if (!help.empty()) help += "; ";
      (help += kind->name) += ": ";
      help += kind->summary;
    }
    all.push_back(listed(kChoice, help, names, Scope::optimizer, {.quiet = true}, standard));
  }
  for (const OptimizerKind* kind : optimizer_kinds())
    add_settings(all, kind->own.settings(Scope::optimizer), several ? kind->name : "");
  return all;
}

OptimizerPlan resolve_optimizer(const Given& given) {
  const auto name = given.get(kChoice, std::string(optimizer_kinds().front()->name));
  const OptimizerKind* const kind = registry().find(name);
  return {kind, kind->resolve(given)};
}

nlohmann::ordered_json OptimizerPlan::values() const {
  nlohmann::ordered_json all = kind->own.values(own);
  if (optimizer_kinds().size() > 1) all[kChoice] = kind->name;
  return all;
}

double clip_scale(double norm, double limit) {
  if (limit == 0) return 1;
  return std::min(1.0, limit / (norm + 1e-6));
}

double Schedule::at(Index step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  if (decay == Decay::constant) return peak;
  const Index stable = decay == Decay::wsd ? std::max(warmup, steps - steps / 5) : warmup;
  const Index span = std::max<Index>(1, steps - stable);
  const double progress =
      std::clamp(static_cast<double>(step - stable) / static_cast<double>(span), 0.0, 1.0);
  if (decay != Decay::cosine) return least + (1 - progress) * (peak - least);
  return least + 0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - least);
}

}  // namespace headcount
