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

/// What `headcount cost` says.
struct CostAnswer {
  std::function<std::string(Format)> text;  ///< tables with sentences, as text or as Markdown
  nlohmann::ordered_json json, rows;        ///< for programs; of it, the rows of a table
  nlohmann::ordered_json figures = {};      ///< what train/view/cost.js draws
  std::string title = {};                   ///< of a page
};

/// Answers a question about a cache. Throws SettingError for attentions that do not fit the model.
CostAnswer cost_of_cache(const ModelCache& cache, const CostQuestion& question);

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
