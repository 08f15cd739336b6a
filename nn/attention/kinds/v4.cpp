#include "nn/attention/attention.h"
#include "nn/attention/kinds/compressor.h"
#include "nn/attention/kinds/indexer.h"

/// Attentions of DeepSeek-V4 (2026), as transformers has them. One row per token is key and value
/// of all heads:
///     row = rotated kv_norm(kv_proj x)
///     q_i = rotated unit(q_b_proj c)_i,  c = q_a_norm(q_a_proj x)
///     head i = softmax(q_i rows^T / sqrt(d)) rows, rotated back
/// `unit` divides each head by its root mean square. The heads are put into `o-groups` groups side
/// by side; each group passes through rows of its own of o_a_proj, and o_b_proj joins them.
///
/// `hca`, heavily compressed attention, reads besides one row for each block of m tokens that is
/// complete, in the same softmax: that of a compressor (see compressor.h), rotated by the position
/// of its first token. With a window, tokens of an open block that have left the window are read by
/// nobody until the block is complete.
///
/// `csa`, compressed sparse attention, pools each row over the block before, too, and reads only
/// the k rows with the greatest scores of an indexer (see indexer.h), which has a compressor of its
/// own for the rows that it scores.
///
/// Parameters: q_a_proj [rank, dim], q_a_norm [rank] and q_b_proj [H d, rank], or q_proj; kv_proj
/// [d, dim], kv_norm [d], o_a_proj [g r, H d / g], o_b_proj [dim, g r]; those of `compressor`; in
/// csa those of `compressor.indexer`, and of it q_b_proj [I d_I, rank] and scorer.weights_proj [I,
/// dim].
namespace headcount {

namespace {

// Settings of all three kinds.
struct V4Sizes {
  Index q_rank = 0, rope_dim = 0, o_groups = 0, o_rank = 0;
  Index compress = 0;                    // 0: no compressed rows
  std::optional<IndexSizes> index = {};  // of csa

  void visit(const auto& setting) {
    const Traits of_output = {.only_where =
                                  OnlyWhere{"output-projection", "on", "projects nothing"}};
    setting(shared_setting("head-dim", twice_the_width()));
    setting(shared_setting("rope-layout", of_owner("interleaved")));
    setting(q_rank, shared_setting("q-rank", half_of_dim()));
    setting(rope_dim, shared_setting("rope-dim", half_of_head()));
    setting(
        o_groups,
        {"o-groups", "groups of heads whose outputs are projected apart before o_b_proj joins them",
         WholeRange{1},
         Default("2, or 1 if heads is odd",
                 [](const Given& v) { return v.whole("heads") % 2 == 0 ? 2 : 1; }),
         of_output});
    setting(o_rank, {"o-rank", "width that each group of heads is projected to", WholeRange{1},
                     Default("dim / o-groups",
                             [](const Given& v) {
                               return std::max<Index>(1, v.whole("dim") / v.whole("o-groups"));
                             }),
                     of_output});
  }
  void check(const AttentionPlan& c) const {
    require_rotary_part(c, rope_dim, c.head_dim);
    require_divisor("o-groups", o_groups, "heads", c.heads);
    if (index) require_index_width(*index, rope_dim);
  }
};

// Reason why the kinds of this file have no norms of `qk-norm`.
constexpr std::string_view kNormedAnyway = "its queries and its row are normed without it";

Setting compress_setting(Index block) {
  return {"compress", "tokens that each compressed row of keys and values stands for",
          WholeRange{1}, of_owner(block)};
}

struct HcaSizes : V4Sizes {
  void visit(const auto& setting) {
    V4Sizes::visit(setting);
    setting(compress, compress_setting(8));
  }
};

struct CsaSizes : V4Sizes {
  void visit(const auto& setting) {
    V4Sizes::visit(setting);
    setting(compress, compress_setting(4));
    index.emplace().visit(setting, 16);
  }
};

Attention::Output output_of(const AttentionPlan& c, const V4Sizes& s) {
  if (!c.output_projection) return {c.heads, c.head_dim};
  return {s.o_groups, s.o_rank, "o_b_proj"};
}

class SharedRowAttention : public Attention {
 public:
  SharedRowAttention(const AttentionPlan& c, const V4Sizes& s, LayerWeights& weights)
      : Attention(c, s.rope_dim, output_of(c, s)),
        o_groups_(s.o_groups),
        o_rank_(s.o_rank),
        q_proj_(weights, c.heads * c.head_dim, {.rank = s.q_rank, .norm = "q_a_norm"}),
        kv_proj_(weights.row_matrix("kv_proj", c.dim, c.head_dim, "kv")),
        kv_norm_(weights.for_rows([&] { return weights.norm("kv_norm", c.head_dim); })) {
    if (c.output_projection)  // its bias would be a part of that of o_b_proj
      o_a_ = weights.matrix("o_a_proj", c.heads / o_groups_ * c.head_dim, o_groups_ * o_rank_, {},
                            false);
    if (s.compress == 0) return;
    CompressorPlan compressor = {
        .width = c.head_dim, .block = s.compress, .blocks = s.index ? 2 : 1};
    compressor_.emplace(weights, compressor);
    if (!s.index) return;
    compressor.weights += "indexer.";
    compressor.kept = "indexer_";
    compressor.width = s.index->head_dim;
    if (!c.shared().picks) index_compressor_.emplace(weights, compressor);
    indexer_.emplace(weights, *s.index,
                     IndexerOptions{.q_proj = "compressor.indexer.q_b_proj",
                                    .weights_proj = "compressor.indexer.scorer.weights_proj",
                                    .query_width = s.q_rank > 0 ? s.q_rank : c.dim,
                                    .tokens = s.compress});
  }

  Var forward(Var x, Memory& memory) const override {
    const auto epsilon = static_cast<Real>(plan().norm_epsilon);
    const Var latent = q_proj_.latent(x);
    const Var heads = split_heads(convolved("q", q_proj_.of_latent(latent), memory), plan().heads);
    const Var q = rotate(normalize_for_scores(rms_norm(heads, std::nullopt, epsilon)), memory);
    const Rows kv = memory.keep("kv", [&] {
      const Var row = (*kv_norm_)(convolved("kv", (*kv_proj_)(x), memory));
      return rotate(split_heads(row, 1), memory);
    });
    const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    std::optional<Picks> picks;
    if (compressor_) {
      require_setting(memory.key_mask().empty(),
                      "`compress` pools all tokens of a block; it has no key mask");
      std::optional<Rows> rows = rows_of(*compressor_, x, memory);
      if (indexer_) picks = pick(x, latent, memory);
      if (rows) {
        const auto picked = indexer_ ? indexer_->read(x, picks, {&*rows}, memory) : std::nullopt;
        o.pooled = {.keys = normalize_for_scores(*x.tape, {*rows}).front(),
                    .values = *rows,
                    .tokens = compressor_->plan().block,
                    .picked = picked};
      }
    }
    const Var y = attention(q, k, kv, o);
    if (indexer_) indexer_->learn(picks, memory);
    return output(x, grouped(rotate(y, memory, Rotation::inverse)));
  }

 private:
  // Rows of all blocks that are complete, if there are any.
  std::optional<Rows> rows_of(const Compressor& compressor, Var x, Memory& memory) const {
    const Index block = compressor.plan().block;
    const auto make = [&]() -> std::optional<Var> {
      const std::optional<Var> rows = compressor(x, memory);
      if (!rows) return std::nullopt;
      return rotate(split_heads(*rows, 1), memory, Rotation::forward, block);
    };
    return memory.keep_blocks(compressor.plan().rows(), block, compressor.plan().width, make);
  }

  // The pooled rows that the indexer picks.
  std::optional<Picks> pick(Var x, Var latent, Memory& memory) const {
    if (!index_compressor_) return Indexer::shared(memory);
    const Var q = rotate(indexer_->queries(latent), memory);
    const std::optional<Rows> keys = rows_of(*index_compressor_, x.tape->detached(x), memory);
    return indexer_->pick(x, q, keys, memory);
  }

  // Projects each group of heads: y [B, T, H, d] -> [B, T, groups, rank].
  Var grouped(Var y) const {
    if (!o_a_) return y;
    return head_linear(split_heads(merge_heads(y), o_groups_), o_a_->weight(*y.tape), 0, o_rank_,
                       Stored::transposed);
  }

  Index o_groups_, o_rank_;
  QueryProjection q_proj_;
  std::optional<Linear> kv_proj_;  // none in a layer that shares
  std::optional<Norm> kv_norm_;
  std::optional<Linear> o_a_;                   // none without an output projection
  std::optional<Compressor> compressor_;        // of hca and csa
  std::optional<Compressor> index_compressor_;  // of csa
  std::optional<Indexer> indexer_;              // of csa
};

}  // namespace

extern constinit const AttentionKind kV4 = attention_of<SharedRowAttention, V4Sizes>(
    {.name = "v4",
     .summary =
         "The local attention of DeepSeek-V4 keeps one row that is key and value of all "
         "heads: d numbers a token. Nothing is rebuilt: the rotated part of a sum is "
         "rotated back, and outputs are projected in groups. It is worth choosing in a window, as "
         "the cheapest layer beside those that read far: DeepSeek-V4 begins with two.",
     .formula =
         "softmax(qᵢ Kᵀ / √d) K, rotated back, with one normed and rotated row of K per token",
     .no_qk_norm = kNormedAnyway});
extern constinit const AttentionKind kHca = attention_of<SharedRowAttention, HcaSizes>(
    {.name = "hca",
     .summary = "Heavily compressed attention (DeepSeek-V4) keeps the rows of `v4` in a window and "
                "beyond it one for every m tokens: d / m numbers a token. Such a pooled row is a "
                "mean weighted for each channel, from which no token is rebuilt. It is worth "
                "choosing at contexts of a million tokens, for a rough view of all of it: in "
                "DeepSeek-V4 every other layer.",
     .formula = "v4 over the window's rows and one for every m tokens: C weighted by softmax(Z + "
                "B) over the m tokens, in each channel",
     .numbers = {"compress"},
     .needs_causal = true,
     .no_qk_norm = kNormedAnyway});
extern constinit const AttentionKind kCsa = attention_of<SharedRowAttention, CsaSizes>(
    {.name = "csa",
     .summary = "Compressed sparse attention (DeepSeek-V4) keeps the rows of `v4` in a window and "
                "beyond it, for every m tokens, a row pooled over two blocks and an indexer's key "
                "of width dᵢ: (d + dᵢ) / m numbers a token. Nothing is rebuilt: a token reads the "
                "k pooled rows that the indexer scores highest. It is worth choosing where "
                "something far back must be found, in turns with `hca`, whose m is larger.",
     .formula = "hca with small m, over the pooled rows with the greatest scores of an indexer",
     .numbers = {"compress", "index-topk"},
     .needs_causal = true,
     .no_qk_norm = kNormedAnyway,
     .notes = [](const AttentionPlan& c) {
       const auto s = c.read<CsaSizes>();
       return index_notes("csa", *s.index, c.max_positions / s.compress);
     }});

}  // namespace headcount
