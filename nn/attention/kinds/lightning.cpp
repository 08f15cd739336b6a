#include <array>
#include <cmath>

#include "nn/attention/kinds/delta.h"

/// Lightning attention: linear attention with a fixed decay for each head, slower in later layers.
/// MiniMax, "MiniMax-01: scaling foundation models with lightning attention" (2025). With H heads
/// of width d in layer i, from 0, of L:
///   q, k, v = silu(qkv_proj x),  S_t = e^-s S_{t-1} + k v^T,  y = S_t^T q
///   s = 2^(-8 (h + 1) / H) (1 - i / (L - 1 + 1e-5) + 1e-5) for head h, from 0
///   out_proj(sigmoid(output_gate x) RMSNorm(all heads side by side))
/// Parameters: qkv_proj [3 H d, dim], rows q, k, v of head 0, then of head 1; output_gate [H d,
/// dim]; norm [H d]; out_proj [dim, H d].
namespace headcount {

namespace {

struct LightningSizes {
  void visit(const auto&) {}
  void check(const AttentionPlan&) const {}
};

class LightningAttention : public Attention {
 public:
  LightningAttention(const AttentionPlan& c, const LightningSizes&, LayerWeights& weights)
      : Attention(c, 0, {c.heads, c.head_dim, "out_proj"}),
        qkv_proj_(weights.matrix("qkv_proj", c.dim, 3 * c.heads * c.head_dim)),
        output_gate_(weights.matrix("output_gate", c.dim, c.heads * c.head_dim)),
        norm_(weights.norm("norm", c.heads * c.head_dim)) {
    const double of_layer =
        1 - static_cast<double>(c.layer) / (static_cast<double>(c.layers - 1) + 1e-5) + 1e-5;
    for (Index h = 1; h <= c.heads; ++h) {
      const double of_head =
          std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(c.heads));
      log_decays_.push_back(static_cast<Real>(-of_head * of_layer));
    }
  }

  Var forward(Var x, Memory& memory) const override {
    const Index heads = plan().heads, d = plan().head_dim;
    const std::vector<Var> qkv = split(split_heads(silu(qkv_proj_(x)), heads), std::array{d, d, d});
    const Var g = x.tape->constant({heads}, log_decays_);
    const Var y = gated_linear_attention(qkv[0], qkv[1], qkv[2], g, {},
                                         recurrent_state(qkv[1], qkv[2], memory));
    const Var gated = sigmoid_gate(output_gate_(x), norm_(merge_heads(y)));
    return output(x, split_heads(gated, heads));
  }

 private:
  Linear qkv_proj_, output_gate_;
  Norm norm_;
  std::vector<Real> log_decays_;  // [H]
};

}  // namespace

extern constinit const AttentionKind kLightning = recurrent_of<LightningAttention, LightningSizes>(
    {.name = "lightning",
     .summary = "Lightning attention (MiniMax-01) keeps a state of d × d numbers for each head of "
                "a sequence. No token is rebuilt: each adds its key times its value, and the state "
                "decays at a rate that is fixed for each head and layer. It is worth choosing in "
                "hybrids for its simplicity: MiniMax-01 has it in seven of eight layers.",
     .formula = "qᵢ Sᵢ, where each token makes Sᵢ ← aᵢ Sᵢ + kᵢᵀ vᵢ, with a fixed decay aᵢ",
     .source = "https://arxiv.org/abs/2501.08313 (2025)",
     .no_qk_norm = "it has no softmax"});

}  // namespace headcount
