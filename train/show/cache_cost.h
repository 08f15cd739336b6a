#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/cost/cost.h"
#include "train/show/table.h"

/// What KV caches cost: sentences, a table, and what pages draw.
namespace headcount {

/// What each layer of a model caches, a list of blocks: {"name", "heads", "width" of numbers a
/// head, "window", "per_sequence", "block" of tokens a row stands for, "bytes" of a number}, for
/// train/view/cache_picture.js. A layer that reads another layer's cache has no rows.
nlohmann::ordered_json cache_layers(const ModelCache& cache, const CacheRounding& rounding);

/// What `headcount cost` and the page answer: sentences about the first row, and a table of all.
struct CostTable {
  std::vector<CostRow> rows = {};    ///< at least one, of caches that fit `rounding`
  std::vector<Index> contexts = {};  ///< ascending, at least one
  Index costs_at = 0;                ///< context of the MACs
  bool is_list = false;              ///< rows of many models: no sentences
  Index batch = 1;                   ///< sequences at a time
  Index shards = 1;                  ///< GPUs that share a model; rows are then of one of them
  CacheRounding rounding = {};
  std::optional<double> memory = {};   ///< bytes of a GPU, for weights and caches
  std::optional<double> weights = {};  ///< bytes of the first row's model, on all GPUs

  double bytes(const ModelCache& cache, Index context) const;  ///< of all sequences
  double free_memory() const;  ///< bytes of a GPU beside the weights; 0 without `memory`

  /// Sentences and the table, at most so wide unless that is 0.
  std::string text(Format format, std::size_t width = 0) const;
  nlohmann::ordered_json json() const;  ///< the same numbers; "rows" has those of the table
  /// What train/view/cost.js draws: caches to scale, and bytes against context.
  nlohmann::ordered_json figures() const;
};

}  // namespace headcount
