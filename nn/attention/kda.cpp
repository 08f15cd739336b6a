#include "nn/attention/delta.h"

/// Kimi delta attention: the gated delta rule with a decay for each channel of the keys. Kimi Team,
/// "Kimi Linear" (2025); the layer is that of flash-linear-attention. With H value heads and G key
/// heads, each of q, k and v with a convolution of its own:
///   q, k, v = silu(convolution(proj x)), q and k of unit length, q / sqrt(d)
///   beta = sigmoid(b_proj x), g = -exp(A_log) softplus(f_b_proj f_a_proj x + dt_bias)
///   y = o_proj(RMSNorm(gated_delta_rule(q, k, v, g, beta)) sigmoid(g_b_proj g_a_proj x)), the norm
///   per head, with the same weights for all
/// Parameters: q_proj and k_proj [G d, dim], v_proj [H v, dim]; q_conv1d and k_conv1d [G d, 1,
/// taps], v_conv1d [H v, 1, taps]; f_a_proj and g_a_proj [v, dim], f_b_proj [H d, v], g_b_proj [H
/// v, v] with a bias; b_proj [H, dim]; A_log [H], dt_bias [H d]; o_norm [v]; o_proj [dim, H v].
namespace headcount {

namespace {

class KimiDelta : public Attention {
 public:
  KimiDelta(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, 0),
        s_(c),
        q_{weights, "q"},
        k_{weights, "k"},
        v_{weights, "v"},
        f_a_(weights.get<Linear>("f_a_proj")),
        f_b_(weights.get<Linear>("f_b_proj")),
        g_a_(weights.get<Linear>("g_a_proj")),
        g_b_(weights.get<Linear>("g_b_proj")),
        b_(weights.get<Linear>("b_proj")),
        norm_(weights.get<Norm>("o_norm")),
        a_log_(weights.get<ParameterId>("A_log")),
        dt_bias_(weights.get<ParameterId>("dt_bias")),
        ones_(static_cast<std::size_t>(s_.value_heads * s_.k_dim), Real{1}) {}

  Var forward(Var x, Memory& memory) const override {
    Tape& tape = *x.tape;
    const Var q = split_heads(q_(x, memory.state("q_inputs")), s_.key_heads);
    const Var k = split_heads(k_(x, memory.state("k_inputs")), s_.key_heads);
    const Var v = split_heads(v_(x, memory.state("v_inputs")), s_.value_heads);
    // A_log of a head is that of all its channels.
    const Var rates = multiply(tape.constant({s_.k_dim, s_.value_heads}, ones_),
                               scale(exponential(tape.parameter(a_log_)), -1));
    const Var steps = softplus(f_b_(f_a_(x)) + tape.parameter(dt_bias_));
    const Var g = split_heads(steps, s_.value_heads) * transpose(rates, 0, 1);
    const Var y = delta_rule(q, k, v, g, sigmoid(b_(x)), memory);
    return output(x, sigmoid_gate(reshape(g_b_(g_a_(x)), y.shape()), norm_(y)));
  }

 private:
  struct Convolved {
    Convolved(const LayerWeights& weights, const std::string& part)
        : projection(weights.get<Linear>(part + "_proj")),
          convolution(weights.get<ShortConvolution>(part + "_conv1d")) {}
    Var operator()(Var x, std::span<Real> past) const { return convolution(projection(x), past); }

    Linear projection;
    ShortConvolution convolution;
  };

  DeltaSizes s_;
  Convolved q_, k_, v_;
  Linear f_a_, f_b_, g_a_, g_b_, b_;
  Norm norm_;
  ParameterId a_log_, dt_bias_;
  std::vector<Real> ones_;  // [value heads, k]
};

AttentionDescription describe_layer(const AttentionPlan& c) {
  const DeltaSizes s(c);
  const Index channels = s.value_heads * s.k_dim;
  // Initial values as its authors have them.
  return {
      .keeps = delta_keeps(s),
      .forms = {{
          .projections =
              {{"q_proj", c.dim, s.keys()},
               {"k_proj", c.dim, s.keys()},
               {"v_proj", c.dim, s.values()},
               Projection::convolution("q_conv1d", s.keys(), s.taps),
               Projection::convolution("k_conv1d", s.keys(), s.taps),
               Projection::convolution("v_conv1d", s.values(), s.taps),
               {"f_a_proj", c.dim, s.v_dim},
               {"f_b_proj", s.v_dim, channels},
               {"g_a_proj", c.dim, s.v_dim},
               {.name = "g_b_proj", .in = s.v_dim, .out = s.values(), .biased = c.on("gate-bias")},
               {"b_proj", c.dim, s.value_heads},
               Projection::vector("A_log", s.value_heads, Initializer::log_uniform(16, 1)),
               Projection::vector("dt_bias", channels, Initializer::log_uniform_steps(0.1, 0.001)),
               Projection::norm("o_norm", s.v_dim)},
          .key_width = s.k_dim,
          .value_width = s.v_dim,
          .output_heads = s.value_heads,
          .state_macs = delta_macs(s),
      }}};
}

SettingList settings() {
  SettingList all = delta_settings();
  all.push_back({"gate-bias",
                 "bias of the output gate; off: none, as in the released Kimi Linear models",
                 kOnOff, "on"});
  return all;
}

}  // namespace

extern const AttentionKind kKda = {
    .name = "kda",
    .summary = "Kimi delta attention: the gated delta rule with a decay for each channel of a key",
    .numbers = {"v-dim"},
    .attends = false,
    .rotates = false,
    .no_qk_norm = "it has no softmax, and its q and k have unit length without it",
    .norm_epsilon = 1e-5,  // as its authors have it
    .settings = settings,
    .check = check_delta,
    .describe = describe_layer,
    .make = make_layer<KimiDelta>};

}  // namespace headcount
