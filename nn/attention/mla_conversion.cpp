#include "nn/attention/mla.h"

/// Conversion of latent attention to and from heads.
namespace headcount {

namespace {

const MlaSettings& mla(const AttentionPlan& c) { return c.own<MlaSettings>(); }

// Dimensions per head that RoPE rotates: none without rotary positions.
Index rotated_width(const AttentionPlan& c) { return c.rotary ? mla(c).rope_dim : 0; }

// The matrix that one latent of `latents` has to represent: for each of its heads the unrotated
// rows of the key, then the value.
DoubleMatrix of_latent(const AttentionHeads& heads, const RotaryRows& rows, Index latent,
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

// Rotary key that all heads share: the mean over the heads of the key rows that RoPE rotates.
// Without RoPE, it starts as a mean of unrotated rows: queries ignore it, and training may change
// that later. With QK-norm it is zero, because the norm of a key would include it.
DoubleMatrix shared_rope_key(const AttentionPlan& c, const AttentionHeads& heads,
                             const RotaryRows& rows) {
  const bool rotates = rotated_width(c) > 0;
  const bool seen = !rotates && c.score_scale.kind == ScoreScale::Kind::qk_norm;
  const std::vector<Index>& shared = rotates ? rows.rotated : rows.others;
  const DoubleMatrix means =
      mean_of_blocks(take_rows(heads.k, heads.key_width, shared), std::ssize(shared), c.heads);
  DoubleMatrix key = means.part(0, seen ? 0 : std::min(mla(c).rope_dim, means.rows));
  key.append(DoubleMatrix(mla(c).rope_dim - key.rows, means.columns));
  return key;
}

}  // namespace

AttentionHeads mla_to_heads(const AttentionPlan& c, const LayerMatrices& weights) {
  const MlaSettings& s = mla(c);
  require_setting(!s.latent_norm && !c.shares(),
                  c.shares()
                      ? "a layer of mla that shares expands the latent of another layer"
                      : "its keys and values come from a normed latent and are not linear in x; "
                        "only models that were trained with `latent-norm` off can be converted");
  const Index width = s.nope_dim + s.rope_dim;
  AttentionHeads heads = {.dim = c.dim,
                          .heads = c.heads,
                          .key_width = width,
                          .value_width = s.v_dim,
                          .q = queries(weights, mla_query_latent(c)),
                          .frequencies = rotary_frequencies(c, s.rope_dim)};
  if (c.output_projection) heads.o = weights.get("o_proj");
  const DoubleMatrix down = weights.of_z("kv_a_proj_with_mqa"), up = weights.get("kv_b_proj"),
                     rope_key = down.part(s.kv_rank, s.rope_dim);
  for (Index head = 0; head < c.heads; ++head) {
    const Index latent = head / (c.heads / s.latents);
    DoubleMatrix c_rows = down.part(latent * s.latent_width(), s.latent_width());
    c_rows *= mla_latent_factor(c, s.latent_width());
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

void fit_mla(const LayerSettings& layer, const LayerPlace& place, Given& given,
             std::span<const AttentionHeads> layers, const ConversionOptions& options) {
  const AttentionHeads& first = layers.front();
  const auto open = [&](const std::string& name, Index value) {
    if (!given.has(name)) given.put(name, value);
  };
  open("rope-dim", place.rotary ? std::min(first.rotated(), half_of_head(layer)) : 0);
  const Index rotated = place.rotary ? given.get<Index>("rope-dim", 0) : 0;
  open("nope-dim", std::max<Index>(1, first.key_width - rotated));
  open("v-dim", first.value_width);
  if (!options.energy) return;
  require_setting(!given.has("kv-rank"),
                  "`energy` chooses `kv-rank`, which is given; leave one out");
  const auto latents = given.get<Index>("latents", 1);
  Index rank = latents;
  for (const AttentionHeads& heads : layers) {
    if (heads.k.rows == 0) continue;  // the layer reads another one's keys and values
    const RotaryRows rows = rows_for_rotary_part(heads, rotated, options.rotary_pairs);
    for (Index latent = 0; latent < latents && layer.heads % latents == 0; ++latent) {
      const DoubleMatrix all = of_latent(heads, rows, latent, latents).column_part(0, place.dim);
      rank = std::max(rank, latents * rank_for(all, *options.energy));
    }
  }
  given.put("kv-rank", rank);
}

// Queries keep their rows. All heads share the mean of their rotary keys; latents approximate the
// rest of keys and values: Ji et al., "Towards economical inference" (arXiv 2502.14837); Li et al.,
// "X-EcoMLA" (arXiv 2503.11132). Elements of latents are as large as those of x, so that their norm
// changes little.
MadeLayer mla_of_heads(const AttentionPlan& c, const AttentionHeads& heads,
                       const ConversionOptions& options) {
  const MlaSettings& s = mla(c);
  require_setting(!c.shares(),
                  "a layer of mla that shares would have to expand a latent that was made for "
                  "another layer's keys and values");
  const Index width = s.nope_dim + s.rope_dim, rotated = rotated_width(c);
  const RotaryRows rows = rows_for_rotary_part(heads, rotated, options.rotary_pairs);
  require_width("the width of values, `v-dim`,", s.v_dim, heads.value_width);
  require_width(rotated > 0 ? "the width of keys, `nope-dim` plus `rope-dim`,"
                            : "the width of keys, `nope-dim` where nothing is rotated,",
                s.nope_dim + rotated, heads.key_width);
  DoubleMatrix down, up, kv;
  for (Index latent = 0; latent < s.latents; ++latent) {
    const LatentMatrices part =
        through_latent(of_latent(heads, rows, latent, s.latents), s.latent_width(), c.dim,
                       "kv-rank", mla_latent_factor(c, s.latent_width()));
    down.append(part.down);
    up.append(part.up);
    kv.append(part.whole);
  }
  const DoubleMatrix rope_key = shared_rope_key(c, heads, rows);
  DoubleMatrix q, keys, values;
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
  MadeLayer made{.heads = heads};
  make_queries(made, from_halves(q, width, rotated, c), mla_query_latent(c));
  down.append(from_halves(rope_key, s.rope_dim, rotated, c));
  made.of_z["kv_a_proj_with_mqa"] = std::move(down);
  made.others["kv_b_proj"] = std::move(up);
  if (s.latent_norm) made.others["kv_a_layernorm"] = norm_of_ones(s.kv_rank);
  if (c.output_projection) made.others["o_proj"] = heads.o;
  replace_keys(made.heads, rows, keys, rotary_frequencies(c, rotated));
  made.heads.v = std::move(values);
  return made;
}

}  // namespace headcount
