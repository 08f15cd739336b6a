#include "nn/attention/attention.h"

/// Forgetting attention (Lin et al., "Forgetting transformer: softmax attention with a forget
/// gate", 2025): grouped-query attention without positions. Every token has a forget gate f in (0,
/// 1) for each query head, by which it weakens what the head reads of all tokens before it:
///   log f = -softplus(-(f_proj x)),  score of query i and key j = q_i k_j / sqrt(d) + sum of log f
///   over tokens j + 1 .. i
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], f_proj [H, dim] with a bias, o_proj
/// [dim, H d]. The norms of `qk-norm` have weights for each head, as its authors have them, and
/// come before Canon layer B.
namespace headcount {

namespace {

struct FoxSizes {
  Index kv_heads;

  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", same_as("heads")));
  }
  void check(const AttentionPlan& c) const { require_kv_heads(c, kv_heads); }
};

class ForgettingAttention : public Attention {
 public:
  ForgettingAttention(const AttentionPlan& c, const FoxSizes& s, LayerWeights& weights)
      : Attention(c, 0, {c.heads, c.head_dim}),
        kv_heads_(s.kv_heads),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim, "q")),
        k_proj_(weights.row_matrix("k_proj", c.dim, kv_heads_ * c.head_dim, "k")),
        v_proj_(weights.row_matrix("v_proj", c.dim, kv_heads_ * c.head_dim, "v")),
        f_proj_(weights.row_matrix("f_proj", c.dim, c.heads, {}, true)) {
    add_qk_norms(weights, {c.heads * c.head_dim, kv_heads_ * c.head_dim});
  }

  Var forward(Var x, Memory& memory) const override {
    const Index heads = plan().heads;
    const auto part = [&](std::string_view name, Var of_heads) {
      return split_heads(convolved(name, merge_heads(of_heads), memory), of_heads.shape()[2]);
    };
    const Rows k = memory.keep("k", [&] {
      return normalize_for_scores(part("k", normed_keys(split_heads((*k_proj_)(x), kv_heads_))));
    });
    const Rows v = memory.keep("v", [&] {
      return mixed_values(part("v", split_heads((*v_proj_)(x), kv_heads_)), memory);
    });
    // A score has the sum of many log gates, whose roundings would add up.
    const Rows gates = memory.keep(
        "gates", [&] { return split_heads(scale(softplus(scale((*f_proj_)(x), -1)), -1), heads); },
        Rounding::none);
    const Var q = normalize_for_scores(part("q", normed_queries(split_heads(q_proj_(x), heads))));
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    o.log_gates = &gates;
    return output(x, attention(q, k, v, o));
  }

 private:
  Index kv_heads_;
  Linear q_proj_;
  std::optional<Linear> k_proj_, v_proj_, f_proj_;  // none in a layer that shares
};

}  // namespace

extern constinit const AttentionKind kFox = attention_of<ForgettingAttention, FoxSizes>(
    {.name = "fox",
     .summary =
         "The forgetting transformer keeps rows as grouped-query attention does and log f of a "
         "gate for each head: 2 G d + H numbers a token. Nothing is rebuilt: gates between a key "
         "and a query weaken what lies far back, in place of positions. It is worth trying in "
         "place of positions: its authors find lower losses on long texts, also beyond the context "
         "of training.",
     .formula =
         "softmax(qᵢ kᵀ / √d + Σ log f) v, the sum over the tokens after the key up to the query; "
         "fᵢ = σ(wᵢ x + bᵢ)",
     .source = "https://arxiv.org/abs/2503.02130 (2025)",
     .numbers = {"kv-heads"},
     .rotates = false,
     .norm_epsilon = 1e-5});  // as its authors have it

}  // namespace headcount
