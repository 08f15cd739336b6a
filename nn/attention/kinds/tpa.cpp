#include "nn/attention/attention.h"

/// Tensor product attention (Zhang et al., "Tensor product attention is all you need", 2025): the
/// queries, keys and values of all heads are means of products of two factors that are linear in x,
/// one over the heads and one over a head's width: k_h = (1 / R) sum over r of a[h, r] b[r]. The
/// cache has both factors of k and v, of which decoding makes the keys and values of all tokens
/// again; b of keys is rotated by position. Parameters: {q,k,v}_a_proj [H R, dim], {q,k,v}_b_proj
/// [R d, dim], o_proj [dim, H d].
namespace headcount {

namespace {

// Sums of products of factors: weights [B, S, 1, H R] and rows [B, S, R, d] -> [B, S, H, d].
Var products(Tape& tape, const Rows& weights, const Rows& rows) {
  const Var a = read_rows(tape, weights), b = read_rows(tape, rows);
  const Shape shape = b.shape();
  const Index count = shape[2];
  return matrix_product(reshape(a, {shape[0], shape[1], weights.width() / count, count}), b);
}

struct TpaSizes {
  Index kv_factors, q_factors;

  void visit(const auto& setting) {
    const WholeRange factors = {1, 1 << 20};  // at most the greatest width of a model
    setting(kv_factors,
            {"kv-factors", "rank of k, and of v: number of products of factors that are averaged",
             factors, 2});
    setting(q_factors,
            {"q-factors", "rank of q: number of products of factors that are averaged", factors,
             Default("3 kv-factors", [](const Given& v) { return 3 * v.whole("kv-factors"); })});
  }
  void check(const AttentionPlan& c) const { require_rotary_heads(c); }
};

class TensorProductAttention : public Attention {
 public:
  TensorProductAttention(const AttentionPlan& c, const TpaSizes& s, LayerWeights& weights)
      : Attention(c, c.head_dim, {c.heads, c.head_dim}),
        s_(s),
        q_(factors(weights, "q", s.q_factors)),
        k_(weights.for_rows([&] { return factors(weights, "k", s.kv_factors); })),
        v_(weights.for_rows([&] { return factors(weights, "v", s.kv_factors); })) {}

  Var forward(Var x, Memory& memory) const override {
    const auto rotated = [&](Var factor) { return rotate(factor, memory); };
    // a [B, T, 1, H count], with the 1 / count of the mean, and b [B, T, count, d].
    const auto a = [&](const std::string& name, const Factors& factors, Index count) {
      const Var weights = convolved(name + "_a", factors.a_proj(x), memory);
      return scale(split_heads(weights, 1), Real{1} / static_cast<Real>(count));
    };
    const auto b = [&](const std::string& name, const Factors& factors, Index count) {
      return split_heads(convolved(name + "_b", factors.b_proj(x), memory), count);
    };
    const auto keep = [&](const std::string& name, const auto& make_a, const auto& make_b) {
      const Rows weights = memory.keep(name + "_a", make_a);
      return products(*x.tape, weights, memory.keep(name + "_b", make_b));
    };
    const Var k = keep(
        "k", [&] { return a("k", *k_, s_.kv_factors); },
        [&] { return rotated(b("k", *k_, s_.kv_factors)); });
    const Var v = keep(
        "v", [&] { return a("v", *v_, s_.kv_factors); },
        [&] { return b("v", *v_, s_.kv_factors); });
    const Var q = products(*x.tape, a("q", q_, s_.q_factors), rotated(b("q", q_, s_.q_factors)));
    return output(x, attention(normalize_for_scores(q), normalize_for_scores(k), v,
                               options(*x.tape, plan().head_dim, memory)));
  }

 private:
  struct Factors {
    Linear a_proj, b_proj;
  };
  static Factors factors(LayerWeights& weights, const std::string& name, Index count) {
    const AttentionPlan& c = weights.plan();
    return {weights.matrix(name + "_a_proj", c.dim, c.heads * count, name + "_a"),
            weights.matrix(name + "_b_proj", c.dim, count * c.head_dim, name + "_b")};
  }

  TpaSizes s_;
  Factors q_;
  std::optional<Factors> k_, v_;  // none in a layer that shares
};

}  // namespace

extern constinit const AttentionKind kTpa = attention_of<TensorProductAttention, TpaSizes>(
    {.name = "tpa",
     .summary = "Tensor product attention keeps R factors over heads and R over width, of keys and "
                "of values: 2 R (H + d) numbers a token. The key and the value of each head are "
                "rebuilt as means of R products of two factors. It is worth trying where heads are "
                "many and wide, since sizes of factors add up and do not multiply.",
     .formula =
         "softmax(qᵢ kᵢᵀ / √d) vᵢ with kᵢ the mean of aᵢᵣ bᵣ over R factors, aᵢᵣ and bᵣ linear in "
         "x; v and q alike",
     .source = "https://arxiv.org/abs/2501.06425 (2025)",
     .numbers = {"kv-factors"},
     .no_qk_norm = "RoPE rotates its factors before they make the key of a head"});

}  // namespace headcount
