#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nn/attention/attention.h"

/// Compressor of DeepSeek-V4 (2026), which `hca` and `csa` have. Not part of the public interface.
namespace headcount {

/// What a compressor pools, and the names of its weights and of its part of the cache.
struct CompressorPlan {
  std::string weights = "compressor.";  ///< prefix of its weights' names
  std::string kept = {};                ///< prefix of its cache parts' names
  Index width = 0;                      ///< of a row
  Index block = 1;                      ///< tokens that a row stands for
  Index blocks = 1;  ///< that a row is pooled over: its own or, if 2, the one before, too

  Index channels() const { return blocks * width; }
  std::string rows() const { return kept + "compressed"; }
};

/// Pools one row for each block of tokens, each channel on its own:
///     row r = norm(sum over j of softmax over j(Z_j + B_j) C_j)
/// with C and Z two projections of x, and B a table with a row for each token of a block. j goes
/// over the tokens of the block, or, with halves of the channels of their own, over those of the
/// block before, too. Parameters: kv_proj (C) and gate_proj (Z) [channels, dim], position_bias (B)
/// [block, channels] and kv_norm [width].
class Compressor {
 public:
  /// A layer that shares has no such weights, and pools no rows.
  Compressor(LayerWeights& weights, CompressorPlan plan);

  const CompressorPlan& plan() const { return plan_; }
  /// Rows [B, blocks, width] of the blocks that the tokens x [B, T, dim] complete, if there are
  /// any. Tokens of a block that stays open are kept in `memory`.
  std::optional<Var> operator()(Var x, Memory& memory) const;

 private:
  Var inputs(const Linear& projection, std::string_view name, Var x, Memory& memory,
             Real none) const;

  CompressorPlan plan_;
  std::optional<Linear> kv_proj_, gate_proj_;
  std::optional<ParameterId> position_bias_;
  std::optional<Norm> kv_norm_;
};

}  // namespace headcount
