#include <array>
#include <cmath>

#include "autograd/base/error.h"
#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// The gated delta rule: each head has a state of fixed size instead of a cache that grows. Yang,
/// Kautz and Hatamizadeh, "Gated delta networks" (2024); the layer is that of Qwen3-Next, as
/// transformers has it. With H value heads and G key heads, r = H / G:
///   q, k, v = silu(convolution(in_proj_qkvz x)), q and k of unit length, q / sqrt(d)
///   beta = sigmoid(b), g = -exp(A_log) softplus(a + dt_bias), b and a from in_proj_ba x
///   y = out_proj(RMSNorm(gated_delta_rule(q, k, v, g, beta)) silu(z)), the norm per head
/// Parameters: in_proj_qkvz [G (2 d + 2 r v), dim], for each key head its rows of q, k, v and z;
/// in_proj_ba [G 2 r, dim], b then a; conv1d [G 2 d + H v, 1, taps], all q, then k, then v; A_log
/// and dt_bias [H]; norm [v]; out_proj [dim, H v].
namespace headcount {

namespace {

struct DeltaSettings {
  Index v_dim = 0, value_heads = 0, key_heads = 0, taps = 4;
};

constexpr Field<DeltaSettings> kDeltaFields[] = {
    whole<&DeltaSettings::v_dim>("v-dim", "width of v; default head-dim", 1)
        .with({.derived = true}),
    whole<&DeltaSettings::value_heads>("value-heads",
                                       "heads of v, each with a state; default heads", 1)
        .with({.derived = true}),
    whole<&DeltaSettings::key_heads>("key-heads", "heads of q and k; default value-heads", 1)
        .with({.derived = true}),
    whole<&DeltaSettings::taps>("conv-taps", "tokens that the convolution sees; 1: itself alone",
                                1),
};

const DeltaSettings& delta(const AttentionPlan& c) { return c.own<DeltaSettings>(); }

// Widths that follow from the settings.
struct Sizes {
  explicit Sizes(const AttentionPlan& c)
      : heads(delta(c).value_heads),
        key_heads(delta(c).key_heads),
        group(heads / key_heads),
        k(c.head_dim),
        v(delta(c).v_dim),
        taps(delta(c).taps) {}
  Index keys() const { return key_heads * k; }
  Index values() const { return heads * v; }

  Index heads;  // of values, each with a state
  Index key_heads, group, k, v, taps;
};

class GatedDelta : public Attention {
 public:
  GatedDelta(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, 0),
        s_(c),
        in_proj_qkvz_(weights.linear("in_proj_qkvz")),
        in_proj_ba_(weights.linear("in_proj_ba")),
        norm_(*weights.find_norm("norm")),
        convolution_(weights.parameter("conv1d")),
        a_log_(weights.parameter("A_log")),
        dt_bias_(weights.parameter("dt_bias")) {}

  Var forward(Var x, Memory& memory) const override {
    if (!memory.key_mask().empty())
      throw ShapeError("a delta layer takes every token into its state; it has no key mask");
    Tape& tape = *x.tape;
    const std::vector<Var> qkvz = split(split_heads(in_proj_qkvz_(x), s_.key_heads),
                                        std::array{s_.k, s_.k, s_.group * s_.v, s_.group * s_.v});
    const std::vector<Var> ba =
        split(split_heads(in_proj_ba_(x), s_.key_heads), std::array{s_.group, s_.group});
    // One convolution over all channels, in parts.
    const auto convolve = [&](Var part, Index first, std::string_view inputs) {
      return silu(causal_convolution(merge_heads(part), tape.parameter(convolution_), first,
                                     memory.state(inputs)));
    };
    const Var q = unit(convolve(qkvz[0], 0, "q_inputs"), 1 / static_cast<Real>(s_.k));
    const Var k =
        unit(convolve(qkvz[1], s_.keys(), "k_inputs"), 1 / std::sqrt(static_cast<Real>(s_.k)));
    const Var v = split_heads(convolve(qkvz[2], 2 * s_.keys(), "v_inputs"), s_.heads);
    const Var steps = softplus(merge_heads(ba[1]) + tape.parameter(dt_bias_));
    const Var g = scale(steps * exponential(tape.parameter(a_log_)), -1);
    const Var y = gated_delta_rule(q, k, v, g, sigmoid(merge_heads(ba[0])), memory.state("state"));
    const Var z = reshape(qkvz[3], y.shape());
    return output(x, silu_gate(z, norm_(y)));
  }

 private:
  // The heads of x [B, T, G d], each times factor / (its length / sqrt(d)).
  Var unit(Var x, Real factor) const {
    constexpr auto kEpsilon = Real{1e-6};  // transformers adds it to the square of the length
    const Var heads = split_heads(x, s_.key_heads);
    return scale(rms_norm(heads, std::nullopt, kEpsilon / static_cast<Real>(s_.k)), factor);
  }

  Sizes s_;
  Linear in_proj_qkvz_, in_proj_ba_;
  Norm norm_;
  ParameterId convolution_, a_log_, dt_bias_;
};

AttentionDescription describe_delta(const AttentionPlan& c) {
  const Sizes s(c);
  const auto kept = [](std::string name, Index heads, Index width) {
    return Kept{std::move(name), heads, width, true};
  };
  const Index before = s.taps - 1;
  AttentionForm form = {
      .name = "",
      .projections = {{"in_proj_qkvz", c.dim, 2 * s.keys() + 2 * s.values()},
                      {"in_proj_ba", c.dim, 2 * s.heads},
                      Projection::convolution("conv1d", 2 * s.keys() + s.values(), s.taps),
                      // As transformers starts them.
                      Projection::vector("A_log", s.heads, Initializer::log_uniform(16)),
                      Projection::vector("dt_bias", s.heads, Initializer::ones()),
                      Projection::norm("norm", s.v)},
      .key_width = s.k,
      .value_width = s.v,
      .output_heads = s.heads,
      .output = "out_proj"};
  const Count heads = s.heads;
  form.state = {.per_token = heads * (3 * Count(s.k) * s.v),
                .chunk = kDeltaChunk,
                .per_pair = heads * (2 * (Count(s.k) + s.v))};
  return {.keeps = {kept("state", s.heads, s.k * s.v), kept("q_inputs", before, s.keys()),
                    kept("k_inputs", before, s.keys()), kept("v_inputs", before, s.values())},
          .forms = {std::move(form)}};
}

std::any resolve_delta(const AttentionPlan& c, const Given& given) {
  DeltaSettings own =
      read_fields(kDeltaFields, given, DeltaSettings{.v_dim = c.head_dim, .value_heads = c.heads});
  if (!given.has("key-heads")) own.key_heads = own.value_heads;
  require_setting(own.key_heads > 0 && own.value_heads % own.key_heads == 0,
                  "`key-heads` " + std::to_string(own.key_heads) +
                      " does not divide `value-heads` " + std::to_string(own.value_heads));
  require_setting(c.window == 0, "delta has no `window`: it keeps a state, not single tokens");
  require_setting(c.causal, "delta takes in one token after the other and must be causal");
  return own;
}

}  // namespace

const AttentionKind kDelta = {
    .name = "delta",
    .summary =
        "gated delta rule (Qwen3-Next): a state of fixed size per head instead of rows of tokens",
    .numbers = {"v-dim"},
    .attends = false,
    .own = own_fields<kDeltaFields>(),
    .resolve = resolve_delta,
    .describe = describe_delta,
    .make = make_layer<GatedDelta>,
    .no_heads =
        "its state takes tokens in one after the other and keeps no key and no value of each"};

}  // namespace headcount
