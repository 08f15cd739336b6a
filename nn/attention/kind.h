#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/count.h"
#include "nn/attention/memory.h"
#include "nn/attention/plan.h"

namespace headcount {

class Attention;
class LayerWeights;

/// Name of the form that rebuilds keys and values of all heads from the cache.
inline constexpr std::string_view kExpanded = "expanded";

/// A form of a layer that is counted and not computed: what it has beyond the form that decodes.
struct CountedForm {
  std::string_view name;
  Count parameters, macs_per_token;
};

/// Declaration of an attention, in its one file. Flags, help, specs, config.json, caches, costs,
/// gradient checks and comparisons follow from it.
struct AttentionKind {
  std::string_view name;
  std::string_view summary;  ///< one line for help
  /// Hugging Face's `model_type` of models with this layer, such as "llama"; empty: none.
  std::string_view architecture = {};
  /// Settings that a spec gives as numbers after the name: gqa2, mla48+16. The first one sets the
  /// size of the cache.
  std::array<std::string_view, 2> numbers = {};
  /// False for a recurrent state, which has no softmax over tokens: no score scale, dropout of
  /// weights, window or key mask.
  bool attends = true;
  bool rotates = true;  ///< false if the layer has no rotary positions
  /// Reason why the layer has no norms of `qk-norm` (see Attention::add_qk_norms), for errors;
  /// empty: it has them.
  std::string_view no_qk_norm = "its layer has no such norms";
  double norm_epsilon = 1e-6;  ///< of its norms
  /// Rows of the settings that not all kinds have, or that have other defaults here. Rules of
  /// defaults may read `dim`, too.
  SettingList (*settings)() = [] { return SettingList(); };
  /// Throws ShapeError that names settings which do not fit together. Null: all fit.
  void (*check)(const AttentionPlan& plan) = nullptr;
  /// Names of the forms of the layer, which give the same numbers at different costs: first the one
  /// that training uses, last the one that decoding chooses. Null: one form without a name.
  std::vector<std::string_view> (*forms)(const AttentionPlan& plan) = nullptr;
  /// Null: no form is counted that is not computed.
  std::optional<CountedForm> (*counted)(const AttentionPlan& plan) = nullptr;
  /// Sentences that a user with these settings should know, for `attention_notes`. Null: none.
  std::vector<std::string> (*notes)(const AttentionPlan& plan) = nullptr;
  std::unique_ptr<Attention> (*make)(const AttentionPlan& plan, LayerWeights& weights) = nullptr;
};

/// All attentions, in the order of help and tables.
std::span<const AttentionKind* const> attention_kinds();
/// Adds a kind, which must live as long as the program. Call it before `attention_settings` is
/// first called, best before main. Throws ShapeError if the name is taken.
void register_attention(const AttentionKind& kind);
/// Kind of that name. Throws ShapeError that lists the known names.
const AttentionKind& attention_kind(std::string_view name);
/// Settings of attentions: first the common ones, then those of single kinds, marked with the kinds
/// that they apply to.
const SettingList& attention_settings();

/// Plan of a layer, with defaults for what is not given. Throws ShapeError that names settings
/// which do not fit together.
AttentionPlan resolve_attention(const AttentionKind& kind, const Given& given,
                                const LayerPlace& place);

/// Names of the forms of the planned layer (see AttentionKind::forms); {""} if there is only one.
std::vector<std::string_view> attention_forms(const AttentionPlan& plan);

// Checks and defaults for kinds. They throw ShapeError.

/// Requires an even `head-dim` if positions are rotary.
void require_rotary_heads(const AttentionPlan& layer);
/// Requires `rope_dim` to fit into a head, and to be even if positions are rotary.
void require_rotary_part(const AttentionPlan& layer, Index rope_dim);
/// Requires that `kv-heads` divides `heads`.
void require_kv_heads(const AttentionPlan& layer);
/// Requires that `count`, the value of the setting `name`, divides `whole`, that of `whole_name`.
void require_divisor(std::string_view name, Index count, std::string_view whole_name, Index whole);

// Settings that several kinds have.

/// The row of `kv-heads`, `q-rank`, `rope-dim` or a setting of all kinds with the default that it
/// has for one kind.
Setting shared_setting(std::string_view name, Default standard);

/// 2 dim / heads, for `head-dim`.
Default twice_the_width();
/// heads / 2, for `kv-heads`.
Default half_of_heads();
/// Half of a head, rounded down to an even number, for `rope-dim` of kinds that rotate a part.
inline Index half_of_head(const LayerSettings& layer) { return layer.head_dim / 4 * 2; }
Default half_of_head();
/// dim / 2, for `q-rank`.
Default half_of_dim();

}  // namespace headcount
