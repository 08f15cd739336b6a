#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/attention.h"

/// Indexer of DeepSeek-V3.2 (2025) and V4 (2026), which `dsa` and `csa` have. Not part of the
/// public interface.
namespace headcount {

/// A copy of the picked ones of `rows`, of any type, for one query that reads a cache; else none.
std::optional<Rows> gathered(const Picks& picks, const Rows& rows, const Memory& memory);

/// Names of an indexer's matrices, and the rows that it scores. Its sizes are settings.
struct IndexerOptions {
  std::string_view q_proj, weights_proj;
  Index tokens = 1;  ///< that a row stands for
  Index window = 0;  ///< rows that a token sees at most, the last ones; 0: all
};

/// Scores rows for each token, of which attention reads those with the greatest scores:
///     score of query t and row r = sum over h of (weights_proj x)_h max(0, q_h K_r) / sqrt(I d_I)
/// with I heads q, d_I wide, of q_proj c, where c is the latent of attention's queries, and one row
/// K_r for all heads. No gradient flows through a choice. The indexer learns by the KL divergence
/// of softmax(scores) from the weights that attention gave to the picked rows, summed over its
/// heads; x and c are constants to it. This is the second of the two stages in which DeepSeek-V3.2
/// trains its indexer.
class Indexer {
 public:
  Indexer(LayerWeights& weights, const IndexerOptions& options);

  /// Queries [B, T, heads, width], not rotated yet, from the latent c [B, T, q_rank].
  Var queries(Var latent) const;
  /// Rows of `keys` that the tokens x pick, with room for their weights if the indexer learns. None
  /// if there are no rows, or if all are read and the indexer does not learn.
  std::optional<Picks> pick(Var x, Var queries, const std::optional<Rows>& keys,
                            const Memory& memory) const;
  /// Adds the loss of the indexer to those that `memory` collects, if it collects any. Call it
  /// after attention.
  void learn(const Picks& picks, const Memory& memory) const;

 private:
  bool learns(const Memory& memory) const;

  Index heads_, width_;  // of its queries; a key has one head
  Index topk_, tokens_, window_;
  double loss_;
  Linear q_proj_, weights_proj_;
};

/// Settings of attentions with an indexer, which picks by default `topk` rows.
SettingList index_settings(Index topk);
/// Throws ShapeError unless what RoPE rotates fits into a head of the indexer.
void require_index_width(const AttentionPlan& plan);
/// Sentences that a user should know about an indexer that picks from at most `rows` rows (0:
/// unknown).
std::vector<std::string> index_notes(const AttentionPlan& plan, Index rows);

}  // namespace headcount
