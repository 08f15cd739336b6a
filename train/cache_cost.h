#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/cost_figures.h"
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

/// Answers to a question.
class ConfigCost {
 public:
  /// Throws SettingError for attentions that do not fit the model.
  ConfigCost(ModelCache cache, CostQuestion question);

  /// Tables with sentences, as text or as Markdown.
  std::string text(Format format) const;
  nlohmann::ordered_json json() const;
  /// What train/view/cost.js draws.
  nlohmann::ordered_json figures() const;

 private:
  double bytes(const ModelCache& cache, Index context) const;  // of one sequence
  double free() const;                                         // bytes for caches
  Index longest_context() const;  // tokens that `batch` sequences may have; kAny if all fit
  std::string memory_text(const char* end) const;  // ends all lines but the last one
  std::vector<Column<Index>> columns() const;      // of a context
  // The context from which on the rows in a layer take as many bytes as a layer's state; none if
  // the model has not both.
  std::optional<Index> state_context() const;

  static constexpr Index kAny = 2'147'483'647;  // no model has as many positions
  ModelCache cache_, shard_;
  CostQuestion question_;
  std::vector<NamedCache> others_;
};

/// Column of a number, `value` of a row, which `text` words for people.
template <class Row>
Column<Row> number_column(std::string heading, std::string key,
                          std::function<nlohmann::ordered_json(const Row&)> value,
                          std::string (*text)(double), std::size_t width = 0) {
  return {std::move(heading),
          std::move(key),
          [=](const Row& row) { return text(value(row).template get<double>()); },
          value,
          false,
          width};
}

}  // namespace headcount
