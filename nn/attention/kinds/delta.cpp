#include "nn/attention/kinds/delta.h"

#include <array>
#include <cmath>

/// The gated delta rule: each head has a state of fixed size instead of a cache that grows. Yang,
/// Kautz and Hatamizadeh, "Gated delta networks" (2024); the layer is that of Qwen3-Next, as
/// transformers has it. With H value heads, G key heads and r = H / G:
///   q, k, v = silu(convolution(in_proj_qkvz x)), q and k of unit length, q / sqrt(d)
///   beta = sigmoid(b), g = -exp(A_log) softplus(a + dt_bias), b and a from in_proj_ba x
///   y = out_proj(RMSNorm(gated_delta_rule(q, k, v, g, beta)) silu(z)), the norm per head
/// Parameters: in_proj_qkvz [G (2 d + 2 r v), dim], per key head its rows of q, k, v and z;
/// in_proj_ba [G 2 r, dim], b then a; conv1d [G 2 d + H v, 1, taps], all q, then k, then v; A_log
/// and dt_bias [H]; norm [v]; out_proj [dim, H v].
namespace headcount {

namespace {

class GatedDelta : public Attention {
 public:
  GatedDelta(const AttentionPlan& c, const DeltaSizes& s, LayerWeights& weights)
      : Attention(c, 0, {s.value_heads, s.v_dim, "out_proj"}),
        s_(s),
        in_proj_qkvz_(weights.matrix("in_proj_qkvz", c.dim,
                                     (Count(s.of_convolution(c.head_dim)) + s.values()).index())),
        in_proj_ba_(weights.matrix("in_proj_ba", c.dim, 2 * s_.value_heads)),
        convolution_(weights.convolution("conv1d", s.of_convolution(c.head_dim), s.taps)),
        // Initial values of flash-linear-attention. With transformers' dt_bias of 1, which a
        // checkpoint replaces, half of the heads would forget all but e^-10 of a state in a token.
        a_log_(weights.numbers("A_log", {s_.value_heads}, Initializer::log_uniform(16))),
        dt_bias_(weights.numbers("dt_bias", {s_.value_heads},
                                 Initializer::log_uniform_steps(0.1, 0.001))),
        norm_(weights.norm("norm", s_.v_dim)) {}

  Var forward(Var x, Memory& memory) const override {
    Tape& tape = *x.tape;
    const Index v_width = s_.group() * s_.v_dim, k_dim = plan().head_dim;
    const std::vector<Var> qkvz = split(split_heads(in_proj_qkvz_(x), s_.key_heads),
                                        std::array{k_dim, k_dim, v_width, v_width});
    const std::vector<Var> ba =
        split(split_heads(in_proj_ba_(x), s_.key_heads), std::array{s_.group(), s_.group()});
    // One convolution over all channels, in three parts.
    const auto convolved = [&](Var part, Index first, Index heads, std::string_view inputs) {
      return split_heads(convolution_(merge_heads(part), inputs, memory, first), heads);
    };
    const Var q = convolved(qkvz[0], 0, s_.key_heads, "q_inputs");
    const Var k = convolved(qkvz[1], s_.keys(k_dim), s_.key_heads, "k_inputs");
    const Var v = convolved(qkvz[2], 2 * s_.keys(k_dim), s_.value_heads, "v_inputs");
    const Var steps = softplus(merge_heads(ba[1]) + tape.parameter(dt_bias_));
    const Var g = scale(steps * exponential(tape.parameter(a_log_)), -1);
    const Var beta = sigmoid(merge_heads(ba[0]));
    const Var y = delta_rule(q, k, v, g, beta, memory);
    return output(x, silu_gate(reshape(qkvz[3], y.shape()), norm_(y)));
  }

 private:
  DeltaSizes s_;
  Linear in_proj_qkvz_, in_proj_ba_;
  CausalConvolution convolution_;
  ParameterId a_log_, dt_bias_;
  Norm norm_;
};

}  // namespace

Setting taps_of_convolution() {
  return {"conv-taps",
          "length in tokens of the causal convolution over q, k and v; 1: the token itself only",
          WholeRange{1}, 4};
}

std::span<Real> recurrent_state(Var k, Var v, Memory& memory) {
  require_setting(memory.key_mask().empty(),
                  "a layer with a state takes every token into it; it has no key mask");
  return memory.state("state", v.shape()[2], k.shape().last() * v.shape().last());
}

Var for_channels(Var of_heads, Index width) {
  const Index heads = of_heads.shape().last();
  const std::vector<Real> ones(static_cast<std::size_t>(width * heads), Real{1});
  return transpose(multiply(of_heads.tape->constant({width, heads}, ones), of_heads), 0, 1);
}

void DeltaSizes::check(const AttentionPlan&) const {
  require_setting(value_heads % key_heads == 0, "`key-heads` {} does not divide `value-heads` {}",
                  key_heads, value_heads);
}

Var delta_rule(Var q, Var k, Var v, Var g, Var beta, Memory& memory) {
  const auto width = static_cast<Real>(q.shape().last());
  const Real epsilon = Real{1e-6} / width;  // transformers adds 1e-6 to the square of the length
  const Var unit_k = l2_norm(k, epsilon, 1 / std::sqrt(width));
  const Var scaled_q = l2_norm(q, epsilon, 1 / width);
  return gated_delta_rule(scaled_q, unit_k, v, g, beta, recurrent_state(k, v, memory));
}

extern constinit const AttentionKind kDelta = recurrent_of<GatedDelta, DeltaSizes>(
    {.name = "delta",
     .summary =
         "The gated delta rule (Qwen3-Next) keeps no rows, but a state of d × v numbers for each "
         "head of a sequence. No token is rebuilt: each takes out of the state what its key finds "
         "there, writes its value instead, and queries read the state. It is worth choosing in "
         "hybrids: Qwen3-Next has it in three of four layers, while alone it did not learn to "
         "recall 32 pairs here.",
     .formula = "qᵢ Sᵢ / √d, where each token makes Sᵢ ← a Sᵢ + b kᵢᵀ (vᵢ - kᵢ a Sᵢ), with a decay "
                "a and a "
                "rate b in (0, 1)",
     .source = "https://arxiv.org/abs/2412.06464 (2024)",
     .numbers = {"v-dim"},
     .no_qk_norm = "it has no softmax, and its q and k have unit length without it"});

}  // namespace headcount
