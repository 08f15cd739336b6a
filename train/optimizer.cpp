#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "autograd/parallel.h"
#include "train/adamw.h"
#include "train/muon.h"

namespace headcount {

namespace {

constexpr const char* kChoice = "optimizer";

}  // namespace

std::span<const OptimizerKind* const> optimizer_kinds() {
  static constexpr std::array<const OptimizerKind*, 2> kAll = {&kAdamW, &kMuon};
  return kAll;
}

SettingList optimizer_settings() {
  const bool several = optimizer_kinds().size() > 1;
  const std::string_view standard = optimizer_kinds().front()->name;
  SettingList all;
  if (several) {
    Choices names = {};
    for (const OptimizerKind* kind : optimizer_kinds()) names.all[names.count++] = {kind->name, 0};
    all.push_back(listed(kChoice, "what changes the weights", names, Scope::optimiser,
                         {.quiet = true}, standard));
  }
  for (const OptimizerKind* kind : optimizer_kinds())
    add_settings(all, kind->own.settings(Scope::optimiser), several ? kind->name : "");
  return all;
}

OptimizerPlan resolve_optimizer(const Given& given) {
  const auto name = given.get(kChoice, std::string(optimizer_kinds().front()->name));
  const OptimizerKind* const kind =
      *std::ranges::find(optimizer_kinds(), name, &OptimizerKind::name);
  return {kind, kind->resolve(given)};
}

nlohmann::ordered_json OptimizerPlan::values() const {
  nlohmann::ordered_json all = kind->own.values(own);
  if (optimizer_kinds().size() > 1) all[kChoice] = kind->name;
  return all;
}

namespace {

double sum_of_squares(std::span<const Real> numbers) {
  constexpr std::size_t kLanes = 16;  // independent sums, which the compiler vectorises
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= numbers.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(numbers[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < numbers.size(); ++i)
    lanes[0] += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

}  // namespace

double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards) {
  const std::span<Real> sums = parameters.complete_gradients();
  std::vector<const Real*> parts;
  for (Gradients& shard : shards) parts.push_back(parameters.complete_gradients(shard).data());
  const Index count = std::ssize(sums);
  std::vector<double> squares(
      static_cast<std::size_t>((count + kElementChunk - 1) / kElementChunk));
  parallel_chunks(count, kElementChunk, [&](Index begin, Index end) {
    Real* const sum = sums.data();
    for (const Real* const part : parts) {
      for (Index i = begin; i < end; ++i) sum[i] += part[i];
    }
    squares[static_cast<std::size_t>(begin / kElementChunk)] = sum_of_squares(
        sums.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double clip_scale(double norm, double limit) {
  if (limit == 0) return 1;
  return std::min(1.0, limit / (norm + 1e-6));
}

double Schedule::at(Index step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const Index span = std::max<Index>(1, steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(span));
  return least + 0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - least);
}

}  // namespace headcount
