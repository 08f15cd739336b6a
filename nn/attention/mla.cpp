#include <array>
#include <cmath>

#include "nn/attention/attention.h"
#include "nn/attention/heads.h"
#include "nn/attention/kinds.h"

/// Multi-head latent attention, DeepSeek-V2 (2024) and V3: keys and values of all heads are
/// expanded from one latent per token, and one rotary key per token is shared by all heads.
/// Parameters: q_proj, or q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa [rank + rope,
/// dim]; kv_a_layernorm [rank]; kv_b_proj [H (nope + v), rank]; o_proj [dim, H v].
///
/// With N `latents`, the latent is cut in N, each part is normed on its own, and H / N heads in a
/// row are expanded from one part: grouped latent attention, GLA (Zadouri et al., "Hardware-
/// efficient attention", 2025). kv_b_proj is then [H (nope + v), rank / N]. `latent-scale`
/// multiplies latents by sqrt(dim / width) (https://arxiv.org/abs/2603.02188): a normed one has
/// then the length of a normed x, and what is expanded from it starts as large as from x itself.
namespace headcount {

namespace {

struct MlaSettings {
  Index kv_rank = 0;   // width of the latent
  Index q_rank = 0;    // width of the query latent; 0: none
  Index nope_dim = 0;  // width of q and k without position
  Index rope_dim = 0;  // width of q and k with position
  Index v_dim = 0;
  bool latent_norm = true;
  Index latents = 1;
  bool latent_scale = false;

  Index latent_width() const { return kv_rank / latents; }
};

constexpr Traits kMlaDerived = {.derived = true, .conversion = InConversion::open};
constexpr Traits kMlaConverted = {.conversion = InConversion::open};
constexpr Field<MlaSettings> kMlaFields[] = {
    whole<&MlaSettings::kv_rank>("kv-rank", "width of the latent; default 2 head-dim - rope-dim", 1)
        .with(kMlaDerived),
    whole<&MlaSettings::rope_dim>("rope-dim",
                                  "width of q and k with position; default head-dim / 2", 0)
        .with(kMlaDerived),
    whole<&MlaSettings::q_rank>("q-rank", "width of the query latent; default 0, none", 0)
        .with(kMlaDerived),
    whole<&MlaSettings::nope_dim>("nope-dim", "width of q and k without position; default head-dim",
                                  1)
        .with(kMlaDerived),
    whole<&MlaSettings::v_dim>("v-dim", "width of v; default head-dim", 1).with(kMlaDerived),
    on_off<&MlaSettings::latent_norm>("latent-norm", "RMSNorm on the latents").with(kMlaConverted),
    whole<&MlaSettings::latents>("latents", "parts of the latent, each for heads / latents heads",
                                 1)
        .with(kMlaConverted),
    on_off<&MlaSettings::latent_scale>("latent-scale", "latents times sqrt(dim / their width)")
        .with(kMlaConverted),
};

const MlaSettings& mla(const AttentionPlan& c) { return c.own<MlaSettings>(); }

double latent_factor(const AttentionPlan& c, Index width) {
  return mla(c).latent_scale ? std::sqrt(static_cast<double>(c.dim) / static_cast<double>(width))
                             : 1;
}

// The form with kv_b_proj folded into query and output: scores and sums are those of the latents.
constexpr std::string_view kAbsorbed = "absorbed";

// QK-norm divides by the norm of each head's own key, and a row's norm sees the bias.
bool can_absorb(const AttentionPlan& c) {
  const ScoreScale::Kind kind = c.score_scale.kind;
  return kind != ScoreScale::Kind::qk_norm && (kind != ScoreScale::Kind::row_norm || !c.bias);
}

class LatentAttention : public Attention {
 public:
  LatentAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, mla(c).rope_dim),
        s_(mla(c)),
        q_proj_(weights, latent_factor(c, mla(c).q_rank)),
        kv_a_(weights.find_linear("kv_a_proj_with_mqa")),
        kv_norm_(weights.find_norm("kv_a_layernorm")),
        kv_b_(weights.linear("kv_b_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    std::vector<Var> kv;
    if (kv_a_) kv = split((*kv_a_)(x), std::array{s_.kv_rank, s_.rope_dim});
    const Rows latents =
        memory.keep("latent", [&] { return normed(split_heads(kv[0], s_.latents)); });
    std::vector<Rows> rope_key;  // one for all heads, or none
    if (s_.rope_dim > 0) {
      rope_key.push_back(
          memory.keep("rope_key", [&] { return rotate(split_heads(kv[1], 1), memory); }));
    }
    const Var q = rotate(split_heads(q_proj_(x), plan().heads), memory);
    const AttentionOptions o = options(s_.nope_dim + s_.rope_dim, memory);
    // Expanding all latents is worth it for many queries, not for one that follows many tokens.
    const bool few_queries = x.shape()[1] == 1 && memory.first_position() > 0;
    const bool absorb =
        memory.form().empty() ? few_queries && can_absorb(plan()) : memory.form() == kAbsorbed;
    return output(x, absorb ? absorbed(q, latents, std::move(rope_key), o)
                            : expanded(q, latents, std::move(rope_key), o));
  }

 private:
  // Keys and values of each head from the latents.
  Var expanded(Var q, const Rows& latents, std::vector<Rows> keys,
               const AttentionOptions& o) const {
    const Var kv = expand(read_rows(*q.tape, latents));
    const Rows k = Rows(kv).columns(0, s_.nope_dim);
    const Rows v = Rows(kv).columns(s_.nope_dim, s_.v_dim);
    keys.insert(keys.begin(), k);
    keys = normalize_for_scores(*q.tape, std::move(keys));
    return attention(normalize_for_scores(q), keys, v, o);
  }

  // latents [B, S, N, rank / N] -> keys and values [B, S, H, nope + v]
  Var expand(Var latents) const {
    if (s_.latents == 1) return split_heads(kv_b_(merge_heads(latents)), plan().heads);
    Tape& tape = *latents.tape;
    const Index width = s_.nope_dim + s_.v_dim, of_one = plan().heads / s_.latents * width;
    const Var all =
        merge_heads(head_linear(latents, kv_b_.weight(tape), 0, of_one, Stored::transposed));
    const std::optional<Var> bias = kv_b_.bias(tape);
    return split_heads(bias ? add(all, *bias) : all, plan().heads);
  }

  // Scores and sums in latent space: with kv_b_proj = [W_UK; W_UV] for each head,
  //   q.k = (W_UK^T q_nope).c + q_rope.k_rope,  sum of p v = W_UV (sum of p c).
  // Its bias shifts all of a query's scores alike, which the softmax does not see, and adds to v.
  Var absorbed(Var q, const Rows& latents, std::vector<Rows> keys,
               const AttentionOptions& o) const {
    Tape& tape = *q.tape;
    const Var weight = kv_b_.weight(tape);
    const std::vector<Var> parts = split(q, std::array{s_.nope_dim, s_.rope_dim});
    Var latent_q = head_linear(parts[0], weight, 0, s_.nope_dim, Stored::as_is);
    if (s_.rope_dim > 0) latent_q = concat(latent_q, parts[1]);
    keys.insert(keys.begin(), latents);
    const Var sums = attention(latent_q, keys, latents, o);
    const Var y = head_linear(sums, weight, s_.nope_dim, s_.v_dim, Stored::transposed);
    const std::optional<Var> bias = kv_b_.bias(tape);
    if (!bias) return y;
    const Var of_heads = reshape(*bias, {plan().heads, s_.nope_dim + s_.v_dim});
    return add(y, columns(of_heads, s_.nope_dim, s_.v_dim));
  }

  Var normed(Var latents) const {
    const double factor = latent_factor(plan(), s_.latent_width());
    const Var x = kv_norm_ ? (*kv_norm_)(latents) : latents;
    return factor == 1 ? x : scale(x, static_cast<Real>(factor));
  }

  MlaSettings s_;
  QueryProjection q_proj_;
  std::optional<Linear> kv_a_;  // not in a layer that shares
  std::optional<Norm> kv_norm_;
  Linear kv_b_;
};

// Three forms. As trained, k and v are expanded by kv_b_proj. Absorbed, kv_b_proj is applied to
// queries and to sums of latents instead, in every step: queries and sums are as wide as a latent,
// which itself is key and value of its heads. DeepSeek's inference code does that, and decoding
// here. Merged, which is only counted, kv_b_proj has been multiplied into the query projection and
// the output projection once and for all: larger matrices instead of it. A bias of kv_b_proj
// becomes one of o_proj then, and the weights of the latents' norms can be multiplied in too and do
// not count. Where the heads' outputs are gated, or are the output, what expands values stays a
// matrix of its own.
AttentionDescription describe_mla(const AttentionPlan& c) {
  const MlaSettings& s = mla(c);
  const Index q_width = s.nope_dim + s.rope_dim, latent = s.latent_width();
  AttentionDescription description;
  // The normed latent and the rotated key: no factor 2, k and v come from the same latent.
  description.keeps = {{"latent", s.latents, latent}};
  if (s.rope_dim > 0) description.keeps.push_back({"rope_key", 1, s.rope_dim});

  const Projection kv_a = Projection::keeping("kv_a_proj_with_mqa", c.dim, s.kv_rank + s.rope_dim);
  const auto add_queries = [&](AttentionForm& form, Index width, bool norm) {
    const auto all = QueryProjection::declare(c.dim, s.q_rank, c.heads * width, norm);
    form.projections.insert(form.projections.end(), all.begin(), all.end());
  };
  const auto with_kv_b = [&](AttentionForm form, bool of_kept) {
    form.projections = {kv_a, {"kv_b_proj", latent, c.heads * (s.nope_dim + s.v_dim), of_kept}};
    add_queries(form, q_width, s.latent_norm);
    if (s.latent_norm)  // of the kept latent
      form.projections.push_back(Projection::norm("kv_a_layernorm", s.kv_rank, true));
    return form;
  };
  description.forms.push_back(with_kv_b({std::string(kExpanded), {}, q_width, s.v_dim}, true));
  if (!can_absorb(c)) return description;
  description.forms.push_back(with_kv_b({.name = std::string(kAbsorbed),
                                         .projections = {},
                                         .key_width = latent + s.rope_dim,
                                         .value_width = latent,
                                         .output_width = s.v_dim},
                                        false));
  AttentionForm merged = {"merged", {kv_a}, latent + s.rope_dim, latent};
  add_queries(merged, latent + s.rope_dim, false);
  if (c.gate || !c.output_projection) {
    merged.projections.push_back({"v_b_proj", latent, c.heads * s.v_dim});
    merged.output_width = s.v_dim;
  }
  description.counted_forms.push_back(std::move(merged));
  return description;
}

// Half of a head, and even.
Index default_rope_dim(const LayerSettings& layer) { return layer.head_dim / 4 * 2; }

std::any resolve_mla(const AttentionPlan& c, const Given& given) {
  MlaSettings s =
      read_fields(kMlaFields, given,
                  {.nope_dim = c.head_dim, .rope_dim = default_rope_dim(c), .v_dim = c.head_dim});
  if (!given.has("kv-rank")) s.kv_rank = 2 * c.head_dim - s.rope_dim;
  require_setting(s.kv_rank > 0, "`kv-rank` must be at least 1, is " + std::to_string(s.kv_rank));
  const auto divides = [&](Index number, const std::string& name) {
    require_setting(number % s.latents == 0, "`latents` " + std::to_string(s.latents) +
                                                 " does not divide `" + name + "` " +
                                                 std::to_string(number));
  };
  divides(c.heads, "heads");
  divides(s.kv_rank, "kv-rank");
  require_setting(!c.rotary || s.rope_dim % 2 == 0,
                  "`rope-dim` must be even, is " + std::to_string(s.rope_dim));
  return s;
}

AttentionHeads mla_to_heads(const AttentionPlan& c, const LayerMatrices& weights) {
  const MlaSettings& s = mla(c);
  require_setting(!s.latent_norm && !c.shares(),
                  c.shares() ? "a layer of mla that shares expands the latent of another layer"
                             : "its keys and values come from a latent with a norm, and are no "
                               "matrices of x (`latent-norm` on)");
  const Index width = s.nope_dim + s.rope_dim;
  AttentionHeads heads = {.dim = c.dim,
                          .heads = c.heads,
                          .key_width = width,
                          .value_width = s.v_dim,
                          .q = queries(weights, s.q_rank, false, latent_factor(c, s.q_rank)),
                          .speeds = rotary_speeds(c, s.rope_dim)};
  if (c.output_projection) heads.o = weights.get("o_proj");
  const DoubleMatrix down = weights.of_z("kv_a_proj_with_mqa"), up = weights.get("kv_b_proj"),
                     rope_key = down.part(s.kv_rank, s.rope_dim);
  for (Index head = 0; head < c.heads; ++head) {
    const Index latent = head / (c.heads / s.latents);
    DoubleMatrix c_rows = down.part(latent * s.latent_width(), s.latent_width());
    c_rows *= latent_factor(c, s.latent_width());
    const DoubleMatrix kv =
        composed(up.part(head * (s.nope_dim + s.v_dim), s.nope_dim + s.v_dim), c_rows);
    heads.k.append(kv.part(0, s.nope_dim));
    heads.k.append(rope_key);
    heads.v.append(kv.part(s.nope_dim, s.v_dim));
  }
  heads.q = to_halves(heads.q, width, heads.rotated(), c);
  heads.k = to_halves(heads.k, width, heads.rotated(), c);
  return heads;
}

// So much of each head is rotated by position; without rotary positions the rotary part is idle.
Index rotated_width(const AttentionPlan& c) { return c.rotary ? mla(c).rope_dim : 0; }

// What latent number `latent` of so many has to keep: of each of its heads the rows without
// position of the key, then the value.
DoubleMatrix of_latent(const AttentionHeads& heads, const HeadRows& rows, Index latent,
                       Index latents) {
  const Index count = heads.heads / latents;
  DoubleMatrix all;
  for (Index head = latent * count; head < (latent + 1) * count; ++head) {
    const DoubleMatrix k = heads.k.part(head * heads.key_width, heads.key_width);
    all.append(take_rows(k, heads.key_width, rows.others));
    all.append(heads.v.part(head * heads.value_width, heads.value_width));
  }
  return all;
}

void fit(const LayerSettings& layer, const LayerPlace& place, Given& given,
         std::span<const AttentionHeads> layers, const ConversionOptions& options) {
  const AttentionHeads& first = layers.front();
  const auto open = [&](const std::string& name, Index value) {
    if (!given.has(name)) given.put(name, value);
  };
  open("rope-dim", place.rotary ? std::min(first.rotated(), default_rope_dim(layer)) : 0);
  const Index rotated = place.rotary ? given.get<Index>("rope-dim", 0) : 0;
  open("nope-dim", std::max<Index>(1, first.key_width - rotated));
  open("v-dim", first.value_width);
  if (!options.energy) return;
  require_setting(!given.has("kv-rank"),
                  "`energy` chooses `kv-rank`, which is given; leave one out");
  const auto latents = given.get<Index>("latents", 1);
  Index rank = latents;
  for (const AttentionHeads& heads : layers) {
    const HeadRows rows = rows_for_rotary_part(heads, rotated, options.rotary_pairs);
    for (Index latent = 0; latent < latents && layer.heads % latents == 0; ++latent) {
      const DoubleMatrix all = of_latent(heads, rows, latent, latents).column_part(0, place.dim);
      rank = std::max(rank, latents * rank_for(all, *options.energy));
    }
  }
  given.put("kv-rank", rank);
}

// Queries keep their rows. All heads share the mean of their rotary keys; everything else of keys
// and values is as near as the latents can have it: Ji et al., "Towards economical inference"
// (arXiv 2502.14837); Li et al., "X-EcoMLA" (arXiv 2503.11132). The latents' numbers are as large
// as those of x, so that their norm changes little.
MadeLayer mla_of_heads(const AttentionPlan& c, const AttentionHeads& heads,
                       const ConversionOptions& options) {
  const MlaSettings& s = mla(c);
  require_setting(!c.shares(),
                  "a layer of mla that shares would have to expand a latent that was made for "
                  "another layer's keys and values");
  const Index width = s.nope_dim + s.rope_dim, rotated = rotated_width(c);
  const HeadRows rows = rows_for_rotary_part(heads, rotated, options.rotary_pairs);
  require_width("the width of values, `v-dim`,", s.v_dim, heads.value_width);
  require_width(rotated > 0 ? "the width of keys, `nope-dim` plus `rope-dim`,"
                            : "the width of keys, `nope-dim` where nothing is rotated,",
                s.nope_dim + rotated, heads.key_width);
  DoubleMatrix down, up, kv;
  for (Index latent = 0; latent < s.latents; ++latent) {
    const LatentMatrices part =
        through_latent(of_latent(heads, rows, latent, s.latents), s.latent_width(), c.dim,
                       "kv-rank", latent_factor(c, s.latent_width()));
    down.append(part.down);
    up.append(part.up);
    kv.append(part.whole);
  }
  // Where nothing rotated, queries leave the rotary key alone, which training may change; QK-norm
  // would see it.
  const std::vector<Index>& shared = rotated > 0 ? rows.rotated : rows.others;
  const DoubleMatrix means =
      mean_of_blocks(take_rows(heads.k, heads.key_width, shared), std::ssize(shared), c.heads);
  const bool seen = rotated == 0 && c.score_scale.kind == ScoreScale::Kind::qk_norm;
  DoubleMatrix rope_key = means.part(0, seen ? 0 : std::min(s.rope_dim, means.rows)), q, keys,
               values;
  rope_key.append(DoubleMatrix(s.rope_dim - rope_key.rows, means.columns));
  for (Index head = 0; head < c.heads; ++head) {
    const DoubleMatrix of_head = heads.q.part(head * heads.key_width, heads.key_width);
    q.append(take_rows(of_head, heads.key_width, rows.others));
    q.append(take_rows(of_head, heads.key_width, rows.rotated));
    q.append(DoubleMatrix(s.rope_dim - rotated, q.columns));
    const DoubleMatrix of_kv = kv.part(head * (s.nope_dim + s.v_dim), s.nope_dim + s.v_dim);
    keys.append(of_kv.part(0, s.nope_dim));
    keys.append(rope_key.part(0, rotated));
    values.append(of_kv.part(s.nope_dim, s.v_dim));
  }
  q *= score_factor(c, heads.key_width, width);
  MadeLayer made{.of_z = {}, .others = {}, .heads = heads};
  make_queries(made, from_halves(q, width, rotated, c), s.q_rank, s.latent_norm,
               latent_factor(c, s.q_rank));
  down.append(from_halves(rope_key, s.rope_dim, rotated, c));
  made.of_z["kv_a_proj_with_mqa"] = std::move(down);
  made.others["kv_b_proj"] = std::move(up);
  if (s.latent_norm) made.others["kv_a_layernorm"] = norm_of_ones(s.kv_rank);
  if (c.output_projection) made.others["o_proj"] = heads.o;
  replace_keys(made.heads, rows, keys, rotary_speeds(c, rotated));
  made.heads.v = std::move(values);
  return made;
}

}  // namespace

const AttentionKind kMla = {
    .name = "mla",
    .summary =
        "multi-head latent (DeepSeek): a latent of `kv-rank` and a rotary key of `rope-dim` per "
        "token",
    .architecture = "deepseek_v3",
    .numbers = {"kv-rank", "rope-dim"},
    .rotary_layout = RotaryLayout::interleaved,
    .own = own_fields<kMlaFields>(),
    .resolve = resolve_mla,
    .describe = describe_mla,
    .make = make_layer<LatentAttention>,
    .to_heads = mla_to_heads,
    .of_heads = mla_of_heads,
    .fit = fit};

}  // namespace headcount
