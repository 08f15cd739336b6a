#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/attention.h"

/// Indexer of DeepSeek-V3.2 (2025) and V4 (2026), which `dsa` and `csa` have, and of MiniMax-M3
/// (2026), which `bsa` has. Not part of the public interface.
namespace headcount {

/// Settings of attentions with an indexer.
struct IndexSizes {
  Index heads, head_dim;  ///< of its queries; a key has one head
  Index topk;
  double loss;

  /// `usual_topk` is the default of `index-topk`.
  void visit(const auto& setting, Index usual_topk) {
    setting(heads, {"index-heads", "heads of the indexer", WholeRange{1},
                    Default("half of heads", [](const Given& v) {
                      return std::max<Index>(1, v.whole("heads") / 2);
                    })});
    setting(head_dim,
            {"index-head-dim", "dimensions per head of the indexer, of which RoPE rotates rope-dim",
             WholeRange{1},
             Default("half of head-dim, or rope-dim if that is more", [](const Given& v) {
               return std::max({Index{2}, v.whole("head-dim") / 4 * 2, v.whole("rope-dim")});
             })});
    setting(topk,
            {"index-topk",
             "what a token reads: tokens, compressed rows or blocks of tokens, those with the "
             "greatest scores of the indexer",
             WholeRange{1}, of_owner(usual_topk)});
    setting(loss, {"index-loss",
                   "weight of the loss that trains the indexer, its divergence from the weights of "
                   "attention; 0: the indexer stays random",
                   NumberRange{0}, 1.0});
  }
};

/// Names of an indexer's weights, the width of what it makes queries of, and the rows that it
/// scores.
struct IndexerOptions {
  std::string_view q_proj, weights_proj = {};  ///< without `weights_proj` it picks blocks
  Index query_width;
  Index tokens = 1;  ///< that a row stands for
  Index window = 0;  ///< rows that a token sees at most, the last ones; 0: all
  std::string_view q_norm = {}, k_proj = {}, k_norm = {};  ///< empty: none
  NormKind norm = NormKind::rms;                           ///< of the keys
  Index block = 1, lists = 1;                              ///< see TopK
};

/// Scores rows for each token, of which attention reads those with the greatest scores:
///     score of query t and row r = sum over h of (weights_proj x)_h max(0, q_h K_r) / sqrt(I d_I)
/// with I heads q, d_I wide, of q_proj c, where c is the latent of attention's queries, and one row
/// K_r for all heads. Without weights it scores blocks of rows (see pick_rows), scaled by
/// 1 / sqrt(d_I). No gradient flows through a choice. The indexer learns by the KL divergence
/// of softmax(scores) from the weights that attention gave to the picked rows, summed over its
/// heads; x and c are constants to it. This is the second of the two stages in which DeepSeek-V3.2
/// trains its indexer.
class Indexer {
 public:
  Indexer(LayerWeights& weights, const IndexSizes& sizes, const IndexerOptions& options);

  /// Queries [B, T, heads, width], not rotated yet, from the latent c [B, T, q_rank].
  Var queries(Var latent) const;
  /// Rows of `keys` that the tokens x pick, with room for their weights if the indexer learns. None
  /// if there are no rows, or if all are read and the indexer does not learn.
  std::optional<Picks> pick(Var x, Var queries, const std::optional<Rows>& keys,
                            Memory& memory) const;
  /// Tokens that the tokens x pick by keys of k_proj x, which are kept as "index_key". `rotate`
  /// rotates queries and keys.
  std::optional<Picks> pick_tokens(Var x, Var latent, const std::function<Var(Var)>& rotate,
                                   Memory& memory) const;
  /// Rows that an earlier layer picked, without scores, for a layer that shares them.
  static std::optional<Picks> shared(const Memory& memory);
  /// What the op reads in place of `rows`: for the one query x of a decoding step they become
  /// copies of those that it picked, of which it reads all.
  std::optional<PickedRows> read(Var x, const std::optional<Picks>& picks,
                                 std::initializer_list<Rows*> rows, const Memory& memory) const;
  /// Adds the loss of the indexer to those that `memory` collects, if it collects any. Call it
  /// after attention.
  void learn(const std::optional<Picks>& picks, const Memory& memory) const;

 private:
  bool learns(const Memory& memory) const;

  IndexSizes s_;
  IndexerOptions o_;
  bool shares_;
  std::optional<Linear> q_proj_, weights_proj_, k_proj_;  // no k_proj in a layer that shares rows
  std::optional<Norm> q_norm_, k_norm_;
};

/// Throws ShapeError unless what RoPE rotates fits into a head of the indexer.
void require_index_width(const IndexSizes& sizes, Index rope_dim);
/// Sentences that a user should know about the indexer of `kind` that picks from at most `rows`
/// rows (0: unknown).
std::vector<std::string> index_notes(std::string_view kind, const IndexSizes& sizes, Index rows);

}  // namespace headcount
