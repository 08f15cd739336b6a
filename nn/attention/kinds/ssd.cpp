#include <array>

#include "nn/attention/kinds/delta.h"

/// State space duality, the layer of Mamba-2: gated linear attention with a decay and a step for
/// each token and head. Dao and Gu, "Transformers are SSMs" (2024). With H heads of width P, G
/// groups of heads that share B and C, and N rows of a state:
///   z, x', B', C', dt' = in_proj x;  x | B | C = silu(conv1d(x' | B' | C'))
///   dt = softplus(dt' + dt_bias),  S_t = e^(-exp(A_log) dt) S_{t-1} + dt B x^T,  y = S_t^T C + D x
///   out_proj(RMSNorm(y silu(z))), the norm of each group, of all heads at once, or none
/// Parameters: in_proj [2 H P + 2 G N + H, dim], rows z, x, B, C, dt; conv1d [H P + 2 G N, 1, taps]
/// with a bias; A_log, D and dt_bias [H]; norm [H P]; out_proj [dim, H P].
namespace headcount {

namespace {

enum class GatedNorm { groups, whole, none };

constexpr Named<GatedNorm> kNorms[] = {
    {"groups", GatedNorm::groups}, {"whole", GatedNorm::whole}, {"none", GatedNorm::none}};

struct SsdSizes {
  Index state_dim, groups, taps;
  GatedNorm norm;

  void visit(const auto& setting) {
    setting(shared_setting("head-dim", twice_the_width()));
    setting(state_dim, {"state-dim", "rows of a head's state, which B writes and C reads",
                        WholeRange{1}, same_as("head-dim")});
    setting(groups, {"ssd-groups", "groups of heads that share B and C, a divisor of heads",
                     WholeRange{1}, 1});
    setting(norm,
            {"ssd-norm",
             "RMSNorm of the gated heads: of each of the ssd-groups (the authors), of all heads at "
             "once, or none (Falcon-H1)",
             kNorms, "groups"},
            kNorms);
    setting(taps, taps_of_convolution());
  }
  void check(const AttentionPlan& c) const {
    require_divisor("ssd-groups", groups, "heads", c.heads);
  }

  // Channels; these throw if sizes overflow.
  Index of_keys() const { return (Count(groups) * state_dim).index(); }
  Index of_heads(const AttentionPlan& c) const { return (Count(c.heads) * c.head_dim).index(); }
  Index of_convolution(const AttentionPlan& c) const {
    return (2 * Count(of_keys()) + of_heads(c)).index();
  }
};

class StateSpace : public Attention {
 public:
  StateSpace(const AttentionPlan& c, const SsdSizes& s, LayerWeights& weights)
      : Attention(c, 0, {c.heads, c.head_dim, "out_proj"}),
        s_(s),
        in_proj_(weights.matrix("in_proj", c.dim,
                                (Count(s.of_convolution(c)) + s.of_heads(c) + c.heads).index())),
        convolution_(weights.convolution("conv1d", s.of_convolution(c), s.taps, true)),
        // Initial values as its authors have them.
        a_log_(weights.numbers("A_log", {c.heads}, Initializer::log_uniform(16, 1))),
        dt_bias_(weights.numbers("dt_bias", {c.heads}, Initializer::log_uniform_steps(0.1, 0.001))),
        d_(weights.numbers("D", {c.heads}, Initializer::ones())) {
    if (s.norm != GatedNorm::none) norm_ = weights.norm("norm", s.of_heads(c));
  }

  Var forward(Var x, Memory& memory) const override {
    Tape& tape = *x.tape;
    const Index heads = plan().heads, width = plan().head_dim;
    const Index channels = s_.of_heads(plan()), keys = s_.of_keys();
    const std::vector<Var> parts =
        split(in_proj_(x), std::array{channels, s_.of_convolution(plan()), heads});
    const std::vector<Var> convolved =
        split(convolution_(parts[1], "inputs", memory), std::array{channels, keys, keys});
    const Var v = split_heads(convolved[0], heads);
    const Var k = split_heads(convolved[1], s_.groups), q = split_heads(convolved[2], s_.groups);
    const Var steps = softplus(parts[2] + tape.parameter(dt_bias_));
    const Var g = scale(steps * exponential(tape.parameter(a_log_)), -1);
    const Var read = gated_linear_attention(q, k, v, g, steps, recurrent_state(k, v, memory));
    const Var y = read + v * for_channels(tape.parameter(d_), width);
    const Index parts_of_norm = s_.norm == GatedNorm::groups ? s_.groups : 1;
    const Var gated = split_heads(silu_gate(parts[0], merge_heads(y)), parts_of_norm);
    return output(x, reshape(norm_ ? (*norm_)(gated) : gated, y.shape()));
  }

 private:
  SsdSizes s_;
  Linear in_proj_;
  CausalConvolution convolution_;
  ParameterId a_log_, dt_bias_, d_;
  std::optional<Norm> norm_;
};

}  // namespace

extern constinit const AttentionKind kSsd = recurrent_of<StateSpace, SsdSizes>(
    {.name = "ssd",
     .summary =
         "State space duality (Mamba-2) keeps a state of P × N numbers for each head of a "
         "sequence, P by default 2 dim / heads. No token is rebuilt: the state decays and "
         "each token adds to it, and nothing that a key found is taken out. It is worth choosing "
         "for most layers of a hybrid, which then cost the same at any context (Nemotron 3).",
     .formula = "C Sᵢ + D vᵢ, where each token makes Sᵢ ← a Sᵢ + Δ Bᵀ vᵢ, with a decay a = "
                "exp(-A Δ) and a step Δ > 0",
     .source = "https://arxiv.org/abs/2405.21060 (2024)",
     .numbers = {"heads"},
     .no_qk_norm = "it has no softmax",
     .norm_epsilon = 1e-5});  // as its authors have it

}  // namespace headcount
