#include "nn/attention/attention.h"

/// Attention of DeepSeek-V4 (2026), as transformers has it. One row per token is key and value of
/// all heads:
///     row = rotated kv_norm(kv_proj x),  q_i = rotated unit(q_b_proj q_a_norm(q_a_proj x))_i
///     head i = softmax(q_i rows^T / sqrt(d)) rows, rotated back
/// `unit` divides each head by its root mean square. The heads are put into `o-groups` groups side
/// by side; each group passes through rows of its own of o_a_proj, and o_b_proj joins them.
/// `hca`, heavily compressed attention, reads besides one row for each block of m tokens that is
/// complete, in the same softmax. It is pooled over the block, each channel on its own:
///     row r = norm(sum over j of softmax over j(Z_j + B_j) C_j), rotated by its first position
/// with C and Z two projections of x and B a table of m rows. With a window, tokens of an open
/// block that have left the window are read by nobody until the block is complete. Parameters:
/// q_a_proj [rank, dim], q_a_norm [rank] and q_b_proj [H d, rank], or q_proj; kv_proj [d, dim],
/// kv_norm [d], o_a_proj [g r, H d / g], o_b_proj [dim, g r]; in hca compressor.kv_proj (C) and
/// compressor.gate_proj (Z) [d, dim], compressor.position_bias (B) [m, d] and compressor.kv_norm
/// [d].
namespace headcount {

namespace {

struct Own {
  Index q_rank = 0, rope_dim = 0, o_groups = 1, o_rank = 0;
  Index compress = 0;  // 0: no compressed rows
};

constexpr Traits kDerived = {.derived = true};
constexpr auto kQRank =
    whole<&Own::q_rank>(
        "q-rank",
        "width of the latent between x and the queries; 0: none; default mla 0, others half of dim",
        0)
        .with(kDerived);
constexpr auto kRopeDim =
    whole<&Own::rope_dim>(
        "rope-dim",
        "dimensions per head that RoPE rotates; default head-dim, gta, mla and v4 half of it", 0)
        .with(kDerived);
constexpr auto kOGroups =
    whole<&Own::o_groups>(
        "o-groups",
        "groups of heads whose outputs are projected apart before o_b_proj joins them; default 2, "
        "or 1 if heads is odd",
        1)
        .with(kDerived);
constexpr auto kORank =
    whole<&Own::o_rank>("o-rank",
                        "width that each group of heads is projected to; default dim / o-groups", 1)
        .with(kDerived);
constexpr auto kCompress = whole<&Own::compress>(
    "compress", "tokens that each compressed row of keys and values is pooled over", 1);

constexpr Field<Own> kFields[] = {kQRank, kRopeDim, kOGroups, kORank};
constexpr Field<Own> kHcaFields[] = {kQRank, kRopeDim, kOGroups, kORank, kCompress};

QueryLatent query_latent(const AttentionPlan& c) {
  return {.rank = c.own<Own>().q_rank, .norm = "q_a_norm"};
}

class SharedRowAttention : public Attention {
 public:
  SharedRowAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.own<Own>().rope_dim),
        q_proj_(weights, query_latent(c)),
        kv_proj_(weights.find<Linear>("kv_proj")),
        kv_norm_(weights.find<Norm>("kv_norm")),
        o_a_(weights.find<Linear>("o_a_proj")),
        compress_kv_(weights.find<Linear>("compressor.kv_proj")),
        compress_gate_(weights.find<Linear>("compressor.gate_proj")),
        compress_bias_(weights.find<ParameterId>("compressor.position_bias")),
        compress_norm_(weights.find<Norm>("compressor.kv_norm")) {}

  Var forward(Var x, Memory& memory) const override {
    const auto epsilon = static_cast<Real>(plan().norm_epsilon);
    const Var heads = split_heads(convolved("q", q_proj_(x), memory), plan().heads);
    const Var q = rotate(normalize_for_scores(rms_norm(heads, std::nullopt, epsilon)), memory);
    const Rows kv = memory.keep("kv", [&] {
      const Var row = (*kv_norm_)(convolved("kv", (*kv_proj_)(x), memory));
      return rotate(split_heads(row, 1), memory);
    });
    const std::vector<Rows> k = normalize_for_scores(*x.tape, {kv});
    AttentionOptions o = options(*x.tape, plan().head_dim, memory);
    if (const std::optional<Rows> rows = compressed(x, memory)) {
      o.pooled = {.keys = normalize_for_scores(*x.tape, {*rows}).front(),
                  .values = *rows,
                  .tokens = plan().own<Own>().compress};
    }
    return output(x, grouped(rotate_back(attention(q, k, kv, o), memory)));
  }

 private:
  // Rows of all blocks that are complete.
  std::optional<Rows> compressed(Var x, Memory& memory) const {
    const Index block = plan().own<Own>().compress;
    if (block == 0) return std::nullopt;
    require_setting(memory.key_mask().empty(),
                    "`compress` pools all tokens of a block; it has no key mask");
    return memory.keep_blocks("compressed", block, [&]() -> std::optional<Var> {
      OpenBlock open = {.x = memory.state("open_kv"), .gates = memory.state("open_gate")};
      if (memory.is_cached()) open.tokens = memory.first_position();
      const std::optional<Var> rows =
          pool_tokens((*compress_kv_)(x), (*compress_gate_)(x), x.tape->parameter(*compress_bias_),
                      PoolOver::own_block, open);
      if (!rows) return std::nullopt;
      return rotate_blocks(split_heads((*compress_norm_)(*rows), 1), block, memory);
    });
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
  std::optional<Linear> o_a_;                          // none without an output projection
  std::optional<Linear> compress_kv_, compress_gate_;  // none without compressed rows
  std::optional<ParameterId> compress_bias_;
  std::optional<Norm> compress_norm_;
};

// Adds the compressed rows, the tokens of an open block, and what makes them.
void add_compressor(AttentionDescription& description, const AttentionPlan& c) {
  const Index block = c.own<Own>().compress;
  using Role = Projection::Role;
  description.keeps.push_back(
      {.name = "compressed", .heads = 1, .width = c.head_dim, .block = block});
  for (const char* name : {"open_kv", "open_gate"})
    description.keeps.push_back({.name = name,
                                 .heads = block - 1,
                                 .width = c.head_dim,
                                 .per_sequence = true,
                                 .block = block});
  AttentionForm& form = description.forms.front();
  for (const char* name : {"compressor.kv_proj", "compressor.gate_proj"})
    form.projections.push_back({name, c.dim, c.head_dim, Role::to_cache});
  form.projections.push_back({.name = "compressor.position_bias",
                              .in = block,
                              .out = c.head_dim,
                              .role = Role::to_cache,
                              .form = Projection::Form::table,
                              .start = Initializer::zeros()});
  form.projections.push_back(Projection::norm("compressor.kv_norm", c.head_dim, Role::to_cache));
  form.macs_per_token = c.head_dim;  // to pool
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
  if (own.compress > 0) add_compressor(description, c);
  return description;
}

Own resolve(const AttentionPlan& c, const Given& given) {
  Own own = read_fields(kFields, given,
                        {.q_rank = std::max<Index>(1, c.dim / 2),
                         .rope_dim = c.head_dim / 4 * 2,  // half of a head, and even
                         .o_groups = c.heads % 2 == 0 ? 2 : 1});
  require_rotary_part(c, own.rope_dim);
  require_setting(c.heads % own.o_groups == 0, "`o-groups` ", own.o_groups,
                  " does not divide `heads` ", c.heads);
  if (!given.has("o-rank")) own.o_rank = std::max<Index>(1, c.dim / own.o_groups);
  return own;
}

// Adds to `kind` what the kinds of this file have in common.
constexpr AttentionKind with_shared_row(AttentionKind kind) {
  kind.head_dim_factor = 2;
  kind.rotary_layout = RotaryLayout::interleaved;
  kind.describe = describe_layer;
  kind.make = make_layer<SharedRowAttention>;
  kind.no_heads = "its one row is key and value of all heads";
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
       Own own = resolve(c, given);
       own.compress = read_fields(kHcaFields, given, {.compress = 8}).compress;
       require_setting(c.causal, "hca compresses tokens before the query and must be causal");
       return own;
     }});

}  // namespace headcount
