#include <algorithm>
#include <array>

#include "autograd/error.h"
#include "autograd/parallel.h"
#include "autograd/products.h"
#include "nn/attention/kinds.h"

/// Multi-head latent attention, DeepSeek-V2 (2024) and V3: keys and values of all heads are
/// expanded from one latent per token, and one rotary key per token is shared by all heads.
namespace headcount {

namespace {

class LatentAttention : public Attention {
 public:
  LatentAttention(ParameterStore& parameters, const std::string& prefix, const AttentionConfig& c,
                  const WeightInit& init)
      : config_(c),
        kv_a_(parameters, prefix + ".kv_a_proj_with_mqa", c.dim, c.kv_rank + c.rope_dim, c.bias,
              init.deviation),
        kv_b_(parameters, prefix + ".kv_b_proj", c.kv_rank, c.heads * (c.nope_dim + c.v_dim),
              c.bias, init.deviation) {
    const Index q_width = c.heads * (c.nope_dim + c.rope_dim);
    const auto add_norm = [&](std::optional<Norm>& norm, const std::string& name, Index width) {
      if (c.latent_norm) {
        norm.emplace(parameters, prefix + name, width, NormKind::rms, false, c.norm_epsilon);
      }
    };
    if (c.q_rank > 0) {
      q_a_.emplace(parameters, prefix + ".q_a_proj", c.dim, c.q_rank, c.bias, init.deviation);
      add_norm(q_norm_, ".q_a_layernorm", c.q_rank);
      q_.emplace(parameters, prefix + ".q_b_proj", c.q_rank, q_width, c.bias, init.deviation);
    } else {
      q_.emplace(parameters, prefix + ".q_proj", c.dim, q_width, c.bias, init.deviation);
    }
    add_norm(kv_norm_, ".kv_a_layernorm", c.kv_rank);
    if (c.output_projection) {
      o_proj_.emplace(parameters, prefix + ".o_proj", c.heads * c.v_dim, c.dim, c.bias,
                      init.residual_deviation);
    }
    if (c.rotary && c.rope_dim > 0) rotary_.emplace(c.rope_dim, c.positions, c.rope_theta);
  }

  Var forward(Var x, std::span<const std::uint8_t> key_mask) const override {
    const auto [latent, shared_key] = compress(x, 0);
    const auto [k, v] = expand(latent, shared_key);
    return output(attention(normalize_for_scores(queries(x, 0), config_.score_scale), k, v,
                            options(key_mask)));
  }

  KvCache make_cache(const CacheOptions& o) const override {
    KvCache cache;  // the normed latent and the rotated key in one row
    cache.tensors.emplace_back(o.sequences, 1, config_.kv_rank + config_.rope_dim, o.capacity,
                               o.type);
    cache.mla = o.mla;
    if (o.mla == MlaDecoding::absorbed && !can_absorb()) {
      throw ShapeError("--mla absorbed needs scores that are linear in the keys; --score-scale " +
                       config_.score_scale.text() + " is not, use --mla expanded");
    }
    return cache;
  }

  Var decode(Var x, KvCache& cache) const override {
    const auto [latent, shared_key] = compress(x, cache.length);
    cache.write(0, concat(split_heads(latent, 1), shared_key));
    const Var q = queries(x, cache.length);
    const bool one = x.shape()[1] == 1;
    const bool absorb = cache.mla == MlaDecoding::absorbed ||
                        (cache.mla == MlaDecoding::automatic && one && can_absorb());
    return output(absorb ? attend_absorbed(q, cache) : attend_expanded(q, cache));
  }

 private:
  struct Compressed {
    Var latent, shared_key;  // [B, T, kv_rank], [B, T, 1, rope_dim]
  };
  Compressed compress(Var x, Index first_position) const {
    const std::vector<Var> kv = split(kv_a_(x), std::array{config_.kv_rank, config_.rope_dim});
    return {normed(kv_norm_, kv[0]), turn(split_heads(kv[1], 1), first_position)};
  }

  // [B, T, heads, nope_dim + rope_dim]
  Var queries(Var x, Index first_position) const {
    const Var in = q_a_ ? normed(q_norm_, (*q_a_)(x)) : x;
    return turn(split_heads((*q_)(in), config_.heads), first_position);
  }

  struct Expanded {
    Var k, v;  // [B, T, heads, nope_dim + rope_dim], [B, T, heads, v_dim]
  };
  Expanded expand(Var latent, Var shared_key) const {
    const std::vector<Var> parts = split(split_heads(kv_b_(latent), config_.heads),
                                         std::array{config_.nope_dim, config_.v_dim});
    return {normalize_for_scores(concat(parts[0], shared_key), config_.score_scale), parts[1]};
  }

  Var attend_expanded(Var q, const KvCache& cache) const {
    const Shape shape = q.shape();
    const Index total = cache.length + shape[1];
    const Var rows = cache.read(0, *q.tape, shape[0], total);
    const std::vector<Var> parts = split(rows, std::array{config_.kv_rank, config_.rope_dim});
    const auto [k, v] = expand(merge_heads(parts[0]), parts[1]);
    return attention(normalize_for_scores(q, config_.score_scale), k, v, options({}));
  }

  // Scores and sums in latent space: with kv_b_proj = [W_UK; W_UV] for each head,
  //   q.k = (W_UK^T q_nope).c + q_rope.k_rope,  sum of p v = W_UV (sum of p c).
  // Its bias shifts all of a query's scores alike, which the softmax does not see, and adds to v.
  Var attend_absorbed(Var q, const KvCache& cache) const {
    const AttentionConfig& c = config_;
    Tape& tape = *q.tape;
    const Shape shape = q.shape();
    const Index rows = shape[0] * shape[1], heads = c.heads, row_width = c.kv_rank + c.rope_dim;
    const Index q_width = c.nope_dim + c.rope_dim, kv_width = c.nope_dim + c.v_dim;
    const Real* const w = kv_b_.weight(tape).value().data();
    const Var latent_q = tape.record(Op::attention, shape.with_last(row_width), {});
    const Real* const from = tape.value(q);
    Real* const to = tape.value(latent_q);
    parallel_chunks(heads, task_chunk(rows * c.nope_dim * c.kv_rank), [&](Index begin, Index end) {
      for (Index h = begin; h < end; ++h) {
        multiply(Matrix(to + h * row_width, rows, c.kv_rank, heads * row_width),
                 ConstMatrix(from + h * q_width, rows, c.nope_dim, heads * q_width),
                 ConstMatrix(w + h * kv_width * c.kv_rank, c.nope_dim, c.kv_rank));
        for (Index row = h; row < rows * heads; row += heads) {
          std::copy_n(from + row * q_width + c.nope_dim, c.rope_dim,
                      to + row * row_width + c.kv_rank);
        }
      }
    });
    const Var sums = attend_cached(latent_q, cache, 0, 0, c.kv_rank, options({}));
    const Var y = tape.record(Op::attention, shape.with_last(c.v_dim), {});
    const Real* const latent_sums = tape.value(sums);
    Real* const out = tape.value(y);
    parallel_chunks(heads, task_chunk(rows * c.v_dim * c.kv_rank), [&](Index begin, Index end) {
      for (Index h = begin; h < end; ++h) {
        multiply(Matrix(out + h * c.v_dim, rows, c.v_dim, heads * c.v_dim),
                 ConstMatrix(latent_sums + h * c.kv_rank, rows, c.kv_rank, heads * c.kv_rank),
                 ConstMatrix(w + (h * kv_width + c.nope_dim) * c.kv_rank, c.v_dim, c.kv_rank)
                     .transpose());
      }
    });
    const std::optional<Var> bias = kv_b_.bias(tape);
    if (!bias) return y;
    const Var v_bias = split(reshape(*bias, {heads, kv_width}), std::array{c.nope_dim, c.v_dim})[1];
    return add(y, v_bias);
  }

  // QK-norm divides by the norm of each head's own key, and a row's norm sees the bias.
  bool can_absorb() const {
    const ScoreScale::Kind kind = config_.score_scale.kind;
    return kind != ScoreScale::Kind::qk_norm &&
           (kind != ScoreScale::Kind::row_norm || !config_.bias);
  }

  AttentionOptions options(std::span<const std::uint8_t> key_mask) const {
    return attention_options(config_, config_.nope_dim + config_.rope_dim, key_mask);
  }
  static Var normed(const std::optional<Norm>& norm, Var x) { return norm ? (*norm)(x) : x; }
  Var turn(Var x, Index first_position) const {
    return rotary_ ? rotary(x, *rotary_, *config_.rotary_layout, first_position) : x;
  }
  Var output(Var heads) const {
    return o_proj_ ? (*o_proj_)(merge_heads(heads)) : merge_heads(heads);
  }

  AttentionConfig config_;
  std::optional<Linear> q_a_, q_;
  std::optional<Norm> q_norm_, kv_norm_;
  Linear kv_a_, kv_b_;
  std::optional<Linear> o_proj_;
  std::optional<RotaryTable> rotary_;
};

std::unique_ptr<Attention> make(ParameterStore& parameters, const std::string& prefix,
                                const AttentionConfig& config, const WeightInit& init) {
  return std::make_unique<LatentAttention>(parameters, prefix, config, init);
}

// The projections that both forms have: of the query as far as its latent, and of the keys.
AttentionCosts common_costs(const AttentionConfig& c) {
  AttentionCosts costs;
  if (c.q_rank > 0) costs.add_linear(c.dim, c.q_rank, c.bias);
  costs.add_linear(c.dim, Count(c.kv_rank) + c.rope_dim, c.bias);
  // The normed latent and the rotated key: no factor 2, k and v come from the same latent.
  costs.cache_elements_per_token = Count(c.kv_rank) + c.rope_dim;
  costs.cache_vectors_per_token = 1;
  return costs;
}

// As trained: k and v are expanded by kv_b_proj. Absorbed: kv_b_proj is multiplied into the query
// projection, W_Q', and the output projection, W_O'; queries and sums are kv_rank wide, and the
// latent itself is key and value of all heads. A bias of kv_b_proj becomes one of W_O', and the
// weights of the latents' norms can be multiplied in too and do not count. (`decode` leaves them
// where they are, so as to cache what DeepSeek's code caches.)
std::vector<AttentionCosts> costs(const AttentionConfig& c) {
  const Count q_in = c.q_rank > 0 ? c.q_rank : c.dim;
  AttentionCosts trained = common_costs(c);
  trained.name = kMla.name;
  if (c.latent_norm) trained.parameters += Count(c.q_rank) + c.kv_rank;
  trained.add_linear(q_in, Count(c.heads) * (Count(c.nope_dim) + c.rope_dim), c.bias);
  trained.add_linear(c.kv_rank, Count(c.heads) * (Count(c.nope_dim) + c.v_dim), c.bias);
  if (c.output_projection) trained.add_linear(Count(c.heads) * c.v_dim, c.dim, c.bias);
  trained.macs_per_pair = Count(c.heads) * (Count(c.nope_dim) + c.rope_dim + c.v_dim);
  trained.expansion_macs_per_key = Count(c.kv_rank) * c.heads * (Count(c.nope_dim) + c.v_dim);

  AttentionCosts absorbed = common_costs(c);
  absorbed.name = "mla-absorbed";
  absorbed.add_linear(q_in, Count(c.heads) * (Count(c.kv_rank) + c.rope_dim), c.bias);
  if (c.output_projection) absorbed.add_linear(Count(c.heads) * c.kv_rank, c.dim, c.bias);
  absorbed.macs_per_pair = Count(c.heads) * (Count(2) * c.kv_rank + c.rope_dim);
  return {trained, absorbed};
}

void resolve_mla(AttentionConfig& c) {
  const auto use_default = [](Index& setting, Index value) {
    if (setting == kUnset) setting = value;
  };
  if (!c.rotary_layout) c.rotary_layout = RotaryLayout::interleaved;
  use_default(c.nope_dim, c.head_dim);
  use_default(c.v_dim, c.head_dim);
  use_default(c.rope_dim, c.head_dim / 4 * 2);  // half of it, and even
  use_default(c.q_rank, 0);
  use_default(c.kv_rank, 2 * c.head_dim - c.rope_dim);
  require_setting(c.kv_rank > 0, "--kv-rank must be at least 1, is " + std::to_string(c.kv_rank));
  require_setting(!c.rotary || c.rope_dim % 2 == 0,
                  "--rope-dim must be even, is " + std::to_string(c.rope_dim));
}

constexpr std::array<std::string_view, 6> kSettings = {"kv-rank",  "rope-dim", "q-rank",
                                                       "nope-dim", "v-dim",    "latent-norm"};

}  // namespace

const AttentionKind kMla = {
    "mla",
    "multi-head latent (DeepSeek): a latent of --kv-rank and a rotary key of --rope-dim per token",
    kSettings,
    2,
    resolve_mla,
    make,
    costs};

}  // namespace headcount
