#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/row_cache.h"
#include "models/plan.h"

namespace headcount {

/// What the attention of all layers costs, counted from its sizes: layers that share keep nothing,
/// and with a window no more keys than that are seen and kept.
struct Costs {
  Count parameters;
  Count linear_macs_per_token;     ///< multiply-accumulates of the projections
  Count prefill_attention_macs;    ///< scores and sums of all context x context pairs
  Count decode_attention_macs;     ///< scores and sums of one token over the context
  Count decode_expansion_macs;     ///< to get k and v of the context back from the cache
  Count cache_elements_per_token;  ///< where no window is full
  Count cache_elements;            ///< at the context
};

/// What a cached number of a token takes, and what each row of numbers takes besides, for its
/// scale.
struct CacheNumbers {
  Index bytes_per_element = sizeof(float), bytes_per_row = 0;
  bool operator==(const CacheNumbers&) const = default;
};
CacheNumbers cache_numbers(CacheType type);
/// What a number of a state takes in a cache of any type: states are never rounded.
inline constexpr Index kStateBytes = sizeof(float);

/// What decoding keeps of one sequence of `context` tokens, over all layers.
/// Throws ShapeError where that would overflow 64 bits.
KeptNumbers kept_numbers(const ModelPlan& model, Index context);
/// The same in bytes; float32 unless said.
Count kv_cache_bytes(const ModelPlan& model, Index context, const CacheNumbers& numbers = {});
/// The same for each token of a text as long as the model's context.
double kv_cache_bytes_per_token(const ModelPlan& model, const CacheNumbers& numbers = {});

/// One attention at a given context.
struct CostRow {
  std::string attention;  ///< as the setting says it, or with the form: "mla-absorbed"
  bool trained;           ///< in the form that it is trained in
  bool decodes;           ///< in the form that decoding chooses
  Index layers;
  Costs costs;
  Count cache_bytes;  ///< at the context, of one sequence
  /// The same at each of `long_contexts()`.
  std::vector<Count> long_cache_bytes;
};

/// Contexts at which a cache is worth a look besides the model's own: 4 k, 128 k and 1 M tokens.
std::span<const Index> long_contexts();

/// A layer of a published model that is no kind here: a kind that keeps the same stands for it in a
/// pattern, and it is named and counted as what it is.
struct StandIn {
  std::string_view kind;  ///< "delta"
  std::string_view name;  ///< "kda"
  /// Of a layer of `kind`.
  AttentionDescription (*describe)(const AttentionPlan& plan);
};

/// As the setting says it, with the name of what `stand_in` stands for: "3*kda/mla".
std::string attention_text(const std::string& attention, const std::optional<StandIn>& stand_in);

/// One row per form of each kind of attention, with the sizes of `given`;
/// and of the pattern that it has, if layers take turns. A kind that the sizes do not fit is left
/// out, and the reason added to `left_out`. `stand_in`, if given, is for the pattern. Throws
/// ShapeError where a figure would overflow 64 bits, for a pattern that the sizes do not fit, and
/// if no kind fits.
std::vector<CostRow> cost_table(const Given& given, Index context, const CacheNumbers& numbers,
                                std::vector<std::string>& left_out,
                                const std::optional<StandIn>& stand_in = std::nullopt);

/// The attention of a well-known model.
struct KnownModel {
  std::string name;    ///< "llama-3-8b"
  std::string source;  ///< where the sizes are published
  nlohmann::json settings;
  std::optional<StandIn> stand_in = {};  ///< of its pattern
};
const std::vector<KnownModel>& known_models();
/// Throws SettingError that lists the known names.
const KnownModel& known_model(std::string_view name);

}  // namespace headcount
