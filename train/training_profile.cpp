#include "train/training_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autograd/base/text.h"
#include "train/table.h"

namespace headcount {

namespace {

struct Row {
  std::string part;
  double calls = 0;  // number of calls and seconds are per step
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

double seconds_per_step(const TrainingProfile& profile) {
  return profile.seconds / static_cast<double>(std::max<Index>(1, profile.steps));
}

std::vector<Column<Row>> columns(const TrainingProfile& profile) {
  using Json = nlohmann::ordered_json;
  std::vector<Column<Row>> all = {{"per step", "part", [](const Row& row) { return row.part; },
                                   [](const Row& row) { return row.part; }, true, 16}};
  const auto add = [&](const char* heading, const char* key, int decimals, auto figure,
                       std::size_t width, double unit = 1) {
    const auto get = [=](const Row& row) -> std::optional<double> { return figure(row); };
    all.push_back({heading, key,
                   [=](const Row& row) {
                     return get(row) ? formatted("%.*f", decimals, unit * *get(row)) : "-";
                   },
                   [=](const Row& row) { return get(row) ? Json(*get(row)) : Json(); }, false,
                   width});
  };
  add(
      "calls", "calls", 0, [](const Row& row) { return row.calls; }, 5);
  add(
      "forward ms", "forward_ms", 3, [](const Row& row) { return 1e3 * row.forward; }, 10);
  add(
      "backward ms", "backward_ms", 3, [](const Row& row) { return 1e3 * row.backward; }, 11);
  add(
      "share %", "share", 1,
      [whole = seconds_per_step(profile)](const Row& row) {
        return whole > 0 ? row.seconds() / whole : 0;
      },
      7, 100);
  add(
      "GFLOP/s", "gflops", 1, [](const Row& row) { return rate(2 * row.macs, row.seconds()); }, 8);
  add(
      "GB/s", "gigabytes_per_second", 1,
      [](const Row& row) { return rate(row.bytes, row.seconds()); }, 6);
  return all;
}

}  // namespace

nlohmann::ordered_json to_json(const TrainingProfile& profile) {
  return json_rows(columns(profile), rows(profile));
}

std::string table(const TrainingProfile& profile) {
  std::string text = text_table(columns(profile), rows(profile));
  // The total stands below the columns of forward and backward, whose sum it is.
  text += formatted("%-16s %31.3f\n", "whole step", 1e3 * seconds_per_step(profile));
  if (profile.shards > 1) {
    text += formatted("the %td shards of a step one after the other, each on one thread\n",
                      profile.shards);
  }
  return text;
}

}  // namespace headcount
