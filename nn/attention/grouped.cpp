#include "nn/attention/attention.h"

/// Grouped-query attention and its two ends: H query heads share G KV heads. G = H is MHA (Vaswani
/// et al., 2017), G = 1 is MQA (Shazeer, 2019), GQA lies between (Ainslie et al., 2023).
/// Parameters: q_proj [H d, dim], k_proj and v_proj [G d, dim], o_proj [dim, H d].
///
/// MFA is MQA with wider heads, whose queries pass through a latent: q_a_proj [rank, dim],
/// q_a_layernorm [rank] and q_b_proj [H d, rank] (Hu et al., "Multi-matrix factorization
/// attention", 2024).
///
/// `qk-norm` adds q_norm [d] and k_norm [d]. RoPE rotates the last `rope-dim` dimensions of a head.
/// With `tie-kv` one row is key and value, and k_norm norms it as both: kv_proj [G d, dim] replaces
/// k_proj and v_proj. The weighted sum of such rows is rotated by the
/// keys' positions; rotating it back by the query's position leaves a rotation by the distance of
/// each token (Su, "S2", https://kexue.fm/archives/10907).
namespace headcount {

namespace {

struct GroupedSettings {
  Index kv_heads = 0;
  Index q_rank = 0;  // width of the query latent, for MFA only
  Index rope_dim = 0;
  bool tie_kv = false;
};

const GroupedSettings& own(const AttentionPlan& c) { return c.own<GroupedSettings>(); }

class GroupedAttention : public Attention {
 public:
  GroupedAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, own(c).rope_dim),
        q_proj_(weights),
        k_proj_(weights.find<Linear>(own(c).tie_kv ? "kv_proj" : "k_proj")),
        v_proj_(weights.find<Linear>("v_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Index groups = own(plan()).kv_heads;
    const AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    // Rotation keeps lengths, so it may come after normalisation.
    const auto prepare = [&](Var h) { return rotate(normalize_for_scores(h), memory); };
    const auto queries = [&] {
      return prepare(normed_queries(split_heads(convolved("q", q_proj_(x), memory), plan().heads)));
    };
    const auto keys = [&] {
      return normed_keys(split_heads(convolved("k", (*k_proj_)(x), memory), groups));
    };
    if (own(plan()).tie_kv) {
      const Rows kv = memory.keep("kv", [&] { return rotate(keys(), memory); });
      const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
      return output(x, rotate_back(attention(queries(), k, kv, o), memory));
    }
    const Rows k = memory.keep("k", [&] { return prepare(keys()); });
    const Rows v = memory.keep("v", [&] {
      return mixed_values(split_heads(convolved("v", (*v_proj_)(x), memory), groups), memory);
    });
    return output(x, attention(queries(), k, v, o));
  }

 private:
  QueryProjection q_proj_;
  std::optional<Linear> k_proj_, v_proj_;  // one kv_proj if tied; none in a layer that shares
};

AttentionDescription describe_layer(const AttentionPlan& c) {
  const Index groups = own(c).kv_heads;
  AttentionDescription description;
  AttentionForm form = {
      .projections = QueryProjection::declare(c.dim, {.rank = own(c).q_rank}, c.heads * c.head_dim),
      .key_width = c.head_dim,
      .value_width = c.head_dim};
  for (const std::string name : {"kv", "k", "v"}) {
    if (own(c).tie_kv != (name == "kv")) continue;
    description.keeps.push_back({name, groups, c.head_dim});
    form.projections.push_back(
        Projection{name + "_proj", c.dim, groups * c.head_dim, Projection::Role::to_cache}.in_canon(
            name == "kv" ? "k" : name));
  }
  declare_qk_norm(c, form, {c.head_dim, c.head_dim});
  description.forms = {std::move(form)};
  return description;
}

constexpr auto kKvHeads = kKvHeadsField<GroupedSettings>.with({.derived = "heads / 2"});
constexpr auto kQRank = kQRankField<GroupedSettings>.with({.derived = "half of dim"});
constexpr auto kRopeDim = kRopeDimField<GroupedSettings>.with({.derived = "head-dim"});
constexpr auto kTieKv = on_off<&GroupedSettings::tie_kv>(
    "tie-kv", "use one projection of x as both key and value; the cache keeps it once");

constexpr Field<GroupedSettings> kFields[] = {kRopeDim, kTieKv};
constexpr Field<GroupedSettings> kGqaFields[] = {kKvHeads, kRopeDim, kTieKv};
constexpr Field<GroupedSettings> kMfaFields[] = {kQRank, kRopeDim, kTieKv};

GroupedSettings resolve(const AttentionPlan& c, const Given& given, Index kv_heads,
                        Index q_rank = 0) {
  if (!given.has("rope-dim")) require_rotary_heads(c);
  const GroupedSettings settings =
      read_fields(kFields, given, {.kv_heads = kv_heads, .q_rank = q_rank, .rope_dim = c.head_dim});
  require_rotary_part(c, settings.rope_dim);
  return settings;
}

// Adds to `kind` what the four kinds of this file have in common.
constexpr AttentionKind grouped(AttentionKind kind) {
  kind.describe = describe_layer;
  kind.make = make_layer<GroupedAttention>;
  kind.mixes_values = true;
  kind.no_qk_norm = "";
  return kind;
}

}  // namespace

extern constinit const AttentionKind kMha =
    grouped({.name = "mha",
             .summary = "multi-head: each query head has its own keys and values",
             .architecture = "llama",
             .own = own_fields<kFields>(),
             .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
               return resolve(c, given, c.heads);
             }});
extern constinit const AttentionKind kMqa =
    grouped({.name = "mqa",
             .summary = "multi-query: all query heads share one KV head",
             .architecture = "llama",
             .own = own_fields<kFields>(),
             .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
               return resolve(c, given, 1);
             }});
extern constinit const AttentionKind kGqa =
    grouped({.name = "gqa",
             .summary = "grouped-query: `kv-heads` KV heads, each for a group of query heads",
             .architecture = "llama",
             .numbers = {"kv-heads"},
             .own = own_fields<kGqaFields>(),
             .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
               return resolve(c, given, resolved_kv_heads(c, given));
             }});
extern constinit const AttentionKind kMfa = grouped(
    {.name = "mfa",
     .summary = "multi-matrix factorization: one KV head of `head-dim`, default 2 dim / heads, "
                "queries from a latent of `q-rank`",
     .head_dim_factor = 2,
     .numbers = {"head-dim"},
     .own = own_fields<kMfaFields>(),
     .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
       return resolve(c, given, 1, given.get("q-rank", std::max<Index>(1, c.dim / 2)));
     }});

}  // namespace headcount
