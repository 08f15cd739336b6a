#include <algorithm>

#include "nn/attention/attention.h"
#include "nn/attention/kinds/indexer.h"

/// Block-sparse attention: grouped-query attention of which a query reads only the k blocks of m
/// tokens that an indexer chooses, its own block always. MiniMax, "MiniMax-M3" (2026). With I heads
/// of the indexer, d_I wide, and one key for all of them:
///   score of query t and block b = max over its tokens j <= t of RMSNorm(q_h) RMSNorm(k_j)
/// Each index head chooses for one KV head, or the greatest score of all heads for all of them, as
/// transformers has it. RoPE rotates the first `rope-dim` dimensions of the indexer's queries and
/// keys, in half layout. No gradient flows through a choice: the indexer learns as that of `dsa`.
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d]; indexer.q_proj
/// [I d_I, dim], indexer.k_proj [d_I, dim], indexer.q_norm and indexer.k_norm [d_I].
namespace headcount {

namespace {

enum class Chooser { kv_head, layer };

constexpr Named<Chooser> kChoosers[] = {{"kv-head", Chooser::kv_head}, {"layer", Chooser::layer}};

struct BlockSizes {
  Index kv_heads, rope_dim, block;
  Chooser chooser;
  IndexSizes index;

  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", half_of_heads()));
    setting(rope_dim, shared_setting("rope-dim", same_as("head-dim")));
    index.visit(setting, 4, same_as("kv-heads"));
    setting(block,
            {"index-block", "tokens of a block that is read or left out", WholeRange{1}, 16});
    setting(chooser,
            {"index-choice",
             "who chooses blocks: each head of the indexer for a KV head, or the greatest score of "
             "its heads for the layer",
             kChoosers, "kv-head"},
            kChoosers);
  }
  void check(const AttentionPlan& c) const {
    require_kv_heads(c, kv_heads);
    if (rope_dim == c.head_dim) require_rotary_heads(c);
    require_rotary_part(c, rope_dim);
    require_index_width(index, rope_dim);
    require_setting(chooser == Chooser::layer || index.heads == kv_heads,
                    "`index-choice` kv-head needs as many `index-heads` as `kv-heads`, {}, not {}",
                    kv_heads, index.heads);
  }
};

class BlockSparseAttention : public Attention {
 public:
  BlockSparseAttention(const AttentionPlan& c, const BlockSizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, {c.heads, c.head_dim}),
        s_(s),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim, "q")),
        k_proj_(weights.row_matrix("k_proj", c.dim, s.kv_heads * c.head_dim, "k")),
        v_proj_(weights.row_matrix("v_proj", c.dim, s.kv_heads * c.head_dim, "v")),
        index_q_(weights.matrix("indexer.q_proj", c.dim, s.index.heads * s.index.head_dim)),
        index_q_norm_(weights.norm("indexer.q_norm", s.index.head_dim)),
        index_k_(weights.row_matrix("indexer.k_proj", c.dim, s.index.head_dim)),
        index_k_norm_(
            weights.for_rows([&] { return weights.norm("indexer.k_norm", s.index.head_dim); })) {
    add_qk_norms(weights, {c.head_dim, c.head_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const Rows k = memory.keep("k", [&] {
      return prepare(normed_keys(split_heads(convolved("k", (*k_proj_)(x), memory), s_.kv_heads)));
    });
    const Rows v = memory.keep("v", [&] {
      return mixed_values(split_heads(convolved("v", (*v_proj_)(x), memory), s_.kv_heads), memory);
    });
    const Var q =
        prepare(normed_queries(split_heads(convolved("q", q_proj_(x), memory), plan().heads)));
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    const Picks picks = pick(x.tape->detached(x), memory);
    o.picked = picks.picked;
    const Var y = attention(q, k, v, o);
    learn(s_.index, picks, memory);
    return output(x, y);
  }

 private:
  Picks pick(Var x, Memory& memory) const {
    require_setting(memory.key_mask().empty(),
                    "`index-topk` picks among all tokens before the query; it has no key mask");
    const auto turned = [&](Var rows) { return rotate_first(rows, RotaryLayout::half, memory); };
    const Rows keys = memory.keep(
        "index_key", [&] { return turned((*index_k_norm_)(split_heads((*index_k_)(x), 1))); });
    const Index rows = keys.shape()[1];
    const Var q = turned(index_q_norm_(split_heads(index_q_(x), s_.index.heads)));
    Picks picks = pick_blocks(q, read_rows(*x.tape, keys), s_.block,
                              s_.chooser == Chooser::kv_head ? s_.kv_heads : 1,
                              {.most = std::min(s_.index.topk, rows),
                               .first_position = memory.first_position(),
                               .window = plan().window,
                               .first_row = memory.first_position() + x.shape()[1] - rows});
    if (learns(s_.index, memory))
      picks.picked.weights = x.tape->scratch(picks.scores.shape().size());
    return picks;
  }

  BlockSizes s_;
  Linear q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // none in a layer that shares
  Linear index_q_;
  Norm index_q_norm_;
  std::optional<Linear> index_k_;
  std::optional<Norm> index_k_norm_;
};

}  // namespace

extern constinit const AttentionKind kBsa = attention_of<BlockSparseAttention, BlockSizes>(
    {.name = "bsa",
     .summary =
         "block-sparse (MiniMax-M3): gqa that reads the `index-topk` blocks of `index-block` "
         "tokens that an indexer picks",
     .formula = "gqa over the blocks with the greatest scores max q K over a block's keys K of an "
                "indexer",
     .source = "https://arxiv.org/abs/2606.13392 (2026)",
     .numbers = {"kv-heads"},
     .needs_causal = true,
     .no_qk_norm = "",
     .notes = [](const AttentionPlan& c) {
       const auto s = c.read<BlockSizes>();
       return index_notes("bsa", s.index,
                          (c.cached_tokens(c.max_positions) + s.block - 1) / s.block);
     }});

}  // namespace headcount
