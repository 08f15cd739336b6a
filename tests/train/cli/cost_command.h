#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "train/run_program.h"

/// Helpers for tests of `headcount cost`.

namespace headcount::cost_tables {

using nlohmann::json;
using Names = std::vector<std::string>;

inline const Names kAttentions = {
    "mha",        "mqa", "gqa",          "mfa",        "gta", "mla",         "mla-absorbed",
    "mla-merged", "dsa", "dsa-absorbed", "dsa-merged", "tpa", "latent-bias", "fox",
    "v4",         "hca", "csa",          "delta",      "kda"};
inline const Names kRowKeys = {"attention",
                               "params_per_layer",
                               "linear_macs_per_token_per_layer",
                               "prefill_attention_macs_per_layer",
                               "decode_attention_macs_per_layer",
                               "cache_elements_per_token_per_layer",
                               "cache_elements_per_layer",
                               "cache_bytes",
                               "cache_bytes_at_4096",
                               "cache_bytes_at_131072",
                               "cache_bytes_at_1048576"};
/// The sizes of the two reference tables.
inline const std::string kWidth256 =
    "--dim 256 --heads 8 --kv-heads 4 --bias --context 10 --kv-rank 64 --q-rank 64 --nope-dim 16 "
    "--v-dim 16 --rope-dim 26 --latent-norm off ";
inline const std::string kWidth8192 =
    "--dim 8192 --heads 64 --head-dim 128 --kv-heads 8 --kv-rank 512 --rope-dim 0 "
    "--context 131072 ";

class CostCommand : public testing::Test {
 protected:
  ProgramResult cost(const std::string& flags) const { return folder_.headcount("cost " + flags); }
  // Standard output of a call that must succeed and warn of nothing.
  std::string output(const std::string& flags) const {
    const ProgramResult result = cost(flags);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  json table(const std::string& flags) const {
    return json::parse(output(flags + " --format json"));
  }

  // The row of one attention; all of them must be there once, in order.
  static json row(const json& table, const std::string& attention) {
    Names names;
    for (const json& row : table.at("rows")) names.push_back(row.at("attention"));
    EXPECT_EQ(names, kAttentions);
    const auto at = std::ranges::find(names, attention) - names.begin();
    return table.at("rows").at(static_cast<std::size_t>(at));
  }

  // The row of one attention in a table that leaves out attentions that have no window.
  json row_with_window(const std::string& flags, const std::string& attention) const {
    const json table = json::parse(cost(flags + " --format json").out);
    for (const json& row : table.at("rows")) {
      if (row.at("attention") == attention) return row;
    }
    return {};
  }

  // Exit code `code`, nothing on standard output and one line that has all of `names`.
  void expect_refusal(int code, const std::string& flags, const Names& names) const {
    headcount::expect_refusal(cost(flags), code, names, flags);
  }

  TrainFolder folder_;
};

}  // namespace headcount::cost_tables
