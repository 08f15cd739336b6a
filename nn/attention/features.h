#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/weights.h"

namespace headcount {

/// Widths of the norms of `qk-norm`: that of a head, for weights that all heads share (Qwen3), or
/// of all heads side by side, for weights of each head. 0: no such norm.
struct QkNorms {
  Index q, k;
  Index rope_key = 0;       ///< of a rotary key that all heads share
  bool k_is_cached = true;  ///< keys are normed before they are cached, not when they are read
};

/// What every kind of attention may have, each by a setting of its own: Canon layer B, norms of q
/// and k, a value residual, scales and sinks of the scores, and a gate. Where a layer does not have
/// it, a function returns what it gets.
class AttentionFeatures {
 protected:
  explicit AttentionFeatures(const AttentionPlan& plan) : plan_(plan) {}
  const AttentionPlan& plan() const { return plan_; }
  /// Adds q_norm, k_norm and k_rope_norm if the plan has `qk-norm`.
  void add_qk_norms(LayerWeights& weights, const QkNorms& widths);
  /// Adds the weights of the other features, of a layer whose heads are `width` wide side by side.
  void add_features(LayerWeights& weights, Index width);
  /// The outputs x [B, T, width] of a projection after Canon layer B, of which they are `part`; x
  /// itself without such a layer.
  Var convolved(std::string_view part, Var x, Memory& memory) const;
  /// Queries [B, T, heads, width] after the norm of `qk-norm`, if the layer has one.
  Var normed_queries(Var q) const { return q_norm_ ? (*q_norm_)(q) : q; }
  /// Keys [B, T, heads, width] after the norm of `qk-norm`, if there is one.
  Var normed_keys(Var k) const { return k_norm_ ? (*k_norm_)(k) : k; }
  /// Keys that are normed when they are read.
  Rows normed_keys(Tape& tape, const Rows& k) const {
    return k_norm_ ? Rows((*k_norm_)(read_rows(tape, k))) : k;
  }
  /// The one rotary key [B, T, 1, width] of all heads after its norm, if there is one; it is not
  /// rotated yet.
  Var normed_rope_key(Var k) const { return rope_key_norm_ ? (*rope_key_norm_)(k) : k; }
  /// Normalises q or k [B, T, heads, width] as the score scale asks: to unit length for QK-norm.
  Var normalize_for_scores(Var x) const;
  /// Normalises keys that are kept in parts or serve as values too. QK-norm joins all parts into
  /// one; otherwise `parts` are returned as they are.
  std::vector<Rows> normalize_for_scores(Tape& tape, std::vector<Rows> parts) const;
  /// Values of these tokens [B, T, heads, width] mixed with those of the first layer, as
  /// `value-residual` says; in the first layer v itself. Zhou et al., "Value residual learning"
  /// (2024).
  Var mixed_values(Var v, Memory& memory) const;
  /// Sets the scale, cap and sinks of scores of q and k with `width` elements per head.
  void set_scores(AttentionOptions& options, Tape& tape, Index width) const;
  /// The heads' outputs y [B, T, width] side by side, gated by x (Qiu et al., "Gated attention",
  /// 2025).
  Var gated(Var x, Var y) const;

 private:
  AttentionPlan plan_;
  std::optional<Linear> gate_proj_;
  std::optional<ParameterId> sinks_;
  std::optional<Norm> q_norm_, k_norm_, rope_key_norm_;
  std::optional<CausalConvolution> canon_;
  std::map<std::string, Index, std::less<>> canon_parts_;  // their first channels
};

}  // namespace headcount
