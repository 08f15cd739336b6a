#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "autograd/tape.h"

/// Rotary position embedding.
namespace headcount {

/// Pairs of elements of a head that rotary embedding rotates.
enum class RotaryLayout {
  half,         ///< (j, j + dim/2): Llama
  interleaved,  ///< (2j, 2j + 1): the paper, DeepSeek
};

/// Cosines and sines of position * theta^(-2j/dim), one row of dim/2 each per position. Tables of
/// equal sizes, as the layers of a model have them, share their numbers, which take no memory
/// before they are first read.
class RotaryTable {
 public:
  struct Angles {
    std::vector<Real> cosines, sines;  ///< [positions, dim / 2]
    std::once_flag made;
  };
  /// Table for positions 0 .. positions - 1. Throws ShapeError unless `dim` is even and at least 2.
  RotaryTable(Index dim, Index positions, double theta);

  Index dim() const { return dim_; }
  Index positions() const { return positions_; }
  const Angles& angles() const;  ///< any thread may call it

 private:
  Index dim_, positions_;
  double theta_;
  std::shared_ptr<Angles> angles_;
};

enum class Rotation { forward, inverse };

/// Rotary position embedding of the last `table.dim()` elements of each head of x [B, T, H, D];
/// the elements before them pass through. Position of token t is `first_position` + t `stride`. The
/// table must outlive the backward pass. Su et al., "RoFormer" (2021).
Var rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position = 0,
           Rotation rotation = Rotation::forward, Index stride = 1);

}  // namespace headcount
