#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/ops.h"
#include "nn/attention/kv_cache.h"
#include "nn/count.h"
#include "nn/layers.h"

namespace headcount {

/// A setting that was not given and gets its default from the others.
inline constexpr Index kUnset = -1;

/// How scores q.k are scaled before the softmax.
struct ScoreScale {
  enum class Kind {
    inverse_sqrt,  ///< 1 / sqrt(width of q and k); Vaswani et al. (2017)
    none,          ///< 1
    qk_norm,       ///< q and k are normalised to unit length; Henry et al. (2020)
    row_norm,      ///< each row of q k^T is divided by its norm
    length,        ///< 1 / (sqrt(width) sqrt(number of keys seen))
    number,        ///< `value`
  };
  Kind kind = Kind::inverse_sqrt;
  double value = 1;

  /// "inv-sqrt", "none", "qk-norm", "row-norm", "length", or a positive number.
  /// Throws ShapeError otherwise.
  static ScoreScale parse(std::string_view text);
  std::string text() const;
  bool operator==(const ScoreScale&) const = default;
};

/// Everything that defines an attention layer. Widths are per head.
struct AttentionConfig {
  std::string kind = "mha";  ///< a name of `attention_kinds()`
  Index dim = 128;           ///< width of the model
  Index heads = 4;           ///< query heads
  Index head_dim = kUnset;   ///< default dim / heads

  Index kv_heads = kUnset;  ///< gqa: default heads / 2

  Index kv_rank = kUnset;   ///< mla: width of the latent; default 2 head_dim - rope_dim
  Index q_rank = kUnset;    ///< mla: width of the query latent; default 0, no query latent
  Index nope_dim = kUnset;  ///< mla: width of q and k without position; default head_dim
  Index rope_dim = kUnset;  ///< mla: width of q and k with position; default head_dim / 2
  Index v_dim = kUnset;     ///< mla: width of v; default head_dim
  bool latent_norm = true;  ///< mla: RMSNorm on the latents

  Index latent_dim = kUnset;  ///< latent-bias: width of z; default head_dim / 2

  bool rotary = true;  ///< rotary positions; otherwise none in attention
  /// Default: half for the GQA family, interleaved for MLA, as their models have it.
  std::optional<RotaryLayout> rotary_layout;
  double rope_theta = 10000;
  Index positions = 0;  ///< longest sequence, for the rotary table

  bool bias = false;
  bool output_projection = true;
  bool causal = true;
  Index window = 0;    ///< a token sees only the last `window`, itself included; 0: all
  double dropout = 0;  ///< of the attention weights
  ScoreScale score_scale;
  double norm_epsilon = 1e-6;  ///< of the latents' RMSNorm
};

/// An attention layer with its parameters.
class Attention {
 public:
  virtual ~Attention() = default;
  /// x [B, T, dim] -> [B, T, dim] (or [B, T, heads v_dim] without output projection).
  /// `key_mask` [B, T] has 1 where a token may be attended to; empty: everywhere.
  virtual Var forward(Var x, std::span<const std::uint8_t> key_mask) const = 0;

  /// An empty cache for this layer.
  virtual KvCache make_cache(const CacheOptions& options) const = 0;
  /// The same as `forward` for the next T tokens of each sequence, x [B, T, dim], of which `cache`
  /// holds what came before; writes them to it. The caller then adds T to `cache.length`. T > 1
  /// must not overwrite cached tokens: length + T <= capacity. On a tape without gradients.
  virtual Var decode(Var x, KvCache& cache) const = 0;
};

/// What one layer of an attention costs, counted from its configuration. Source of the formulas:
/// the sizes of the layer's matrices; tests hold them against the real parameters and products.
struct AttentionCosts {
  std::string_view name;         ///< the kind's, or "mla-absorbed"
  Count parameters;              ///< biases and norms included
  Count linear_macs_per_token;   ///< multiply-accumulates of the projections
  Count macs_per_pair;           ///< of q.k and p v, for one query and one key, all heads
  Count expansion_macs_per_key;  ///< in decoding: to get k and v back from what is cached
  Count cache_elements_per_token;
  Count cache_vectors_per_token;  ///< rows with a scale of their own in an int8 cache

  /// Counts a projection [out, in].
  void add_linear(Count in, Count out, bool bias);
};

/// One entry of the registry: what flag parsing, help, gradient checks and tables need to know
/// about an attention without building it.
struct AttentionKind {
  std::string_view name;
  std::string_view summary;                    ///< one line for help
  std::span<const std::string_view> settings;  ///< the flags that only some attentions have
  /// So many of `settings`, in order, can be given as numbers after the name: gqa2, mla48+16. The
  /// first is what sets the size of the cache.
  std::size_t spec_numbers;
  /// Fills in defaults. Throws ShapeError that names the flags which do not fit together.
  void (*resolve)(AttentionConfig& config);
  /// Adds the parameters under `prefix` and returns the layer. `config` is resolved.
  std::unique_ptr<Attention> (*make)(ParameterStore& parameters, const std::string& prefix,
                                     const AttentionConfig& config, const WeightInit& init);
  /// Costs of the layer as it is trained first, then of other forms it can be decoded in.
  /// `config` is resolved.
  std::vector<AttentionCosts> (*costs)(const AttentionConfig& config);
};

/// All attentions. To add one: a file in this folder and a line in registry.cpp.
std::span<const AttentionKind* const> attention_kinds();

/// Throws ShapeError that lists the known names.
const AttentionKind& attention_kind(std::string_view name);

/// Fills in `config`'s defaults: those that all kinds share, then the kind's own.
void resolve(AttentionConfig& config);

/// Numbers that decoding keeps for each token in one layer. `config` is resolved.
Index cache_elements_per_token(const AttentionConfig& config);

std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionConfig& config, const WeightInit& init);

// What the attentions share.

/// For kinds that rotate whole heads: the default layout, and an even width.
void resolve_rotary_heads(AttentionConfig& config);

/// Options of the fused op for a layer whose q and k have `width` elements per head.
AttentionOptions attention_options(const AttentionConfig& config, Index width,
                                   std::span<const std::uint8_t> key_mask);

/// x [B, T, heads width] as [B, T, heads, width].
Var split_heads(Var x, Index heads);
/// The other way round.
Var merge_heads(Var x);

/// q or k [B, T, heads, width] as the score scale wants it: to unit length for QK-norm.
Var normalize_for_scores(Var x, const ScoreScale& score_scale);

/// Throws ShapeError with `message` unless `condition`.
void require_setting(bool condition, const std::string& message);

}  // namespace headcount
