#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/parameters.h"
#include "nn/attention/double_matrix.h"
#include "nn/attention/kind.h"

/// A layer written out as heads: the form in which a layer of one kind becomes one of another kind.
namespace headcount {

/// H query heads with matrices of their own, whatever the layer shares or compresses: q_i = Q_i z,
/// k_i = K_i z, v_i = V_i z, and the output is O [o_1; ...; o_H]. z is the layer's input after the
/// norm before the layer, without that norm's weights, which are in the matrices: the elements of z
/// have about equal variance. With biases, matrices have one more column, as if z ended with a one.
struct AttentionHeads {
  Index dim = 0, heads = 0, key_width = 0, value_width = 0;
  DoubleMatrix q = {};          ///< [heads key_width, dim]
  DoubleMatrix k = {}, v = {};  ///< like q; empty in a layer that shares keys and values
  DoubleMatrix o = {};          ///< [dim, heads value_width]; empty without output projection
  /// The n RoPE frequencies in radians per token. RoPE rotates the last 2 n rows of each head's q
  /// and k: row j is paired with row j + n.
  std::vector<double> frequencies = {};

  Index rotated() const { return 2 * std::ssize(frequencies); }
};

/// Root mean square change of keys and values relative to their length, for independent z of equal
/// variance. Rotated keys are compared over the given number of positions.
struct HeadErrors {
  double keys = 0, values = 0;
};
HeadErrors head_errors(const AttentionHeads& before, const AttentionHeads& after, Index positions);

/// Name of a projection: "q_proj" for "q_proj.weight" and "q_proj.bias". A name without a dot, that
/// of a vector, is returned as it is.
std::string module_of(const std::string& weight);

/// Matrices of one layer of a model, by the names of its projections.
class LayerMatrices {
 public:
  /// Reads the projections under `prefix`, which follow the norm named `norm`.
  LayerMatrices(const ParameterStore& parameters, const std::string& prefix,
                const std::string& norm);

  /// Matrix [out, in] of a projection, with its bias as one more column. Throws ShapeError if the
  /// layer has no projection of that name.
  const DoubleMatrix& get(const std::string& name) const;
  /// Names of weights, including vectors, that `get` and `of_z` have not read yet.
  std::vector<std::string> unread() const;
  /// Matrix of a projection of the norm's output, converted to a matrix of z (see AttentionHeads).
  /// Throws ShapeError as `get` does.
  DoubleMatrix of_z(const std::string& name) const;
  /// Inverse of `of_z`; zero where the norm's weight is zero.
  DoubleMatrix undone(DoubleMatrix matrix) const;

 private:
  std::map<std::string, DoubleMatrix> all_;
  mutable std::set<std::string> unread_;
  std::vector<double> scale_, shift_;  // of the norm; shift is empty for RMSNorm
};

/// Weights of a converted layer, by the names of its projections.
struct MadeLayer {
  std::map<std::string, DoubleMatrix> of_z = {};    ///< projections of the norm's output
  std::map<std::string, DoubleMatrix> others = {};  ///< other weights; norms as one column
  AttentionHeads heads;  ///< the source's heads with the new layer's keys, values and frequencies
};

/// Choice of RoPE pairs of the heads for a narrower rotary part. The part has frequencies of its
/// own; each of its pairs is chosen among the heads' pairs of similar frequency.
enum class RotaryPairs {
  even,  ///< evenly spaced: frequencies stay where the new width divides the old one
  norm,  ///< the pair with the largest queries and keys
};

struct ConversionOptions {
  RotaryPairs rotary_pairs = RotaryPairs::even;
  /// Share of a matrix's sum of squares that its approximation through a latent keeps: latents get
  /// the least width that suffices in every layer.
  std::optional<double> energy = {};
};

// Helpers for the conversions of single kinds.

/// RoPE frequencies of a rotary part of that width, in radians per token; empty without RoPE.
std::vector<double> rotary_frequencies(const AttentionPlan& plan, Index width);

/// Rows of a head's q and k, divided into a rotary part and the others.
struct RotaryRows {
  std::vector<Index> pairs;    ///< chosen among the heads' RoPE pairs
  std::vector<Index> rotated;  ///< rows of these pairs: all first ones, then all second ones
  std::vector<Index> others;
};
/// Chooses rows for a rotary part of `width` dimensions. Throws ShapeError if the heads rotate
/// fewer dimensions.
RotaryRows rows_for_rotary_part(const AttentionHeads& heads, Index width, RotaryPairs which);
/// Replaces the keys of `heads` and the frequencies of the rotary part. `keys` [heads key_width,
/// dim] has, for each head, the rows `rows.others` and then the rows `rows.rotated`.
void replace_keys(AttentionHeads& heads, const RotaryRows& rows, const DoubleMatrix& keys,
                  const std::vector<double>& frequencies);

/// Reorders the last `rotated` rows of each block of `width` rows from the plan's RoPE layout to
/// that of AttentionHeads, where row j is paired with row j + rotated / 2.
DoubleMatrix to_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                       const AttentionPlan& plan);
/// Inverse of `to_halves`.
DoubleMatrix from_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                         const AttentionPlan& plan);

/// Matrix of the map `outer` after `inner`. Each matrix that has more columns than inputs has a
/// bias as its last column.
DoubleMatrix composed(const DoubleMatrix& outer, const DoubleMatrix& inner);

/// Best approximation of a matrix of z by `up` (factor c) with a latent c = `down` z. Elements of c
/// are about as large as those of z, so that a norm changes c as little as possible.
struct LatentMatrices {
  DoubleMatrix down, up, whole;  ///< `up` has the biases; `whole` is the product
};
/// Approximates `matrix` through a latent of width `rank`. Throws ShapeError that names `setting`
/// if the rank is more than `dim`.
LatentMatrices through_latent(const DoubleMatrix& matrix, Index rank, Index dim,
                              const std::string& setting, double factor = 1);
/// Weights of a norm that scales nothing: ones [width, 1].
DoubleMatrix norm_of_ones(Index width);

/// Queries of a layer as one matrix of z. Throws ShapeError for a latent with a norm.
DoubleMatrix queries(const LayerMatrices& weights, const QueryLatent& latent);
/// Adds the projections that compute the queries `q`.
void make_queries(MadeLayer& made, const DoubleMatrix& q, const QueryLatent& latent);
/// Factor for queries that leaves scores unchanged when the width of keys changes from `from` to
/// `to`.
double score_factor(const AttentionPlan& plan, Index from, Index to);

/// Throws ShapeError that names `what` unless its width in the converted layer, `here`, equals its
/// width in the source layer, `there`.
void require_width(const std::string& what, Index here, Index there);

}  // namespace headcount
