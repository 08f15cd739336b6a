#include "nn/attention/attention.h"
#include "nn/attention/kinds.h"

/// Tensor product attention (Zhang et al., "Tensor product attention is all you need", 2025): the
/// queries, keys and values of all heads are means of products of two factors that are linear in x,
/// one over the heads and one over a head's width: k_h = (1 / R) sum over r of a[h, r] b[r]. What
/// is kept of a token are its factors, b of keys rotated by position. Parameters: {q,k,v}_a_proj [H
/// R, dim], {q,k,v}_b_proj [R d, dim], o_proj [dim, H d].
namespace headcount {

namespace {

struct TpaSettings {
  Index kv_factors = 2;
  Index q_factors = 0;
};

constexpr Index kMostFactors = 1 << 20;  // as many as a model may be wide
constexpr Field<TpaSettings> kTpaFields[] = {
    whole<&TpaSettings::kv_factors>("kv-factors", "products whose mean is k, and v", 1,
                                    kMostFactors),
    whole<&TpaSettings::q_factors>("q-factors", "products whose mean is q; default 3 kv-factors", 1,
                                   kMostFactors)
        .with({.derived = true}),
};

const TpaSettings& tpa(const AttentionPlan& c) { return c.own<TpaSettings>(); }

// The form with scores and sums of the factors of what is kept.
constexpr std::string_view kFactored = "factored";

class TensorProductAttention : public Attention {
 public:
  TensorProductAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.head_dim), q_(weights, "q"), k_(weights, "k"), v_(weights, "v") {}

  Var forward(Var x, Memory& memory) const override {
    const TpaSettings& own = tpa(plan());
    const auto rotated = [&](Var b) { return rotate(b, memory); };
    const auto keep = [&](const std::string& name, const auto& a, const auto& b) {
      const Rows weights = memory.keep(name + "_a", a), rows = memory.keep(name + "_b", b);
      const Rows mixed = rows.mixed_by(weights);
      return memory.form() == kExpanded ? Rows(read_rows(*x.tape, mixed)) : mixed;
    };
    const Rows k = keep(
        "k", [&] { return k_.a(x, own.kv_factors); },
        [&] { return rotated(k_.b(x, own.kv_factors)); });
    const Rows v = keep(
        "v", [&] { return v_.a(x, own.kv_factors); }, [&] { return v_.b(x, own.kv_factors); });
    const Rows q = Rows(rotated(q_.b(x, own.q_factors))).mixed_by(q_.a(x, own.q_factors));
    return output(x, attention(normalize_for_scores(q.x()), normalize_for_scores(*x.tape, {k}), v,
                               options(plan().head_dim, memory)));
  }

 private:
  struct Factors {
    std::optional<Linear> a_proj, b_proj;  // of k and v: not in a layer that shares

    Factors(const LayerWeights& weights, const std::string& name)
        : a_proj(weights.find_linear(name + "_a_proj")),
          b_proj(weights.find_linear(name + "_b_proj")) {}
    // [B, T, 1, H count], a mean's 1 / count in it, and [B, T, count, d].
    Var a(Var x, Index count) const {
      return scale(split_heads((*a_proj)(x), 1), Real{1} / static_cast<Real>(count));
    }
    Var b(Var x, Index count) const { return split_heads((*b_proj)(x), count); }
  };

  Factors q_, k_, v_;
};

AttentionDescription describe_tpa(const AttentionPlan& c) {
  const TpaSettings& own = tpa(c);
  AttentionDescription description;
  AttentionForm expanded = {.name = std::string(kExpanded),
                            .projections = {},
                            .key_width = c.head_dim,
                            .value_width = c.head_dim};
  const auto add = [&](const std::string& name, Index count, bool keeps) {
    expanded.projections.push_back({name + "_a_proj", c.dim, c.heads * count, false, keeps});
    expanded.projections.push_back({name + "_b_proj", c.dim, count * c.head_dim, false, keeps});
  };
  add("q", own.q_factors, false);
  for (const std::string name : {"k", "v"}) {
    add(name, own.kv_factors, true);
    description.keeps.push_back({name + "_a", 1, c.heads * own.kv_factors});
    description.keeps.push_back({name + "_b", own.kv_factors, c.head_dim});
  }
  const Count product = Count(c.heads) * c.head_dim;  // of one pair of factors
  AttentionForm factored = expanded;
  expanded.macs_per_token = product * own.q_factors;
  expanded.macs_per_kept = product * own.kv_factors * 2;
  // A query with each b, and that with its a; weights with each a, and that with its b.
  factored.name = kFactored;
  factored.macs_per_token = product * own.q_factors;
  factored.key_width = factored.value_width = own.kv_factors * (c.head_dim + 1);
  factored.output_width = c.head_dim;
  // Lengths are those of whole keys.
  const bool normed = c.score_scale.kind == ScoreScale::Kind::qk_norm;
  description.forms = {std::move(expanded)};
  if (!normed) description.forms.push_back(std::move(factored));
  return description;
}

std::any resolve_tpa(const AttentionPlan& c, const Given& given) {
  require_rotary_heads(c);
  TpaSettings own = read_fields(kTpaFields, given);
  if (!given.has("q-factors")) own.q_factors = 3 * own.kv_factors;
  return own;
}

}  // namespace

const AttentionKind kTpa = {
    .name = "tpa",
    .summary =
        "tensor product: keys and values are means of `kv-factors` products of a factor over "
        "heads and one over width",
    .numbers = {"kv-factors"},
    .own = own_fields<kTpaFields>(),
    .resolve = resolve_tpa,
    .describe = describe_tpa,
    .make = make_layer<TensorProductAttention>,
    .no_heads = "its keys and values are products of factors, and no matrices of x"};

}  // namespace headcount
