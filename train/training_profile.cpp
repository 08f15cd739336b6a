#include "train/training_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autograd/base/text.h"
#include "train/show/table.h"
#include "train/show/units.h"

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
  std::vector<Column<Row>> all = {
      {"per step", "part", {}, [](const Row& row) { return Json(row.part); }, true, 16}};
  const auto add = [&](const char* heading, const char* key, int decimals, std::size_t width,
                       std::function<Json(const Row&)> figure) {
    all.push_back({heading, key, {}, std::move(figure), false, width, decimals});
  };
  add("calls", "calls", 0, 5, [](const Row& row) { return row.calls; });
  add("forward ms", "forward_ms", 3, 10, [](const Row& row) { return 1e3 * row.forward; });
  add("backward ms", "backward_ms", 3, 11, [](const Row& row) { return 1e3 * row.backward; });
  add("share %", "share", 1, 7, [whole = seconds_per_step(profile)](const Row& row) {
    return whole > 0 ? row.seconds() / whole : 0;
  });
  all.back().text = [share = all.back().value](const Row& row) {
    return number_text(100 * share(row).get<double>(), 1);
  };
  add("GFLOP/s", "gflops", 1, 8,
      [](const Row& row) { return or_null(rate(2 * row.macs, row.seconds())); });
  add("GB/s", "gigabytes_per_second", 1, 6,
      [](const Row& row) { return or_null(rate(row.bytes, row.seconds())); });
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
