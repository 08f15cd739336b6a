#include "nn/attention/kinds/indexer.h"

/// Block-sparse attention of MiniMax-M3 (2026): grouped-query attention whose queries read only the
/// tokens of the k blocks with the greatest scores of an indexer (see indexer.h), the query's own
/// block always:
///     score of query t and block b = max over tokens j <= t of b, and over heads h, of q_h K_j
/// with I heads q_h = RMSNorm(indexer.q_proj x), d_I wide, and K_j = RMSNorm(indexer.k_proj x), of
/// which RoPE rotates the first `rope-dim` dimensions, in half layout. By `index-choice`, the heads
/// of the indexer choose together, or I / G of them for each KV head, as the paper has it.
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d]; indexer.q_proj
/// [I d_I, dim], indexer.k_proj [d_I, dim], indexer.q_norm and indexer.k_norm [d_I].
namespace headcount {

namespace {

enum class Choice { of_layer, of_kv_head };
constexpr Named<Choice> kChoices[] = {{"layer", Choice::of_layer}, {"kv-head", Choice::of_kv_head}};

struct BsaSizes {
  Index kv_heads, rope_dim, block;
  Choice choice;
  IndexSizes index;

  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", half_of_heads()));
    setting(rope_dim, shared_setting("rope-dim", half_of_head()));
    setting(block, {"index-block", "tokens of a block that the indexer picks", WholeRange{1}, 16});
    setting(choice,
            {"index-choice",
             "choices of blocks: one of the layer, by all heads of the indexer, or one of each KV "
             "head, by index-heads / kv-heads of them",
             kChoices, "layer"},
            kChoices);
    index.visit(setting, 4);
  }
  void check(const AttentionPlan& c) const {
    require_rotary_part(c, rope_dim, c.head_dim);
    require_kv_heads(c, kv_heads);
    if (choice == Choice::of_kv_head)
      require_divisor("kv-heads", kv_heads, "index-heads", index.heads);
    require_index_width(index, rope_dim);
  }
};

class BlockSparseAttention : public Attention {
 public:
  BlockSparseAttention(const AttentionPlan& c, const BsaSizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, {c.heads, c.head_dim}),
        kv_heads_(s.kv_heads),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim, "q")),
        k_proj_(weights.row_matrix("k_proj", c.dim, kv_heads_ * c.head_dim, "k")),
        v_proj_(weights.row_matrix("v_proj", c.dim, kv_heads_ * c.head_dim, "v")),
        indexer_(weights, s.index,
                 {.q_proj = "indexer.q_proj",
                  .query_width = c.dim,
                  .window = c.window,
                  .q_norm = "indexer.q_norm",
                  .k_proj = "indexer.k_proj",
                  .k_norm = "indexer.k_norm",
                  .block = s.block,
                  .lists = s.choice == Choice::of_kv_head ? kv_heads_ : 1}) {
    add_qk_norms(weights, {c.head_dim, c.head_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const auto heads = [&](std::string_view part, const Linear& projection, Index count) {
      return split_heads(convolved(part, projection(x), memory), count);
    };
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const Var q = prepare(normed_queries(heads("q", q_proj_, plan().heads)));
    Rows k =
        memory.keep("k", [&] { return prepare(normed_keys(heads("k", *k_proj_, kv_heads_))); });
    Rows v =
        memory.keep("v", [&] { return mixed_values(heads("v", *v_proj_, kv_heads_), memory); });
    const auto rotated = [&](Var h) { return rotate_first(h, RotaryLayout::half, memory); };
    const std::optional<Picks> picks = indexer_.pick_tokens(x, x, rotated, memory);
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    o.picked = indexer_.read(x, picks, {&k, &v}, memory);
    const Var y = attention(q, k, v, o);
    indexer_.learn(picks, memory);
    return output(x, y);
  }

 private:
  Index kv_heads_;
  Linear q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // none in a layer that shares
  Indexer indexer_;
};

}  // namespace

extern constinit const AttentionKind kBsa = attention_of<BlockSparseAttention, BsaSizes>(
    {.name = "bsa",
     .summary = "Block-sparse attention (MiniMax-M3) keeps what `gqa` keeps and a key of an "
                "indexer: 2 G d + index numbers a token. Nothing is rebuilt: a token reads its own "
                "block and those in which the indexer finds the greatest scores, so that rows that "
                "lie side by side are read together. It is worth choosing at long contexts on "
                "hardware that reads blocks; the cache is a little larger than that of `gqa`.",
     .formula =
         "gqa over the blocks of tokens with the greatest q K of an indexer, the query's own "
         "among them",
     .source = "https://arxiv.org/abs/2606.13392 (2026)",
     .numbers = {"kv-heads", "index-topk"},
     .needs_causal = true,
     .no_qk_norm = "",
     .notes = [](const AttentionPlan& c) {
       const auto s = c.read<BsaSizes>();
       return index_notes("bsa", s.index,
                          (c.cached_tokens(c.max_positions) + s.block - 1) / s.block);
     }});

}  // namespace headcount
