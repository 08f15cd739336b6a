#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/base/count.h"
#include "autograd/base/error.h"
#include "autograd/base/settings.h"
#include "autograd/ops.h"

namespace headcount {

struct AttentionKind;
class Attention;
class LayerWeights;

/// How scores q.k are scaled before the softmax.
struct ScoreScale {
  enum class Kind {
    inverse_sqrt,  ///< 1 / sqrt(width of q and k); Vaswani et al. (2017)
    none,          ///< 1
    qk_norm,       ///< q and k are normalised to unit length; Henry et al. (2020)
    row_norm,      ///< each row of q k^T is divided by its norm
    length,        ///< 1 / (sqrt(width) sqrt(number of keys seen))
    number,        ///< `value`
  };
  Kind kind = Kind::inverse_sqrt;
  double value = 1;

  /// Parses "inv-sqrt", "none", "qk-norm", "row-norm", "length", or a positive number. Throws
  /// ShapeError for any other text.
  static ScoreScale parse(std::string_view text);
  std::string text() const;

  /// Returns true if scores are divided by the square root of the width of q and k.
  bool by_width() const { return kind == Kind::inverse_sqrt || kind == Kind::length; }
  bool operator==(const ScoreScale&) const = default;
};

/// Places of a block that have a Canon layer, letters of:
///     - A: the normed input of attention
///     - B: its queries, keys and values, side by side, before heads are rotated
///     - C: the normed input of the feed-forward layer
///     - D: its gate and up, side by side, before the activation
struct CanonPlaces {
  std::string letters = {};  ///< in the order of the alphabet

  /// Parses "off" or letters, in any order. Throws ShapeError for any other text.
  static CanonPlaces parse(std::string_view text);
  std::string text() const { return letters.empty() ? "off" : letters; }
  bool has(char place) const { return letters.find(place) != std::string::npos; }
  bool operator==(const CanonPlaces&) const = default;
};

enum class Positions {
  rope,     ///< rotary, inside attention
  learned,  ///< one vector per position, which the model adds to the embeddings
  none,
};
inline constexpr Named<Positions> kPositions[] = {
    {"rope", Positions::rope}, {"learned", Positions::learned}, {"none", Positions::none}};

/// Settings of every kind of attention, read. Widths are per head.
struct LayerSettings {
  Index heads = 0;  ///< query heads
  Index head_dim = 0;
  bool gate = false;  ///< multiply heads' outputs by sigmoid(gate_proj(x)), elementwise
  bool output_projection = true;
  bool qk_norm = false;  ///< RMSNorm of each head of q and k, before any RoPE
  ScoreScale score_scale = {};
  double score_cap = 0;    ///< scores s become cap tanh(s / cap); 0: none
  bool sinks = false;      ///< a learned score per head in the softmax that no value answers
  Index window = 0;        ///< tokens that a token sees, itself included; 0: all
  CanonPlaces canon = {};  ///< of the layer's block
  Index canon_taps = 0;
  double value_residual = 0;  ///< share of the first layer's values in the values of later layers
  Positions positions = Positions::rope;
  RotaryLayout rotary_layout = RotaryLayout::half;
  double rope_theta = 0;

  void visit(const auto& setting);
};

/// Properties of a layer for which there is no setting.
struct Unlisted {
  bool causal = true;
  double norm_epsilon = 0;  ///< of norms inside attention; 0: that of the kind
};

/// Properties that a layer gets from its model.
struct LayerPlace : Unlisted {
  Index dim = 128;          ///< width of the model
  Index max_positions = 0;  ///< longest sequence, for the rotary table
  bool bias = false;
  Index layers = 1;
  Index layer = 0;  ///< its number, from 0: only the model that is built has more than one
};

/// What a layer reads of an earlier layer with the same settings instead of having its own.
struct Shared {
  bool rows = false;    ///< those of tokens: then it has no cache
  bool pooled = false;  ///< those of blocks
  bool picks = false;   ///< the rows that an indexer picked: then it has none, nor keys of one

  bool any() const { return rows || pooled || picks; }
  bool operator==(const Shared&) const = default;
};
/// Words for layers of a pattern that share.
inline constexpr Named<Shared> kSharing[] = {{"share", {true, true, false}},
                                             {"share-index", {false, false, true}},
                                             {"share-pooled", {false, true, false}},
                                             {"share-pooled-index", {false, true, true}}};

/// Everything that defines an attention layer: all settings have values that fit together. Only
/// `resolve_attention` makes plans.
class AttentionPlan : public LayerSettings, public LayerPlace {
 public:
  const AttentionKind& kind() const { return *kind_; }
  bool rotary = false;  ///< RoPE; otherwise attention ignores positions

  /// What the layer shares. With `rows` it is as in Brandon et al., "Reducing Transformer Key-Value
  /// Cache Size with Cross-Layer Attention" (2024).
  const Shared& shared() const { return shared_; }
  bool shares() const { return shared_.rows; }        ///< the layer has no cache
  AttentionPlan sharing(const Shared& shared) const;  ///< a copy that shares so

  /// Tokens that a cache holds after `context` tokens.
  Index cached_tokens(Index context) const {
    return window > 0 ? std::min(window, context) : context;
  }
  /// All settings with their values, first the common ones: for config.json and tables.
  const nlohmann::ordered_json& values() const { return settings_.values(); }
  /// Settings of the kind, in its struct of settings: plan.read<MlaSizes>().
  template <class Sizes>
  Sizes read() const {
    return headcount::read<Sizes>(settings_);
  }

 private:
  friend AttentionPlan resolve_attention(const AttentionKind&, const Given&, const LayerPlace&);
  AttentionPlan(const AttentionKind& kind, const LayerSettings& common, const LayerPlace& place,
                Given settings)
      : LayerSettings(common), LayerPlace(place), kind_(&kind), settings_(std::move(settings)) {}

  const AttentionKind* kind_;
  Given settings_;  // all that the kind has, and no other
  Shared shared_;
};

/// Throws ShapeError unless `condition` holds; `parts` of the message are texts and whole numbers.
template <class... Parts>
void require_setting(bool condition, MessageFormat<std::type_identity_t<Parts>...> message,
                     const Parts&... parts) {
  static_assert(!(std::is_floating_point_v<Parts> || ...));
  if (!condition) throw ShapeError(message, parts...);
}

/// Name of the form that rebuilds keys and values of all heads from the cache.
inline constexpr std::string_view kExpanded = "expanded";

/// What a form that `cost` lists although the program never runs it, such as merged MLA, has beyond
/// the form that decodes.
struct CountedForm {
  std::string_view name;
  Count parameters, macs_per_token;
};

/// Declaration of an attention, in its one file. Flags, help, specs, config.json, caches, costs,
/// gradient checks and comparisons follow from it.
struct AttentionKind {
  std::string_view name;
  /// Three sentences for help and nn/attention/ATTENTIONS.md: what a token leaves in the cache,
  /// what is rebuilt from that, and when the attention wins.
  std::string_view summary;
  /// What head i, d wide, computes; letters as in nn/attention/README.md.
  std::string_view formula = {};
  std::string_view source = {};  ///< address of the paper, with its year
  /// Hugging Face's `model_type` of models with this layer, such as "llama"; empty: none.
  std::string_view architecture = {};
  /// Settings that a spec gives as numbers after the name: gqa2, mla48+16. The first one sets the
  /// size of the cache.
  std::array<std::string_view, 2> numbers = {};
  /// False for a recurrent state, which has no softmax over tokens: no score scale, dropout of
  /// weights, window or key mask.
  bool attends = true;
  bool rotates = true;  ///< false if the layer has no rotary positions
  /// True if a query sees all tokens up to its own and no others, so that there is no bidirectional
  /// layer and no key mask: with a state, or rows that are pooled over or picked among these
  /// tokens.
  bool needs_causal = false;
  /// Reason why the layer has no norms of `qk-norm`, for errors; empty: it has them, or its
  /// constructor does not call add_qk_norms.
  std::string_view no_qk_norm = {};
  double norm_epsilon = 1e-6;  ///< of its norms
  /// Settings that not all kinds have, or that have other defaults here: `settings_of` the kind's
  /// struct. Rules of defaults may read `dim`, too.
  SettingList (*settings)() = [] { return SettingList(); };
  /// Throws ShapeError that names settings which do not fit together. Null: all fit.
  void (*check)(const AttentionPlan& plan) = nullptr;
  /// Names of the forms of the layer, which give the same numbers at different costs: first the one
  /// that training uses, last the one that decoding chooses. Null: one form without a name.
  std::vector<std::string_view> (*forms)(const AttentionPlan& plan) = nullptr;
  /// Form that `cost` lists although the program never runs it, such as merged MLA; null: none.
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
/// Settings of all attentions: the common ones, then the others, marked with the kinds that have
/// them.
const SettingList& attention_settings();

/// Plan of a layer, with defaults for what is not explicit. Throws ShapeError that names settings
/// which do not fit together.
AttentionPlan resolve_attention(const AttentionKind& kind, const Given& given,
                                const LayerPlace& place);

/// Names of the forms of the planned layer (see AttentionKind::forms); {""} if there is only one.
std::vector<std::string_view> attention_forms(const AttentionPlan& plan);

// Checks and defaults for kinds. They throw ShapeError.

/// Requires an even `head-dim` if positions are rotary.
void require_rotary_heads(const AttentionPlan& layer);
/// Requires `rope_dim` to fit into keys of `width`, and to be even if positions are rotary.
void require_rotary_part(const AttentionPlan& layer, Index rope_dim, Index width);
/// Requires that `kv-heads` divides `heads`.
void require_kv_heads(const AttentionPlan& layer, Index kv_heads);
/// Requires that `count`, the value of the setting `name`, divides `whole`, that of `whole_name`.
void require_divisor(std::string_view name, Index count, std::string_view whole_name, Index whole);

// Settings that several kinds have.

/// Declares, for one kind, a setting that others have too: `kv-heads`, `q-rank`, `rope-dim`,
/// `v-dim` or one of LayerSettings, with the kind's own default.
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
