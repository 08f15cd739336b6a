#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/parameters.h"
#include "nn/attention/double_matrix.h"
#include "nn/attention/plan.h"

/// A layer of attention written out as heads: the form in which a layer of one kind becomes one of
/// another kind.

namespace headcount {

/// H query heads, each with matrices of its own, whatever the layer shares or compresses: q_i = Q_i
/// z, k_i = K_i z, v_i = V_i z, and the output is O [o_1; ...; o_H]. Here z is what the norm before
/// the layer makes of its input before it applies its weights, which are in the matrices: all
/// numbers of z are about equally large. Where there are biases, matrices have one more column, as
/// if z ended with a one.
struct AttentionHeads {
  Index dim = 0, heads = 0, key_width = 0, value_width = 0;
  DoubleMatrix q = {};
  DoubleMatrix k = {}, v = {};  ///< [heads width, dim] as q; nothing in a layer that shares
  DoubleMatrix o = {};          ///< [dim, heads value_width]; nothing without output projection
  /// The last rows of each q and k, two for each of these numbers, are rotated: row j with row j +
  /// size, by so many radians a token.
  std::vector<double> speeds = {};

  Index rotated() const { return 2 * std::ssize(speeds); }
};

/// How far keys and values have moved, relative to their length, if the numbers of z are
/// independent and equally large; keys as they are rotated, over so many positions.
struct HeadErrors {
  double keys = 0, values = 0;
};
HeadErrors head_errors(const AttentionHeads& before, const AttentionHeads& after, Index positions);

/// "q_proj" of "q_proj.weight" and "q_proj.bias"; a vector's name is the whole.
std::string module_of(const std::string& weight);

/// The matrices of one layer of a model, by the names of its projections.
class LayerMatrices {
 public:
  /// Of the projections under `prefix`, which follow the norm `norm`.
  LayerMatrices(const ParameterStore& parameters, const std::string& prefix,
                const std::string& norm);

  /// [out, in], with the bias as one more column. Throws ShapeError if the layer has none.
  const DoubleMatrix& get(const std::string& name) const;
  /// Names of the layer's weights, vectors too, that were not asked for.
  std::vector<std::string> unread() const;
  /// The same for one that the norm's output goes into, as AttentionHeads has it.
  DoubleMatrix of_z(const std::string& name) const;
  /// What `get` gives where `of_z` gives `matrix`. Where the norm's weight is zero, so is it.
  DoubleMatrix undone(DoubleMatrix matrix) const;

 private:
  std::map<std::string, DoubleMatrix> all_;
  mutable std::set<std::string> unread_;
  std::vector<double> scale_, shift_;  // of the norm; no shift: empty
};

/// What a layer is made of, by the names of its projections.
struct MadeLayer {
  std::map<std::string, DoubleMatrix> of_z;    ///< that the norm's output goes into
  std::map<std::string, DoubleMatrix> others;  ///< norms too, as one column
  /// The heads that it was made of, with keys, values and speeds as they have become.
  AttentionHeads heads;
};

/// Which rotary pairs of the heads become those of a narrower rotary part. A part of that width
/// rotates at speeds of its own; each of its pairs is chosen from the heads' pairs of about that
/// speed.
enum class RotaryPairs {
  even,  ///< evenly spaced: their speeds are the same where the width divides that of the heads
  norm,  ///< the ones whose queries and keys are largest
};

struct ConversionOptions {
  RotaryPairs rotary_pairs = RotaryPairs::even;
  /// Latents get the least width that keeps this share of the sum of squares in every layer.
  std::optional<double> energy = {};
};

// For kinds.

/// Radians a token of the pairs of a rotary part of that width; none unless positions are rotary.
std::vector<double> rotary_speeds(const AttentionPlan& plan, Index width);

/// The rows of a head's q and k, by place.
struct HeadRows {
  std::vector<Index> pairs;    ///< chosen of the heads' rotary pairs
  std::vector<Index> rotated;  ///< rows of these: first halves, then second ones
  std::vector<Index> others;
};
/// For a rotary part of that width. Throws ShapeError if less of the heads is rotated.
HeadRows rows_for_rotary_part(const AttentionHeads& heads, Index width, RotaryPairs which);
/// Gives `heads` keys [heads width, dim] whose rows are the others, then those that are rotated, at
/// these speeds.
void replace_keys(AttentionHeads& heads, const HeadRows& rows, const DoubleMatrix& keys,
                  const std::vector<double>& speeds);

/// The rotary rows of each block, which are its last `rotated`, from the layout of the
/// plan to halves, as AttentionHeads has them, and back.
DoubleMatrix to_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                       const AttentionPlan& plan);
DoubleMatrix from_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                         const AttentionPlan& plan);

/// What a matrix with a bias as its last column makes of what another one makes.
DoubleMatrix composed(const DoubleMatrix& outer, const DoubleMatrix& inner);
/// A matrix of z as `up` (`factor` c), as nearly as can be, where c = `down` z is a latent whose
/// numbers are as large as those of z: a norm of c changes as little as one can. `up` has the
/// biases; `whole` is the matrix that the two make. Throws ShapeError for a rank of more than
/// `dim`, which the setting gives.
struct LatentMatrices {
  DoubleMatrix down, up, whole;
};
LatentMatrices through_latent(const DoubleMatrix& matrix, Index rank, Index dim,
                              const std::string& setting, double factor = 1);
DoubleMatrix norm_of_ones(Index width);

/// The queries of a layer with a query latent of that rank, 0: none, which is multiplied by
/// `factor` after its norm. Throws ShapeError for one that is normed.
DoubleMatrix queries(const LayerMatrices& weights, Index rank, bool normed, double factor = 1);
/// Puts such queries into `made`.
void make_queries(MadeLayer& made, const DoubleMatrix& q, Index rank, bool normed,
                  double factor = 1);
/// What queries are to be multiplied by so that scores stay what they were where the width of keys
/// changes.
double score_factor(const AttentionPlan& plan, Index from, Index to);

/// Throws ShapeError: heads of `what`, which names a setting, are `here` wide, in the model that is
/// converted `there`.
void require_width(const std::string& what, Index here, Index there);

}  // namespace headcount
