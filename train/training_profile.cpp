#include "train/training_profile.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace headcount {

namespace {

struct Row {
  std::string part;
  double calls = 0;  // per step, as are the seconds
  double forward = 0, backward = 0;
  double macs = 0, bytes = 0;

  double seconds() const { return forward + backward; }
};

std::vector<Row> rows(const TrainingProfile& profile) {
  const auto steps = static_cast<double>(std::max<Index>(1, profile.steps));
  std::vector<Row> all;
  double rest = profile.seconds;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Op::count_); ++i) {
    const auto op = static_cast<Op>(i);
    const OpCost& cost = profile.ops.cost(op);
    if (cost.calls == 0) continue;
    all.push_back({std::string(name(op)), static_cast<double>(cost.calls) / steps,
                   cost.forward_seconds / steps, cost.backward_seconds / steps, cost.macs / steps,
                   cost.bytes / steps});
    rest -= cost.forward_seconds + cost.backward_seconds;
  }
  for (const auto& [part, seconds] : {std::pair{"(batch)", profile.batch_seconds},
                                      std::pair{"(gradient sum)", profile.norm_seconds},
                                      std::pair{"(update)", profile.update_seconds}}) {
    all.push_back({part, 1, seconds / steps, 0, 0, 0});
    rest -= seconds;
  }
  std::ranges::sort(all, std::ranges::greater(), &Row::seconds);
  all.push_back({"(the rest)", 1, rest / steps, 0, 0, 0});
  return all;
}

std::optional<double> rate(double amount, double seconds) {
  if (amount == 0 || seconds == 0) return std::nullopt;
  return 1e-9 * amount / seconds;
}

}  // namespace

nlohmann::ordered_json to_json(const TrainingProfile& profile) {
  const auto or_null = [](std::optional<double> x) {
    return x ? nlohmann::ordered_json(*x) : nlohmann::ordered_json(nullptr);
  };
  auto result = nlohmann::ordered_json::array();
  const double whole = profile.seconds / static_cast<double>(std::max<Index>(1, profile.steps));
  for (const Row& row : rows(profile)) {
    result.push_back({{"part", row.part},
                      {"calls", row.calls},
                      {"forward_ms", 1e3 * row.forward},
                      {"backward_ms", 1e3 * row.backward},
                      {"share", whole > 0 ? row.seconds() / whole : 0},
                      {"gflops", or_null(rate(2 * row.macs, row.seconds()))},
                      {"gigabytes_per_second", or_null(rate(row.bytes, row.seconds()))}});
  }
  return result;
}

std::string table(const TrainingProfile& profile) {
  std::string text;
  const auto add = [&](const char* format, auto... values) {
    char line[160];
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  add("%-16s %6s %11s %12s %8s %9s %7s\n", "per step", "calls", "forward ms", "backward ms",
      "share %", "GFLOP/s", "GB/s");
  const auto number = [](std::optional<double> x) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.1f", x.value_or(0));
    return x ? std::string(digits) : std::string("-");
  };
  const double whole = profile.seconds / static_cast<double>(std::max<Index>(1, profile.steps));
  for (const Row& row : rows(profile)) {
    add("%-16s %6.0f %11.3f %12.3f %8.1f %9s %7s\n", row.part.c_str(), row.calls, 1e3 * row.forward,
        1e3 * row.backward, whole > 0 ? 100 * row.seconds() / whole : 0,
        number(rate(2 * row.macs, row.seconds())).c_str(),
        number(rate(row.bytes, row.seconds())).c_str());
  }
  add("%-16s %6s %24.3f\n", "whole step", "", 1e3 * whole);
  if (profile.shards > 1)
    add("the %td shards of a step one after the other, each on one thread\n", profile.shards);
  return text;
}

}  // namespace headcount
