#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>

#include "autograd/base/error.h"
#include "autograd/base/settings.h"
#include "autograd/ops.h"

namespace headcount {

struct AttentionKind;

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

/// Settings of every kind of attention, read. Widths are per head.
struct LayerSettings {
  Index heads = 0;  ///< query heads
  Index head_dim = 0;
  bool gate = false;  ///< multiply heads' outputs by sigmoid(gate_proj(x)), elementwise
  bool output_projection = true;
  bool qk_norm = false;  ///< RMSNorm of each head of q and k, before RoPE
  ScoreScale score_scale = {};
  double score_cap = 0;    ///< scores s become cap tanh(s / cap); 0: none
  bool sinks = false;      ///< a learned score per head in the softmax that no value answers
  Index window = 0;        ///< tokens that a token sees, itself included; 0: all
  CanonPlaces canon = {};  ///< of the layer's block
  Index canon_taps = 0;
  double value_residual = 0;  ///< share of the first layer's values in those of later layers
  RotaryLayout rotary_layout = RotaryLayout::half;
  double rope_theta = 0;
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
  bool rotary = true;       ///< RoPE; otherwise attention ignores positions
  bool bias = false;
};

/// Everything that defines an attention layer: all settings have values that fit together. Only
/// `resolve_attention` makes plans.
class AttentionPlan : public LayerSettings, public LayerPlace {
 public:
  const AttentionKind& kind() const { return *kind_; }

  // Settings of the kind by name: plan.whole("kv-heads").

  /// Returns true if the kind has the setting.
  bool has(std::string_view name) const { return settings_.has(name); }
  Index whole(std::string_view name) const { return settings_.whole(name); }
  double number(std::string_view name) const { return settings_.number(name); }
  bool on(std::string_view name) const { return settings_.on(name); }

  /// Returns true if the layer has no cache and reads that of an earlier layer with the same
  /// settings. Brandon et al., "Reducing Transformer Key-Value Cache Size with Cross-Layer
  /// Attention" (2024).
  bool shares() const { return shares_; }
  AttentionPlan sharing(bool shares = true) const;  ///< a copy that shares, or that does not

  /// Tokens that a cache holds after `context` tokens.
  Index cached_tokens(Index context) const {
    return window > 0 ? std::min(window, context) : context;
  }
  /// All settings with their values, first the common ones.
  const nlohmann::ordered_json& values() const { return settings_.values(); }

 private:
  friend AttentionPlan resolve_attention(const AttentionKind&, const Given&, const LayerPlace&);
  AttentionPlan(const AttentionKind& kind, const LayerSettings& common, const LayerPlace& place,
                Given settings)
      : LayerSettings(common), LayerPlace(place), kind_(&kind), settings_(std::move(settings)) {}

  const AttentionKind* kind_;
  Given settings_;  // all that the kind has, and no other
  bool shares_ = false;
};

/// Throws ShapeError unless `condition` holds; `parts` of the message are texts and whole numbers.
template <class... Parts>
void require_setting(bool condition, const Parts&... parts) {
  static_assert(!(std::is_floating_point_v<Parts> || ...));
  if (!condition) throw ShapeError(parts...);
}

}  // namespace headcount
