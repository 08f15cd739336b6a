#pragma once

#include <algorithm>
#include <any>
#include <string>
#include <string_view>
#include <utility>

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

  /// "inv-sqrt", "none", "qk-norm", "row-norm", "length", or a positive number.
  /// Throws ShapeError otherwise.
  static ScoreScale parse(std::string_view text);
  std::string text() const;
  bool operator==(const ScoreScale&) const = default;
};

/// The settings that all kinds of attention have. Widths are per head.
struct LayerSettings {
  Index heads = 4;     ///< query heads
  Index head_dim = 0;  ///< default dim / heads
  bool gate = false;   ///< heads' outputs times sigmoid(gate_proj(x)), elementwise
  bool output_projection = true;
  ScoreScale score_scale = {};
  Index window = 0;  ///< a token sees only the last `window`, itself included; 0: all
  RotaryLayout rotary_layout = RotaryLayout::half;  ///< default: the kind's, as its models have it
  double rope_theta = 10000;
};

/// What there is no setting for.
struct Unlisted {
  bool causal = true;
  double norm_epsilon = 1e-6;  ///< of the RMSNorm of latents, and of heads in delta
};

/// What a layer has from the model that it is in.
struct LayerPlace : Unlisted {
  Index dim = 128;          ///< width of the model
  Index max_positions = 0;  ///< longest sequence, for the rotary table
  bool rotary = true;       ///< rotary positions; otherwise none in attention
  bool bias = false;
};

/// Everything that defines an attention layer, settled: no default is open, and all fits together.
/// `resolve_attention` alone makes one.
class AttentionPlan : public LayerSettings, public LayerPlace {
 public:
  const AttentionKind& kind() const { return *kind_; }
  /// The settings that the kind declares for itself, in an object of its own type.
  template <class Own>
  const Own& own() const {
    return std::any_cast<const Own&>(own_);
  }

  /// The layer keeps nothing: it reads what an earlier one of the same settings kept. Brandon et
  /// al., "Reducing Transformer Key-Value Cache Size with Cross-Layer Attention" (2024).
  bool shares() const { return shares_; }
  AttentionPlan sharing() const;

  /// Tokens that a cache holds for a context of so many.
  Index cached_tokens(Index context) const {
    return window > 0 ? std::min(window, context) : context;
  }
  /// The settings, those of the kind too, with their values.
  nlohmann::ordered_json values() const;

 private:
  friend AttentionPlan resolve_attention(const AttentionKind&, const Given&, const LayerPlace&);
  AttentionPlan(const AttentionKind& kind, const LayerSettings& settings, const LayerPlace& place)
      : LayerSettings(settings), LayerPlace(place), kind_(&kind) {}

  const AttentionKind* kind_;
  std::any own_;
  bool shares_ = false;
};

/// Throws ShapeError with `message` unless `condition`.
void require_setting(bool condition, const std::string& message);

}  // namespace headcount
