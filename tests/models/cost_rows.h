#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cost.h"

namespace headcount {

using CostRows = std::map<std::string, CostRow>;

inline Given with(const nlohmann::json& settings) { return Given(model_settings(), settings); }

/// The table of kinds that all have the sizes of `given`.
inline std::vector<CostRow> cost_table(const Given& given, Index context,
                                       const CacheRounding& rounding,
                                       std::vector<std::string>& left_out) {
  return cost_table(given, given, context, rounding, left_out);
}

/// The table by name; no kind may be left out and no name may come twice.
inline CostRows all_rows(const Given& config, Index context, CacheType type = CacheType::real) {
  std::vector<std::string> left_out;
  CostRows rows;
  for (const CostRow& row : cost_table(config, context, type, left_out)) {
    EXPECT_TRUE(rows.emplace(row.attention, row).second) << row.attention;
  }
  EXPECT_EQ(left_out, std::vector<std::string>{});
  return rows;
}

}  // namespace headcount
