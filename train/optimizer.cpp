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

const SettingList& optimizer_settings() {
  static const SettingList list = [] {
    std::vector<std::string> names;
    std::string help;
    for (const OptimizerKind* kind : optimizer_kinds()) {
      names.emplace_back(kind->name);
      help += (help.empty() ? "" : "; ") + names.back() + ": " + std::string(kind->summary);
    }
    const std::string standard = names.front();
    SettingList all = settings_in(
        Scope::optimizer, {{kChoice, help, Choices(std::move(names)), standard, {.quiet = true}}});
    for (const OptimizerKind* kind : optimizer_kinds())
      add_settings(all, settings_in(Scope::optimizer, kind->settings()), kind->name);
    return all;
  }();
  return list;
}

OptimizerPlan resolve_optimizer(const Given& given) {
  const OptimizerKind* const kind = registry().find(given.text(kChoice));
  return {kind, given.of(optimizer_settings(), kind->name)};
}

nlohmann::ordered_json OptimizerPlan::values() const {
  nlohmann::ordered_json all = settings.values_of(kind->settings());
  all[kChoice] = kind->name;
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
