#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/config.h"
#include "nn/attention/memory.h"
#include "nn/count.h"

namespace headcount {

class Attention;
class LayerWeights;

/// A matrix of a layer, `NAME.weight` [out, in], with `NAME.bias` [out] if the layer has biases; or
/// the weights of an RMSNorm.
struct Projection {
  std::string name;
  Index in, out;  ///< in = 0: a norm over `out` numbers
  /// Applied to what is kept, not to what a token brings: decoding repeats it for each cached
  /// token.
  bool of_kept = false;
  /// Makes what is kept, and nothing else: a layer that reads what another one kept has none.
  bool keeps = false;

  static Projection norm(std::string name, Index width) { return {std::move(name), 0, width}; }
  static Projection keeping(std::string name, Index in, Index out) {
    return {std::move(name), in, out, false, true};
  }
};

/// One way to compute a layer. All forms give the same numbers; they cost differently.
struct AttentionForm {
  std::string name;                     ///< "" where there is one form only
  std::vector<Projection> projections;  ///< but for o_proj, which all have
  Index key_width, value_width;         ///< of a head, as scores and sums see them
};

/// What follows from a configuration, without building the layer.
struct AttentionDescription {
  std::vector<Kept> keeps;           ///< of each token
  std::vector<AttentionForm> forms;  ///< as it is trained first, then others it can decode in
};

/// What a kind of attention declares, in its one file. Flags, help, specs, config.json, caches,
/// costs, gradient checks and comparisons follow from it.
struct AttentionKind {
  std::string_view name;
  std::string_view summary;  ///< one line for help
  /// The published architecture whose layer it is, as Hugging Face's `model_type` names it:
  /// "llama", "deepseek_v3"; empty: none.
  std::string_view architecture = {};
  /// So many of its own settings, in order, can be given as numbers after the name: gqa2, mla48+16.
  /// The first is what sets the size of the cache.
  std::size_t spec_numbers = 0;
  /// Adds the kind's own settings, bound to `config.own<...>()`. Null: it has none.
  void (*settings)(AttentionConfig& config, Settings& settings) = nullptr;
  /// Fills in defaults. Throws ShapeError that names the settings which do not fit together.
  void (*resolve)(AttentionConfig& config) = nullptr;
  /// `config` is resolved.
  AttentionDescription (*describe)(const AttentionConfig& config) = nullptr;
  std::unique_ptr<Attention> (*make)(const AttentionConfig& config,
                                     const LayerWeights& weights) = nullptr;
};

/// All attentions, in the order of help and tables.
std::span<const AttentionKind* const> attention_kinds();
/// Adds a kind, which must live as long as the program. Throws ShapeError if the name is taken.
void register_attention(const AttentionKind& kind);
/// Throws ShapeError that lists the known names.
const AttentionKind& attention_kind(std::string_view name);
/// The names of the settings that only some kinds have and this one has, in the kind's order.
std::vector<std::string> own_settings(const AttentionKind& kind);

/// Fills in `config`'s defaults: those that all kinds share, then the kind's own. Throws
/// ShapeError.
void resolve(AttentionConfig& config);

/// The description of a resolved configuration. Throws ShapeError for one that `shares` where no
/// projection is marked as one that makes what is kept.
AttentionDescription describe(const AttentionConfig& config);

/// What one layer of an attention costs, counted from its description; tests hold it against the
/// parameters and the products of real layers.
struct AttentionCosts {
  std::string name;              ///< the kind's, for a second form with its name: "mla-absorbed"
  Count parameters;              ///< biases and norms included
  Count linear_macs_per_token;   ///< multiply-accumulates of the projections
  Count macs_per_pair;           ///< of q.k and p v, for one query and one key, all heads
  Count expansion_macs_per_key;  ///< in decoding: to get k and v back from what is cached
  Count cache_elements_per_token;
  Count cache_rows_per_token;  ///< with a scale of their own in an int8 cache
};

/// One for each form. `config` is resolved.
std::vector<AttentionCosts> attention_costs(const AttentionConfig& config);

/// What one layer keeps of one sequence.
struct KeptNumbers {
  Count elements;
  Count rows;  ///< with a scale of their own in an int8 cache
};
/// Of so many tokens; a window holds no more than its own. `config` is resolved.
KeptNumbers kept_numbers(const AttentionConfig& config, Index context);

// For kinds.

/// For kinds that rotate whole heads: the default layout, and an even width.
void resolve_rotary_heads(AttentionConfig& config);

}  // namespace headcount
