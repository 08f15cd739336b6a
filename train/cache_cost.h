#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/config_cache.h"
#include "models/cost.h"
#include "train/table.h"

/// What the KV cache of other people's model costs, from its config.json (see config_cache.h).
namespace headcount {

/// What somebody wants to know of a cache.
struct CostQuestion {
  std::vector<Index> contexts;  ///< ascending, at least one
  Index batch = 1;              ///< sequences at a time
  Index shards = 1;             ///< GPUs that share the model out; memory is then that of each
  CacheRounding rounding = CacheType::bf16;
  std::optional<double> memory;         ///< bytes that weights and caches must fit into
  std::optional<double> weights;        ///< bytes
  std::vector<std::string> attentions;  ///< values of `attention` to compare the model's with
};

/// A context and what the cache takes there, bytes.
struct CostAt : CacheSizes {  // of one sequence
  Index context = 0;
  std::optional<double> expanded;  ///< with latents as keys and values of all heads
  std::optional<double> shard;     ///< on each GPU
  std::vector<std::pair<std::string, double>> others;  ///< by attention
  std::optional<std::int64_t> batch_that_fits;
};

/// Answers to a question. Functions throw SettingError for attentions that do not fit the model.
class ConfigCost {
 public:
  ConfigCost(ConfigCache cache, CostQuestion question);

  const std::vector<CostAt>& contexts() const { return at_; }
  /// Tokens of the longest sequences of which `batch` fit; `kAny` if all do.
  Index longest_context() const;
  static constexpr Index kAny = 2'147'483'647;  // no model has as many positions

  /// Tables with sentences, as text or as Markdown.
  std::string text(Format format) const;
  nlohmann::ordered_json json() const;
  /// What train/view/cost.js draws; the cache has this name.
  nlohmann::ordered_json figures(const std::string& name) const;

 private:
  CostAt at(Index context) const;
  double free() const;                             // bytes for caches
  std::string memory_text(const char* end) const;  // ends all lines but the last one
  std::string state_text() const;
  std::vector<Column<CostAt>> columns() const;

  ConfigCache cache_, shard_;
  CostQuestion question_;
  std::vector<CostAt> at_;
};

/// The context whose rows in a layer of rows take as many bytes as a layer's state; none if the
/// model has not both.
std::optional<Index> state_context(const ConfigCache& cache, const CacheRounding& rounding);

}  // namespace headcount
