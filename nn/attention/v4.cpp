#include "nn/attention/attention.h"
#include "nn/attention/compressor.h"
#include "nn/attention/indexer.h"

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

struct Own {
  Index q_rank = 0, rope_dim = 0, o_groups = 1, o_rank = 0;
  Index compress = 0;  // 0: no compressed rows
  // Of the indexer, in csa only.
  Index index_heads = 0, index_head_dim = 0, index_topk = 0;
  double index_loss = 1;

  bool picks() const { return index_topk > 0; }
};

constexpr auto kQRank = kQRankField<Own>.with({.derived = "half of dim"});
constexpr auto kRopeDim = kRopeDimField<Own>.with({.derived = "half of head-dim"});
constexpr Traits of_output(std::string_view words) {
  return {.derived = words, .only_where = OnlyWhere{"output-projection", "on", "projects nothing"}};
}
constexpr auto kOGroups =
    whole<&Own::o_groups>(
        "o-groups", "groups of heads whose outputs are projected apart before o_b_proj joins them",
        1)
        .with(of_output("2, or 1 if heads is odd"));
constexpr auto kORank =
    whole<&Own::o_rank>("o-rank", "width that each group of heads is projected to", 1)
        .with(of_output("dim / o-groups"));
constexpr auto kCompress = whole<&Own::compress>(
    "compress", "tokens that each compressed row of keys and values stands for", 1);
constexpr Field<Own> kFields[] = {kQRank, kRopeDim, kOGroups, kORank};
constexpr Field<Own> kHcaFields[] = {kQRank, kRopeDim, kOGroups, kORank,
                                     kCompress.with({.derived = "8"})};
constexpr Field<Own> kCsaFields[] = {kQRank,
                                     kRopeDim,
                                     kOGroups,
                                     kORank,
                                     kCompress.with({.derived = "4"}),
                                     kIndexHeads<Own>,
                                     kIndexHeadDim<Own>,
                                     kIndexTopk<Own>.with({.derived = "16"}),
                                     kIndexLoss<Own>};

QueryLatent query_latent(const AttentionPlan& c) {
  return {.rank = c.own<Own>().q_rank, .norm = "q_a_norm"};
}

CompressorPlan compressor_plan(const AttentionPlan& c) {
  const Own& own = c.own<Own>();
  return {.dim = c.dim,
          .width = c.head_dim,
          .block = own.compress,
          .over = own.picks() ? PoolOver::two_blocks : PoolOver::own_block};
}

CompressorPlan index_plan(const AttentionPlan& c) {
  CompressorPlan plan = compressor_plan(c);
  plan.weights += "indexer.";
  plan.kept = "indexer_";
  plan.width = c.own<Own>().index_head_dim;
  return plan;
}

IndexerPlan indexer_plan(const AttentionPlan& c) {
  const Own& own = c.own<Own>();
  return {.q_proj = "compressor.indexer.q_b_proj",
          .weights_proj = "compressor.indexer.scorer.weights_proj",
          .dim = c.dim,
          .q_rank = own.q_rank > 0 ? own.q_rank : c.dim,
          .heads = own.index_heads,
          .width = own.index_head_dim,
          .topk = own.index_topk,
          .tokens = own.compress,
          .loss = own.index_loss};
}

class SharedRowAttention : public Attention {
 public:
  SharedRowAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.own<Own>().rope_dim),
        q_proj_(weights, query_latent(c)),
        kv_proj_(weights.find<Linear>("kv_proj")),
        kv_norm_(weights.find<Norm>("kv_norm")),
        o_a_(weights.find<Linear>("o_a_proj")),
        compressor_(weights, compressor_plan(c)),
        index_compressor_(weights, index_plan(c)) {
    if (c.own<Own>().picks()) indexer_.emplace(weights, indexer_plan(c));
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
    o.stacked = true;  // all heads read the same rows
    std::optional<Picks> picks;
    if (plan().own<Own>().compress > 0) {
      require_setting(memory.key_mask().empty(),
                      "`compress` pools all tokens of a block; it has no key mask");
      const std::optional<Rows> rows = rows_of(compressor_, x, memory);
      if (rows) o.pooled = {.keys = *rows, .values = *rows, .tokens = compressor_.plan().block};
      if (indexer_) picks = pick(x, latent, memory, o.pooled);
      if (rows) o.pooled->keys = normalize_for_scores(*x.tape, {o.pooled->values}).front();
    }
    const Var y = attention(q, k, kv, o);
    if (picks) indexer_->learn(*picks, *o.pooled->selection, memory);
    return output(x, grouped(rotate_back(y, memory)));
  }

 private:
  // Rows of all blocks that are complete, if there are any.
  std::optional<Rows> rows_of(const Compressor& compressor, Var x, Memory& memory) const {
    const Index block = compressor.plan().block;
    return memory.keep_blocks(compressor.plan().rows(), block, [&]() -> std::optional<Var> {
      const std::optional<Var> rows = compressor(x, memory);
      if (!rows) return std::nullopt;
      return rotate_blocks(split_heads(*rows, 1), block, memory);
    });
  }

  // Lets queries read those of the pooled rows that the indexer picks.
  std::optional<Picks> pick(Var x, Var latent, Memory& memory,
                            std::optional<PooledRows>& pooled) const {
    const Var q = rotate(indexer_->queries(latent), memory);
    const std::optional<Rows> keys = rows_of(index_compressor_, x.tape->detached(x), memory);
    const std::optional<Picks> picks = indexer_->pick(x, q, keys, memory);
    if (picks) pooled->selection = indexer_->selection(*picks, memory);
    return picks;
  }

  // Projects each group of heads: y [B, T, H, d] -> [B, T, groups, rank].
  Var grouped(Var y) const {
    if (!o_a_) return y;
    const Own& own = plan().own<Own>();
    return head_linear(split_heads(merge_heads(y), own.o_groups), o_a_->weight(*y.tape), 0,
                       own.o_rank, Stored::transposed);
  }

  QueryProjection q_proj_;
  std::optional<Linear> kv_proj_;  // none in a layer that shares
  std::optional<Norm> kv_norm_;
  std::optional<Linear> o_a_;  // none without an output projection
  Compressor compressor_, index_compressor_;
  std::optional<Indexer> indexer_;  // of csa
};

void add_indexer(AttentionDescription& description, const AttentionPlan& c) {
  Compressor::declare(index_plan(c), description);
  Indexer::declare(indexer_plan(c), description.forms.front());
}

AttentionDescription describe_layer(const AttentionPlan& c) {
  const Own& own = c.own<Own>();
  using Role = Projection::Role;
  AttentionForm form = {
      .projections = QueryProjection::declare(c.dim, query_latent(c), c.heads * c.head_dim),
      .key_width = c.head_dim,
      .value_width = c.head_dim,
      .output = "o_b_proj"};
  form.projections.push_back(
      Projection{"kv_proj", c.dim, c.head_dim, Role::to_cache}.in_canon("kv"));
  form.projections.push_back(Projection::norm("kv_norm", c.head_dim, Role::to_cache));
  if (c.output_projection) {
    form.output_width = own.o_rank;
    form.output_heads = own.o_groups;
    // Its bias would be a part of that of o_b_proj.
    form.projections.push_back({.name = "o_a_proj",
                                .in = c.heads / own.o_groups * c.head_dim,
                                .out = own.o_groups * own.o_rank,
                                .biased = false});
  }
  AttentionDescription description = {.keeps = {{"kv", 1, c.head_dim}}, .forms = {std::move(form)}};
  if (own.compress > 0) Compressor::declare(compressor_plan(c), description);
  if (own.picks()) add_indexer(description, c);
  return description;
}

Own resolve(const AttentionPlan& c, const Given& given) {
  Own own = read_fields(kFields, given,
                        {.q_rank = std::max<Index>(1, c.dim / 2),
                         .rope_dim = half_of_head(c),
                         .o_groups = c.heads % 2 == 0 ? 2 : 1});
  require_rotary_part(c, own.rope_dim);
  require_divisor("o-groups", own.o_groups, "heads", c.heads);
  if (!given.has("o-rank")) own.o_rank = std::max<Index>(1, c.dim / own.o_groups);
  return own;
}

// Settings of a kind that compresses, with its own defaults.
Own resolve_compressing(const AttentionPlan& c, const Given& given, Index compress) {
  Own own = resolve(c, given);
  own.compress = given.get<Index>("compress", compress);
  require_setting(c.causal, c.kind().name,
                  " compresses tokens before the query and must be causal");
  return own;
}

Own resolve_csa(const AttentionPlan& c, const Given& given) {
  Own own = resolve_compressing(c, given, 4);
  set_index_defaults(c, 16, own);
  own = read_fields(kCsaFields, given, own);
  require_index_width(own.index_head_dim, own.rope_dim);
  return own;
}

std::vector<std::string> csa_notes(const AttentionPlan& c) {
  const Own& own = c.own<Own>();
  return index_notes(c.kind().name, own.index_loss, own.index_topk, c.max_positions / own.compress);
}

// Adds to `kind` what the kinds of this file have in common.
constexpr AttentionKind with_shared_row(AttentionKind kind) {
  kind.head_dim_factor = 2;
  kind.rotary_layout = RotaryLayout::interleaved;
  kind.describe = describe_layer;
  kind.make = make_layer<SharedRowAttention>;
  kind.no_qk_norm = "its queries and its row are normed without it";
  return kind;
}

}  // namespace

extern constinit const AttentionKind kV4 = with_shared_row(
    {.name = "v4",
     .summary =
         "one row per token is key and value of all heads (DeepSeek-V4, without its compressed "
         "rows); outputs are projected in `o-groups` groups",
     .own = own_fields<kFields>(),
     .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
       return resolve(c, given);
     }});
extern constinit const AttentionKind kHca = with_shared_row(
    {.name = "hca",
     .summary = "heavily compressed (DeepSeek-V4): v4 that also reads one pooled row for every "
                "`compress` tokens, beside a window",
     .numbers = {"compress"},
     .own = own_fields<kHcaFields>(),
     .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
       return resolve_compressing(c, given, 8);
     }});
extern constinit const AttentionKind kCsa = with_shared_row(
    {.name = "csa",
     .summary =
         "compressed sparse (DeepSeek-V4): hca with rows pooled over two blocks, of which an "
         "indexer picks `index-topk` for each token",
     .numbers = {"compress", "index-topk"},
     .own = own_fields<kCsaFields>(),
     .resolve = [](const AttentionPlan& c, const Given& given) -> std::any {
       return resolve_csa(c, given);
     },
     .notes = csa_notes});

}  // namespace headcount
