#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/model_cache.h"
#include "train/table.h"

/// What KV caches cost: bytes in tables, and what pages draw.
namespace headcount {

/// What each layer of a model caches, a list of blocks: {"name", "heads", "width" of numbers a
/// head, "window", "per_sequence", "block" of tokens a row stands for, "bytes" of a number}, for
/// train/view/cache_picture.js. A layer that reads another layer's cache has no rows.
nlohmann::ordered_json cache_layers(const ModelCache& cache, const CacheRounding& rounding);

/// Note on the number types of a cache: "2 bytes a number (bf16), states 4 (f32)"; recent tokens
/// are `unrounded`.
std::string stored_text(const CacheRounding& rounding, CacheType unrounded = CacheType::real);

/// A KV cache that a page draws.
struct NamedCache {
  std::string name;
  ModelCache cache;
};

/// Bytes that caches may take, and how a picture names them.
struct Room {
  double bytes;
  std::string name;
};

/// What train/view/cost.js draws: the caches to scale at `contexts`, which ascend, and the bytes of
/// `batch` sequences against context, up to where they exceed `room`.
nlohmann::ordered_json cost_figures(const std::vector<NamedCache>& caches,
                                    const CacheRounding& rounding,
                                    const std::vector<Index>& contexts, Index batch = 1,
                                    const std::optional<Room>& room = {});

/// What somebody wants to know of the KV cache of a model, their own or other people's (see
/// config_cache.h).
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
