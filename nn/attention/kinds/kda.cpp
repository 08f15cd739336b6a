#include "nn/attention/kinds/delta.h"

/// Kimi delta attention: the gated delta rule with a decay for each channel of the keys. Kimi Team,
/// "Kimi Linear" (2025); the layer is that of flash-linear-attention. With H value heads and G key
/// heads, each of q, k and v with a convolution of its own:
///   q, k, v = silu(convolution(proj x)), q and k of unit length, q / sqrt(d)
///   beta = sigmoid(b_proj x), g = -exp(A_log) softplus(f_b_proj f_a_proj x + dt_bias), or with
///   `gate-lower-bound` g = bound sigmoid(exp(A_log) (f_b_proj f_a_proj x + dt_bias))
///   y = o_proj(RMSNorm(gated_delta_rule(q, k, v, g, beta)) sigmoid(g_b_proj g_a_proj x)), the norm
///   per head, with the same weights for all
/// Parameters: q_proj and k_proj [G d, dim], v_proj [H v, dim]; q_conv1d and k_conv1d [G d, 1,
/// taps], v_conv1d [H v, 1, taps]; f_a_proj and g_a_proj [v, dim], f_b_proj [H d, v], g_b_proj [H
/// v, v] with a bias; b_proj [H, dim]; A_log [H], dt_bias [H d]; o_norm [v]; o_proj [dim, H v].
namespace headcount {

namespace {

struct KdaSizes : DeltaSizes {
  bool gate_bias;
  double lower_bound;

  void visit(const auto& setting) {
    DeltaSizes::visit(setting);
    setting(gate_bias, {"gate-bias",
                        "bias of the output gate; off: none, as in the released Kimi Linear models",
                        kOnOff, "on"});
    setting(
        lower_bound,
        {"gate-lower-bound",
         "lower bound of the logs of decays, which are then a sigmoid times it (-5 in Kimi K3); "
         "0: none, they are a softplus",
         NumberRange{-100, 0}, 0.0});
  }
};

class KimiDelta : public Attention {
 public:
  KimiDelta(const AttentionPlan& c, const KdaSizes& s, LayerWeights& weights)
      : Attention(c, 0, {s.value_heads, s.v_dim}),
        s_(s),
        k_channels_(s.value_heads * c.head_dim),
        q_{weights, "q", s_.keys(c.head_dim), s_.taps},
        k_{weights, "k", s_.keys(c.head_dim), s_.taps},
        v_{weights, "v", s_.values(), s_.taps},
        f_a_(weights.matrix("f_a_proj", c.dim, s_.v_dim)),
        f_b_(weights.matrix("f_b_proj", s_.v_dim, k_channels_)),
        g_a_(weights.matrix("g_a_proj", c.dim, s_.v_dim)),
        g_b_(weights.matrix("g_b_proj", s_.v_dim, s_.values(), {}, s.gate_bias)),
        b_(weights.matrix("b_proj", c.dim, s_.value_heads)),
        // Initial values as its authors have them.
        a_log_(weights.numbers(
            "A_log", {s_.value_heads},
            s.lower_bound == 0 ? Initializer::log_uniform(16, 1) : Initializer::zeros())),
        dt_bias_(
            weights.numbers("dt_bias", {k_channels_}, Initializer::log_uniform_steps(0.1, 0.001))),
        norm_(weights.norm("o_norm", s_.v_dim)) {}

  Var forward(Var x, Memory& memory) const override {
    Tape& tape = *x.tape;
    const Var q = split_heads(q_(x, memory), s_.key_heads);
    const Var k = split_heads(k_(x, memory), s_.key_heads);
    const Var v = split_heads(v_(x, memory), s_.value_heads);
    const Var f = split_heads(f_b_(f_a_(x)) + tape.parameter(dt_bias_), s_.value_heads);
    const Var rates = for_channels(exponential(tape.parameter(a_log_)), plan().head_dim);
    const auto bound = static_cast<Real>(s_.lower_bound);
    const Var g = bound == 0 ? scale(softplus(f) * rates, -1) : scale(sigmoid(f * rates), bound);
    const Var y = delta_rule(q, k, v, g, sigmoid(b_(x)), memory);
    return output(x, sigmoid_gate(reshape(g_b_(g_a_(x)), y.shape()), norm_(y)));
  }

 private:
  struct Convolved {
    Convolved(LayerWeights& weights, const std::string& part, Index channels, Index taps)
        : projection(weights.matrix(part + "_proj", weights.plan().dim, channels)),
          convolution(weights.convolution(part + "_conv1d", channels, taps)),
          inputs(part + "_inputs") {}
    Var operator()(Var x, Memory& memory) const {
      return convolution(projection(x), inputs, memory);
    }

    Linear projection;
    CausalConvolution convolution;
    std::string inputs;  // of the convolution, that the cache keeps
  };

  KdaSizes s_;
  Index k_channels_;  // value heads times the width of a key
  Convolved q_, k_, v_;
  Linear f_a_, f_b_, g_a_, g_b_, b_;
  ParameterId a_log_, dt_bias_;
  Norm norm_;
};

}  // namespace

extern constinit const AttentionKind kKda = recurrent_of<KimiDelta, KdaSizes>(
    {.name = "kda",
     .summary =
         "Kimi delta attention keeps a state of d × v numbers for each head of a sequence. No "
         "token is rebuilt: the delta rule rewrites the state, each of whose rows decays at a rate "
         "of its own. It is worth choosing in hybrids: Kimi Linear has it in three of four layers, "
         "and `mla` in the fourth.",
     .formula =
         "qᵢ Sᵢ / √d, where each token makes Sᵢ ← a Sᵢ + b kᵢᵀ (vᵢ - kᵢ a Sᵢ), with a rate b and a "
         "decay a for each row of Sᵢ",
     .source = "https://arxiv.org/abs/2510.26692 (2025)",
     .numbers = {"v-dim"},
     .no_qk_norm = "it has no softmax, and its q and k have unit length without it",
     .norm_epsilon = 1e-5});  // as its authors have it

}  // namespace headcount
