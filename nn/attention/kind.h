#pragma once

#include <any>
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
class LayerMatrices;
class LayerWeights;
struct AttentionHeads;
struct ConversionOptions;
struct MadeLayer;

/// Weights of a layer.
struct Projection {
  enum class Form {
    matrix,       ///< `NAME.weight` [out, in], and `NAME.bias` [out] if the layer has biases
    norm,         ///< an RMSNorm: `NAME.weight` [out]
    vector,       ///< `NAME` [out]
    convolution,  ///< causal, of each channel on its own, without bias: `NAME.weight` [out, 1, in]
  };
  std::string name;
  Index in, out;  ///< in = 0: a norm or a vector
  /// Applied to what is kept, not to what a token brings: decoding repeats it for each cached
  /// token.
  bool of_kept = false;
  /// Makes what is kept, and nothing else: a layer that reads what another one kept has none.
  bool keeps = false;
  Form form = Form::matrix;
  std::optional<Initializer> start = {};  ///< of a vector

  static Projection norm(std::string name, Index width, bool keeps = false) {
    return {std::move(name), 0, width, false, keeps, Form::norm};
  }
  static Projection convolution(std::string name, Index channels, Index taps) {
    return {std::move(name), taps, channels, false, false, Form::convolution};
  }
  static Projection vector(std::string name, Index size, const Initializer& start) {
    return {std::move(name), 0, size, false, false, Form::vector, start};
  }
  static Projection keeping(std::string name, Index in, Index out) {
    return {std::move(name), in, out, false, true};
  }
};

/// Multiply-accumulates of a state that takes in one token after the other, for all heads.
struct StateCosts {
  Count per_token;  ///< to read the state and to change it
  /// Several tokens at once are computed in chunks of so many, with work for each pair of a chunk's
  /// tokens besides.
  Index chunk;
  Count per_pair;
};

/// The form in which keys and values of heads are made of all that is kept.
inline constexpr std::string_view kExpanded = "expanded";

/// One way to compute a layer. All forms give the same numbers; they cost differently.
struct AttentionForm {
  std::string name;                     ///< "" where there is one form only
  std::vector<Projection> projections;  ///< but for gate_proj and the output's, which any may have
  Index key_width, value_width;         ///< of a head, as scores and sums see them
  std::optional<Index> output_width = {};  ///< of a head's output, if it is not value_width
  std::optional<Index> output_heads = {};  ///< heads of the output, if they are not `heads`
  /// Multiply-accumulates of products that no matrix of the layer is in: of what a token brings,
  /// and of what is kept of it, which decoding repeats for each cached token.
  Count macs_per_token = 0, macs_per_kept = 0;
  std::string output = "o_proj";         ///< the name of the output's projection
  std::optional<StateCosts> state = {};  ///< for a state: instead of what pairs of tokens cost

  Index head_output() const { return output_width.value_or(value_width); }
  Index heads_of_output(Index heads) const { return output_heads.value_or(heads); }
};

/// What follows from a plan, without building the layer.
struct AttentionDescription {
  std::vector<Kept> keeps;  ///< of each token, or of each sequence
  /// As it is trained first, then others it can decode in, last the one that decoding chooses.
  std::vector<AttentionForm> forms;
  /// Forms that nothing here computes: they are only counted.
  std::vector<AttentionForm> counted_forms = {};
};

/// What a kind of attention declares, in its one file. Flags, help, specs, config.json, caches,
/// costs, gradient checks and comparisons follow from it.
struct AttentionKind {
  std::string_view name;
  std::string_view summary;  ///< one line for help
  /// The published architecture whose layer it is, as Hugging Face's `model_type` names it:
  /// "llama", "deepseek_v3"; empty: none.
  std::string_view architecture = {};
  /// The default of `head-dim` is so many times dim / heads.
  Index head_dim_factor = 1;
  /// The settings that can be given as numbers after the name: gqa2, mla48+16. The first is what
  /// sets the size of the cache.
  std::array<std::string_view, 2> numbers = {};
  /// Whether a query sees the tokens before it one by one, through a softmax. A state does not: it
  /// has no scores to scale, no weights to drop, no window, no key masks and no positions to
  /// rotate.
  bool attends = true;
  RotaryLayout rotary_layout = RotaryLayout::half;  ///< the default
  OwnFields own = {};                               ///< its own settings
  /// Its own settings, with defaults for what is not given; `layer` has the others. Throws
  /// ShapeError that names the settings which do not fit together.
  std::any (*resolve)(const AttentionPlan& layer, const Given& given) = nullptr;
  AttentionDescription (*describe)(const AttentionPlan& plan) = nullptr;
  std::unique_ptr<Attention> (*make)(const AttentionPlan& plan,
                                     const LayerWeights& weights) = nullptr;

  // To convert a trained layer of one kind to another: see heads.h. They throw ShapeError
  // that says why a layer of such settings cannot be. A weight that `to_heads` does not read, or
  // `of_heads` does not make, is refused; so is a layer in which a setting that conversions do not
  // know is not at its default.

  /// A layer written out as heads; of one that shares, queries and output.
  AttentionHeads (*to_heads)(const AttentionPlan& plan, const LayerMatrices& weights) = nullptr;
  /// What a layer is made of that does what these heads do, as nearly as it can.
  MadeLayer (*of_heads)(const AttentionPlan& plan, const AttentionHeads& heads,
                        const ConversionOptions& options) = nullptr;
  /// Gives settings that are open what suits the heads of all layers; `layer` has those that all
  /// kinds have. Null: there are none, and no options either.
  void (*fit)(const LayerSettings& layer, const LayerPlace& place, Given& given,
              std::span<const AttentionHeads> layers, const ConversionOptions& options) = nullptr;
  /// Why it has none of these.
  std::string_view no_heads = "its file does not say how";
};

/// All attentions, in the order of help and tables.
std::span<const AttentionKind* const> attention_kinds();
/// Adds a kind, which must live as long as the program, before `attention_settings` is first
/// called: best before main. Throws ShapeError if the name is taken.
void register_attention(const AttentionKind& kind);
/// Throws ShapeError that lists the known names.
const AttentionKind& attention_kind(std::string_view name);
/// The settings of attentions: those that all have, and those of all kinds, each marked with the
/// kinds that it is for.
const SettingList& attention_settings();

/// The settings that all kinds have, with defaults for what is not given. Throws ShapeError.
LayerSettings resolve_layer(const AttentionKind& kind, const Given& given, const LayerPlace& place);
/// The attention of a layer, with defaults for what is not given: those that all kinds share, then
/// the kind's own. Throws ShapeError that names the settings which do not fit together.
AttentionPlan resolve_attention(const AttentionKind& kind, const Given& given,
                                const LayerPlace& place);

/// The description of a plan. Throws ShapeError for one that `shares` where no projection is marked
/// as one that makes what is kept.
AttentionDescription describe(const AttentionPlan& plan);

/// What one layer of an attention costs, counted from its description; tests hold it against the
/// parameters and the products of real layers.
struct AttentionCosts {
  std::string name;             ///< the kind's, for a second form with its name: "mla-absorbed"
  bool computed = true;         ///< false: of one of the `counted_forms`
  Count parameters;             ///< biases and norms included
  Count linear_macs_per_token;  ///< multiply-accumulates of projections, and of a token's factors
  Count macs_per_pair;          ///< of q.k and p v, for one query and one key, all heads
  std::optional<StateCosts> state;  ///< instead of that
  Count expansion_macs_per_key;     ///< in decoding: to get k and v back from what is cached
  Count cache_elements_per_token;
  Count cache_rows_per_token;  ///< with a scale of their own in an int8 cache
  Count state_elements;        ///< kept of each sequence, as Real whatever the cache's type

  /// Of scores and sums, or of the state, over a whole context in which a token sees `held` others;
  /// and for one more token.
  Count prefill_macs(Count context, Count held) const;
  Count decode_macs(Count held) const;
};

/// One for each form, those that are only counted last.
std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan);
/// Those of a layer with the heads and biases of `plan` and this description.
std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan,
                                            const AttentionDescription& description);

/// What one layer keeps of one sequence.
struct KeptNumbers {
  Count elements;
  Count rows;    ///< with a scale of their own in an int8 cache
  Count states;  ///< elements that are stored as Real whatever the cache's type
};
/// Of so many tokens; a window holds no more than its own.
KeptNumbers kept_numbers(const AttentionPlan& plan, Index context);

// For kinds.

/// For kinds that rotate whole heads: an even width.
void require_rotary_heads(const AttentionPlan& layer);
/// For kinds that rotate the last `rope_dim` of a head's width: an even part.
void require_rotary_part(const AttentionPlan& layer, Index rope_dim);
/// For kinds whose query heads share key/value heads: by default half as many, which must divide
/// theirs.
Index resolved_kv_heads(const AttentionPlan& layer, const Given& given);

}  // namespace headcount
