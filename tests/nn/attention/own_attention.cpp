// programs: own_attention
#include "nn/attention/attention.h"

namespace headcount {
namespace {

struct OwnSizes {
  Index kv_heads;
  double first_temperature;

  void visit(const auto& setting) {
    setting(kv_heads, shared_setting("kv-heads", of_owner(1)));
    setting(first_temperature,
            {"first-temperature", "the learned temperatures at the start", NumberRange{0}, 1.0});
  }
  void check(const AttentionPlan& c) const {
    require_kv_heads(c, kv_heads);
    require_rotary_heads(c);
  }
};

/// Multi-query attention whose queries have a learned temperature t per head:
/// softmax(t_i q_i k / sqrt(d)) v. `kv-heads` may be more than one, as in GQA.
class OwnAttention : public Attention {
 public:
  OwnAttention(const AttentionPlan& c, const OwnSizes& s, LayerWeights& weights)
      : Attention(c, c.head_dim, {c.heads, c.head_dim}),  // RoPE rotates whole heads
        kv_heads_(s.kv_heads),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * c.head_dim)),
        k_proj_(weights.matrix("k_proj", c.dim, kv_heads_ * c.head_dim)),
        v_proj_(weights.matrix("v_proj", c.dim, kv_heads_ * c.head_dim)),
        temperature_(weights.numbers("temperature", {c.heads},
                                     {Initializer::Kind::constant, s.first_temperature, 0})) {
    add_qk_norms(weights, {c.head_dim, c.head_dim});  // with --qk-norm on
  }

  Var forward(Var x, Memory& memory) const override {  // x [B, T, dim]
    const Var k_new = rotate(normed_keys(split_heads(k_proj_(x), kv_heads_)), memory);
    const Rows k = memory.keep("k", normalize_for_scores(k_new));  // all tokens' [B, S, G, d]
    const Rows v = memory.keep("v", split_heads(v_proj_(x), kv_heads_));
    const Var q_new = rotate(normed_queries(split_heads(q_proj_(x), plan().heads)), memory);
    const Var q = normalize_for_scores(q_new);      // [B, T, H, d]
    const Var t = x.tape->parameter(temperature_);  // [H]
    const Var scaled = transpose(transpose(q, 2, 3) * t, 2, 3);
    return output(x, attention(scaled, k, v, options(*x.tape, plan().head_dim, memory)));
  }

 private:
  Index kv_heads_;
  Linear q_proj_, k_proj_, v_proj_;
  ParameterId temperature_;
};

const AttentionKind kOwn = attention_of<OwnAttention, OwnSizes>(
    {.name = "own",
     .summary = "multi-query with a learned temperature per head",
     .numbers = {"kv-heads"}});

const bool registered = [] {
  register_attention(kOwn);
  return true;
}();

}  // namespace
}  // namespace headcount
