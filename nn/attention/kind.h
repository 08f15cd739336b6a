#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/count.h"
#include "nn/attention/memory.h"
#include "nn/attention/plan.h"

namespace headcount {

class Attention;
class LayerWeights;

/// One of the weights that a layer declares: a matrix, norm, vector or convolution.
struct Projection {
  enum class Form {
    matrix,       ///< `NAME.weight` [out, in], and `NAME.bias` [out] if the layer has biases
    norm,         ///< RMSNorm, `NAME.weight` [out]
    layer_norm,   ///< LayerNorm, `NAME.weight` and `NAME.bias` [out]
    vector,       ///< `NAME` [out]
    table,        ///< `NAME` [in, out], rows that are looked up and multiply nothing
    convolution,  ///< causal, one per channel, without bias: `NAME.weight` [out, 1, in]
    canon,        ///< a convolution that is added to its input: `NAME.weight` [out, 1, in]
  };
  enum class Role {
    of_token,  ///< computed once per token
    to_cache,  ///< makes cached rows and nothing else; a layer that shares has none
    of_cache,  ///< applied to cached rows; decoding repeats it for each cached token
  };
  std::string name;
  Index in = 0, out = 0;  ///< `in` is 0 for norms and vectors
  Role role = Role::of_token;
  Form form = Form::matrix;
  std::optional<Initializer> start = {};  ///< initial values of a vector or a table
  std::string convolved = {};       ///< part of Canon layer B that the outputs are, such as "q"
  std::optional<bool> biased = {};  ///< bias of a matrix; none: as the layer

  bool has_bias(bool layer) const { return biased.value_or(layer); }
  static Projection norm(std::string name, Index width, Role role = Role::of_token) {
    return {.name = std::move(name), .out = width, .role = role, .form = Form::norm};
  }
  static Projection convolution(std::string name, Index channels, Index taps) {
    return {.name = std::move(name), .in = taps, .out = channels, .form = Form::convolution};
  }
  /// This projection, with outputs that are a part of Canon layer B: the layer's `forward` passes
  /// them through `Attention::convolved`.
  Projection in_canon(std::string part) const {
    Projection projection = *this;
    projection.convolved = std::move(part);
    return projection;
  }
  static Projection vector(std::string name, Index size, const Initializer& start) {
    return {.name = std::move(name), .out = size, .form = Form::vector, .start = start};
  }
};

/// How a layer makes queries: by q_proj, or with a latent by q_a_proj, an RMSNorm, a factor and
/// q_b_proj.
struct QueryLatent {
  Index rank = 0;  ///< width of the latent; 0: none
  bool normed = true;
  double factor = 1;
  std::string_view norm = "q_a_layernorm";  ///< name of its norm
};

/// Names of the norms of `qk-norm`: of queries, of keys, and of a rotary key that all heads share.
inline constexpr const char *kQNorm = "q_norm", *kKNorm = "k_norm", *kRopeKeyNorm = "k_rope_norm";

/// Name of the form that rebuilds keys and values of all heads from the cache.
inline constexpr std::string_view kExpanded = "expanded";

/// One way to compute a layer. All forms of a layer give the same numbers at different costs.
struct AttentionForm {
  std::string name = "";  ///< empty if the layer has one form only
  /// All weights except gate_proj, sinks, canonB and the output projection, which `describe` adds.
  std::vector<Projection> projections = {};
  Index key_width = 0, value_width = 0;    ///< per head, as scores and weighted sums see them
  std::optional<Index> output_width = {};  ///< of a head's output; default `value_width`
  std::optional<Index> output_heads = {};  ///< default: the layer's `heads`
  Count macs_per_token = 0;                ///< multiply-accumulates besides projections
  Count macs_to_cache = 0;                 ///< besides projections, to make cached rows
  Count macs_per_kept = 0;                 ///< besides projections, to rebuild a cached token
  Index block = 0;                         ///< tokens that a pooled row stands for; 0: none
  Count index_macs_per_pair = 0;           ///< of an indexer, to score one row for one query
  /// Rows that a query reads, pooled ones if the layer has any; none: all.
  std::optional<Index> picks = {};
  std::string output = "o_proj";  ///< name of the output projection
  /// Of a recurrent layer: multiply-accumulates per token to read and update its states; replaces
  /// costs of pairs.
  std::optional<Count> state_macs = {};

  Index head_output() const { return output_width.value_or(value_width); }
  Index heads_of_output(Index heads) const { return output_heads.value_or(heads); }
};

/// Cache and weights of a layer, known from its plan alone.
struct AttentionDescription {
  std::vector<Kept> keeps;  ///< parts of the cache
  /// Forms of the layer: first the one that training uses, last the one that decoding chooses.
  std::vector<AttentionForm> forms;
  /// Forms that appear in cost tables and are not implemented.
  std::vector<AttentionForm> counted_forms = {};
};

/// Declaration of an attention, in its one file. Flags, help, specs, config.json, caches, costs,
/// gradient checks and comparisons follow from it.
struct AttentionKind {
  std::string_view name;
  std::string_view summary;  ///< one line for help
  /// Hugging Face's `model_type` of models with this layer, such as "llama"; empty: none.
  std::string_view architecture = {};
  /// Settings that a spec gives as numbers after the name: gqa2, mla48+16. The first one sets the
  /// size of the cache.
  std::array<std::string_view, 2> numbers = {};
  /// False for a recurrent state, which has no softmax over tokens: no score scale, dropout of
  /// weights, window or key mask.
  bool attends = true;
  bool rotates = true;  ///< false if the layer has no rotary positions
  /// True if the layer keeps the values of its heads as "v", made by `Attention::mixed_values`.
  bool mixes_values = false;
  /// Reason why the layer declares no norms of `qk-norm` (see declare_qk_norm), for errors; empty:
  /// it declares them.
  std::string_view no_qk_norm = "its layer has no such norms";
  double norm_epsilon = 1e-6;  ///< of its norms
  /// Rows of the settings that not all kinds have, or that have other defaults here. Rules of
  /// defaults may read `dim`, too.
  SettingList (*settings)() = [] { return SettingList(); };
  /// Throws ShapeError that names settings which do not fit together. Null: all fit.
  void (*check)(const AttentionPlan& plan) = nullptr;
  AttentionDescription (*describe)(const AttentionPlan& plan) = nullptr;
  /// Sentences that a user with these settings should know, for `attention_notes`. Null: none.
  std::vector<std::string> (*notes)(const AttentionPlan& plan) = nullptr;
  std::unique_ptr<Attention> (*make)(const AttentionPlan& plan,
                                     const LayerWeights& weights) = nullptr;
};

/// All attentions, in the order of help and tables.
std::span<const AttentionKind* const> attention_kinds();
/// Adds a kind, which must live as long as the program. Call it before `attention_settings` is
/// first called, best before main. Throws ShapeError if the name is taken.
void register_attention(const AttentionKind& kind);
/// Kind of that name. Throws ShapeError that lists the known names.
const AttentionKind& attention_kind(std::string_view name);
/// Settings of attentions: first the common ones, then those of single kinds, marked with the kinds
/// that they apply to.
const SettingList& attention_settings();

/// Plan of a layer, with defaults for what is not given. Throws ShapeError that names settings
/// which do not fit together.
AttentionPlan resolve_attention(const AttentionKind& kind, const Given& given,
                                const LayerPlace& place);

/// Cache and weights of the planned layer. Throws ShapeError for a layer that shares if its kind
/// marks no projections with Role::to_cache.
AttentionDescription describe(const AttentionPlan& plan);

/// Costs of one layer, counted from its description. Tests compare them with the parameters and
/// matrix products of real layers.
struct AttentionCosts {
  std::string name;             ///< the kind; forms after the first add their own: "mla-absorbed"
  bool computed = true;         ///< false for `counted_forms`
  Count parameters;             ///< biases and norms included
  Count linear_macs_per_token;  ///< multiply-accumulates of projections and of factors
  Count macs_per_pair;          ///< of q.k and p v for one query and one key, all heads
  Count index_macs_per_pair;    ///< to score a row for a query, if rows are picked
  /// Rows that a query reads at most, pooled ones if the layer has any; none: all.
  std::optional<Index> picks;
  std::optional<Count> state_macs;  ///< per token, of a recurrent layer; replaces `macs_per_pair`
  Count expansion_macs_per_key;     ///< in decoding, to rebuild k and v of one cached token
  Count cache_elements_per_token;
  Count exact_elements_per_token;  ///< those of them that a cache of any type stores as Real
  Count cache_rows_per_token;      ///< of the others; an int8 cache stores one scale for each
  Index block = 0;                 ///< tokens that a pooled row stands for; 0: no row is pooled
  Count cache_elements_per_block;
  Count cache_rows_per_block;
  Count state_elements;       ///< per sequence; stored as Real in a cache of any type
  Count open_block_elements;  ///< those of them that are for the row of an open block

  bool pools() const { return block > 0; }
  /// Pooled rows of `context` tokens.
  Count blocks(Count context) const { return pools() ? context.value() / block : 0; }
  /// Tokens that one token reads while decoding, of the `held` ones that it sees.
  Count tokens_read(Count held) const;
  /// Multiply-accumulates of scores and sums, or of the state, for a context whose tokens see
  /// `held` tokens each, themselves included, and all pooled rows; those not picked are masked.
  Count prefill_macs(Count context, Count held) const;
  /// Multiply-accumulates of scores and sums, or of the state, for one token that sees `held`
  /// tokens, itself included, and the pooled rows of `context`, of which it reads those that it
  /// picks.
  Count decode_macs(Count held, Count context) const;

 private:
  Count index_macs(Count held, Count context) const;  // of one query
};

/// Costs of each form, `counted_forms` last.
std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan);
/// Costs of `description` with the heads and biases of `plan`.
std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan,
                                            const AttentionDescription& description);

/// Size of one layer's cache for one sequence.
struct KeptNumbers {
  Count elements;
  Count rows;    ///< an int8 cache stores one scale for each
  Count states;  ///< further elements, stored as Real in a cache of any type: states, exact rows
};
/// Size of the cache after `context` tokens; with a window, at most that of the window's tokens.
KeptNumbers kept_numbers(const AttentionPlan& plan, Index context);

/// Sentences about a layer whose rows stand for blocks of tokens: what it keeps of them, and a
/// warning if the context ends before a block does or if tokens leave the window before a row
/// stands for them; and those of its kind.
std::vector<std::string> attention_notes(const AttentionPlan& plan);

/// Values per token that `value-residual` mixes, or null.
const Kept* find_values(const AttentionPlan& plan, const AttentionDescription& description);

/// Widths of the norms of `qk-norm`: that of a head, for weights that all heads share (Qwen3), or
/// of all heads side by side, for weights of each head. 0: no such norm.
struct QkNorms {
  Index q, k;
  Index rope_key = 0;  ///< of a rotary key that all heads share
  Projection::Role of_k = Projection::Role::to_cache;
};
/// Adds q_norm, k_norm and k_rope_norm to `form` if the plan has `qk-norm`.
void declare_qk_norm(const AttentionPlan& plan, AttentionForm& form, const QkNorms& widths);

// Checks and defaults for kinds. They throw ShapeError.

/// Requires an even `head-dim` if positions are rotary.
void require_rotary_heads(const AttentionPlan& layer);
/// Requires `rope_dim` to fit into a head, and to be even if positions are rotary.
void require_rotary_part(const AttentionPlan& layer, Index rope_dim);
/// Requires that `kv-heads` divides `heads`.
void require_kv_heads(const AttentionPlan& layer);
/// Requires that `count`, the value of the setting `name`, divides `whole`, that of `whole_name`.
void require_divisor(std::string_view name, Index count, std::string_view whole_name, Index whole);

// Settings that several kinds have.

/// The row of `kv-heads`, `q-rank`, `rope-dim` or a setting of all kinds with the default that it
/// has for one kind.
Setting shared_setting(std::string_view name, Default standard);

/// 2 dim / heads, for `head-dim`.
Default twice_the_width();
/// heads / 2, for `kv-heads`.
Default half_of_heads();
/// Half of a head, rounded down to an even number, for `rope-dim` of kinds that rotate a part.
inline Index half_of_head(const LayerSettings& layer) { return layer.head_dim / 4 * 2; }
Default half_of_head();
/// dim / 2, for `q-rank`.
Default half_of_dim();

}  // namespace headcount
