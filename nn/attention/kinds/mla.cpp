#include <array>
#include <cmath>

#include "nn/attention/attention.h"
#include "nn/attention/kinds/indexer.h"

/// Multi-head latent attention, DeepSeek-V2 (2024) and V3: keys and values of all heads are
/// expanded from one latent per token; all heads share one rotary key per token.
/// Parameters: q_proj, or q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa [rank + rope,
/// dim]; kv_a_layernorm [rank]; kv_b_proj [H (nope + v), rank]; o_proj [dim, H v].
///
/// With N `latents`, the latent has N parts, each with a norm of its own, and each part is for
/// H / N consecutive heads: grouped latent attention, GLA (Zadouri et al., "Hardware-efficient
/// attention", 2025). kv_b_proj is then [H (nope + v), rank / N]. `latent-scale` multiplies latents
/// by sqrt(dim / width) (https://arxiv.org/abs/2603.02188): a normed latent then has the length of
/// a normed x, and keys and values start as large as if expanded from x itself.
///
/// `qk-norm` adds q_norm [nope + rope], k_norm [nope], which norms the expanded keys of each head,
/// and k_rope_norm [rope], of the one rotary key. The norm of an expanded key is not linear in the
/// latent, so that nothing can be absorbed; that takes a number per token and head in the cache
/// (Han et al., "QK-Normed MLA", https://arxiv.org/abs/2606.16310), which is not implemented.
///
/// `dsa`, DeepSeek sparse attention (DeepSeek-V3.2, 2025), reads only the k tokens with the
/// greatest scores of an indexer (see indexer.h), whose keys are rotated k_norm(wk x), one row per
/// token. RoPE rotates the first `rope-dim` dimensions of the indexer's queries and keys, in half
/// layout. Its parameters: indexer.wq_b [I d_I, query rank or dim], indexer.weights_proj [I, dim],
/// indexer.wk [d_I, dim], and indexer.k_norm, a LayerNorm [d_I].
namespace headcount {

namespace {

struct MlaSizes {
  Index kv_rank = 0;                 // width of the latent, all parts together
  Index rope_dim = 0, nope_dim = 0;  // dimensions of q and k per head with RoPE and without it
  Index q_rank = 0;                  // width of the query latent; 0: none
  Index v_dim = 0, latents = 0;
  bool latent_norm = false, latent_scale = false;
  std::optional<IndexSizes> index = {};  // of dsa

  void visit(const auto& setting) {
    const WholeRange any = {1};
    setting(shared_setting("rope-layout", of_owner("interleaved")));
    setting(kv_rank, {"kv-rank", "width of the KV latent that is cached per token", any,
                      Default("2 head-dim - rope-dim", [](const Given& v) {
                        return 2 * v.whole("head-dim") - v.whole("rope-dim");
                      })});
    setting(rope_dim, shared_setting("rope-dim", half_of_head()));
    setting(q_rank, shared_setting("q-rank", of_owner(0)));
    setting(nope_dim, {"nope-dim", "dimensions of q and k per head without RoPE, beside rope-dim",
                       any, same_as("head-dim")});
    setting(v_dim, shared_setting("v-dim", same_as("head-dim")));
    setting(latent_norm, {"latent-norm", "apply RMSNorm to the latents", kOnOff, "on"});
    setting(latents,
            {"latents", "equal parts of the KV latent; each serves heads / latents heads", any, 1});
    setting(latent_scale,
            {"latent-scale", "multiply each latent by sqrt(dim / its width)", kOnOff, "off"});
  }
  void check(const AttentionPlan& c) const {
    require_setting(kv_rank > 0,
                    "`rope-dim` {} leaves nothing for the default `kv-rank`, 2 `head-dim` - "
                    "`rope-dim`; give `kv-rank` or lower `rope-dim`",
                    rope_dim);
    require_divisor("latents", latents, "heads", c.heads);
    require_divisor("latents", latents, "kv-rank", kv_rank);
    require_setting(!c.rotary || rope_dim % 2 == 0, "`rope-dim` must be even, is {}", rope_dim);
    if (index) require_index_width(*index, rope_dim);
  }

  Index latent_width() const { return kv_rank / latents; }
  // Factor of `latent-scale` for a latent of that width.
  double factor(Index dim, Index width) const {
    return latent_scale ? std::sqrt(static_cast<double>(dim) / static_cast<double>(width)) : 1;
  }
};

struct DsaSizes : MlaSizes {
  void visit(const auto& setting) {
    MlaSizes::visit(setting);
    index.emplace().visit(setting, 32);
  }
};

// Form of MLA that folds kv_b_proj into queries and outputs, so that attention reads the latents
// themselves.
constexpr std::string_view kAbsorbed = "absorbed";

// Returns true if folding kv_b_proj leaves the attention weights unchanged. Norms of q and k need
// each head's own key; the norm of a row of scores, their cap and the weight of a sink depend on
// the bias of kv_b_proj.
bool can_absorb(const AttentionPlan& c) {
  const ScoreScale::Kind kind = c.score_scale.kind;
  return !c.qk_norm && kind != ScoreScale::Kind::qk_norm &&
         !(c.bias && (kind == ScoreScale::Kind::row_norm || c.score_cap > 0 || c.sinks));
}

class LatentAttention : public Attention {
 public:
  LatentAttention(const AttentionPlan& c, const MlaSizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, {c.heads, s.v_dim}),
        s_(s),
        kv_a_(weights.row_matrix("kv_a_proj_with_mqa", c.dim, s_.kv_rank + s_.rope_dim, "kv")),
        kv_b_(weights.matrix("kv_b_proj", s_.latent_width(), c.heads * (s_.nope_dim + s_.v_dim))),
        q_proj_(weights, c.heads * (s_.nope_dim + s_.rope_dim),
                {s_.q_rank, s_.latent_norm, s_.factor(c.dim, s_.q_rank)}) {
    if (s_.latent_norm)
      kv_norm_ = weights.for_rows([&] { return weights.norm("kv_a_layernorm", s_.kv_rank); });
    add_qk_norms(weights, {.q = s_.nope_dim + s_.rope_dim,
                           .k = s_.nope_dim,
                           .rope_key = s_.rope_dim,
                           .k_is_cached = false});
    if (s_.index)
      indexer_.emplace(weights, *s_.index,
                       IndexerOptions{.q_proj = "indexer.wq_b",
                                      .weights_proj = "indexer.weights_proj",
                                      .query_width = s_.q_rank > 0 ? s_.q_rank : c.dim,
                                      .window = c.window,
                                      .k_proj = "indexer.wk",
                                      .k_norm = "indexer.k_norm",
                                      .norm = NormKind::layer});
  }

  Var forward(Var x, Memory& memory) const override {
    std::vector<Var> kv;
    if (kv_a_)
      kv = split(convolved("kv", (*kv_a_)(x), memory), std::array{s_.kv_rank, s_.rope_dim});
    Rows latents = memory.keep("latent", [&] { return normed(split_heads(kv[0], s_.latents)); });
    std::vector<Rows> rope_key;  // shared by all heads; empty without rotary part
    if (s_.rope_dim > 0) {
      rope_key.push_back(memory.keep(
          "rope_key", [&] { return rotate(normed_rope_key(split_heads(kv[1], 1)), memory); }));
    }
    const Var query_latent = q_proj_.latent(x);
    const Var q_heads =
        split_heads(convolved("q", q_proj_.of_latent(query_latent), memory), plan().heads);
    const Var q = rotate(normed_queries(q_heads), memory);
    AttentionOptions o = options(*x.tape, s_.nope_dim + s_.rope_dim, memory);
    std::optional<Picks> picks;
    if (indexer_) {
      const auto rotated = [&](Var h) { return rotate_first(h, RotaryLayout::half, memory); };
      picks = indexer_->pick_tokens(x, query_latent, rotated, memory);
      o.picked = rope_key.empty() ? indexer_->read(x, picks, {&latents}, memory)
                                  : indexer_->read(x, picks, {&latents, rope_key.data()}, memory);
      if (picks && !o.picked) o.window = 0;  // all picked tokens are within it
    }
    // Expanding all latents pays off for many queries, not for a single query after many tokens.
    const bool few_queries = x.shape()[1] == 1 && memory.first_position() > 0;
    const bool absorb =
        memory.form().empty() ? few_queries && can_absorb(plan()) : memory.form() == kAbsorbed;
    const Var y = absorb ? absorbed(q, latents, std::move(rope_key), o)
                         : expanded(q, latents, std::move(rope_key), o);
    if (indexer_) indexer_->learn(picks, memory);
    return output(x, y);
  }

 private:
  // Attention with keys and values of each head, expanded from the latents.
  Var expanded(Var q, const Rows& latents, std::vector<Rows> keys,
               const AttentionOptions& o) const {
    Tape& tape = *q.tape;
    const Var kv = expand(read_rows(tape, latents));
    const Rows k = normed_keys(tape, Rows(kv).columns(0, s_.nope_dim));
    const Rows v = Rows(kv).columns(s_.nope_dim, s_.v_dim);
    keys.insert(keys.begin(), k);
    keys = normalize_for_scores(tape, std::move(keys));
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
  // A bias of kv_b_proj shifts all scores of a query alike, which the softmax ignores, and adds to
  // v.
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
    const double factor = s_.factor(plan().dim, s_.latent_width());
    const Var x = kv_norm_ ? (*kv_norm_)(latents) : latents;
    return factor == 1 ? x : scale(x, static_cast<Real>(factor));
  }

  MlaSizes s_;
  std::optional<Linear> kv_a_;  // none in a layer that shares another layer's cache
  Linear kv_b_;
  QueryProjection q_proj_;
  std::optional<Norm> kv_norm_;
  std::optional<Indexer> indexer_;  // of dsa
};

// As trained, kv_b_proj expands k and v. Absorbed, as in DeepSeek's inference code and in decoding
// here, kv_b_proj is applied to queries and to sums of latents in every step: a latent is key and
// value of its heads.
std::vector<std::string_view> forms(const AttentionPlan& c) {
  if (!can_absorb(c)) return {kExpanded};
  return {kExpanded, kAbsorbed};
}

// Merged: kv_b_proj is multiplied into the query and output projections once and for all. Its bias
// moves to o_proj, and weights of the norms disappear. If outputs of heads are gated, or there is
// no output projection, the part of kv_b_proj that expands values stays. Canon layer B would stand
// between the matrices to merge.
std::optional<CountedForm> merged(const AttentionPlan& c) {
  if (!can_absorb(c) || c.canon.has('B')) return std::nullopt;
  const auto s = c.read<MlaSizes>();
  CountedForm form;
  form.name = "merged";
  const auto add = [&](Index sign, Index in, Index heads, Index width, Index biases) {
    const Count macs = Count(sign) * in * heads * width;
    form.macs_per_token += macs;
    form.parameters += macs + Count(sign) * (c.bias ? biases : 0);
  };
  const Index latent = s.latent_width(), query_in = s.q_rank > 0 ? s.q_rank : c.dim;
  const bool keeps_values = c.gate || !c.output_projection;
  add(-1, latent, c.heads, s.nope_dim + s.v_dim, c.heads * (s.nope_dim + s.v_dim));
  add(-1, query_in, c.heads, s.nope_dim, c.heads * s.nope_dim);
  add(1, query_in, c.heads, latent, c.heads * latent);
  if (keeps_values) {
    add(1, latent, c.heads, s.v_dim, c.heads * s.v_dim);  // v_b_proj
  } else {
    add(1, c.dim, c.heads, latent - s.v_dim, 0);  // o_proj
  }
  if (s.latent_norm && !c.shares()) form.parameters += Count(-1) * s.kv_rank;
  if (s.latent_norm) form.parameters += Count(-1) * s.q_rank;
  return form;
}

}  // namespace

extern constinit const AttentionKind kMla = attention_of<LatentAttention, MlaSizes>(
    {.name = "mla",
     .summary =
         "Multi-head latent attention (DeepSeek-V2) keeps one latent and one small rotary key for "
         "all heads: rank + rotary numbers a token. Keys and values of each head are rebuilt from "
         "the latent or, absorbed, queries are multiplied by what would rebuild keys, so that the "
         "latent is read as it is. It is worth choosing where bytes are scarce and arithmetic is "
         "not: DeepSeek-V2 keeps as little as 2.25 KV heads would, with keys and values for each "
         "of 128 heads.",
     .formula =
         "softmax(qᵢ kᵢᵀ / √w) vᵢ with kᵢ = [Aᵢ c, rotary key], vᵢ = Bᵢ c, w the width of kᵢ; c is "
         "one normed latent for all heads",
     .source = "https://arxiv.org/abs/2405.04434 (2024)",
     .architecture = "deepseek_v3",
     .numbers = {"kv-rank", "rope-dim"},
     .forms = forms,
     .counted = merged});

extern constinit const AttentionKind kDsa = attention_of<LatentAttention, DsaSizes>(
    {.name = "dsa",
     .summary = "Sparse attention (DeepSeek-V3.2) keeps what `mla` keeps and a key of an indexer: "
                "rank + rotary + index numbers a token. Keys and values are rebuilt as in `mla`, "
                "but only of the k tokens that the indexer scores highest. It is worth choosing at "
                "long contexts, where reading all rows takes most of the time; it saves no bytes.",
     .formula =
         "mla over the tokens with the greatest scores Σ wₕ max(0, qₕ K) / √(I dᵢ) over I heads of "
         "an indexer",
     .source = "https://arxiv.org/abs/2512.02556 (2025)",
     .numbers = {"kv-rank", "rope-dim"},
     .needs_causal = true,
     .forms = forms,
     .counted = merged,
     .notes = [](const AttentionPlan& c) {
       return index_notes("dsa", *c.read<DsaSizes>().index, c.cached_tokens(c.max_positions));
     }});

}  // namespace headcount
