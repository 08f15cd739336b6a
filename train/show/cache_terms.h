#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/cost/model_cache.h"

namespace headcount {

/// A term of a cache's bytes: numbers that equal layers keep, with the bytes of each; where rows
/// have scales, rows.
struct Term {
  std::string kind;            ///< of the layers
  std::int64_t layers, count;  ///< rows or numbers in a layer
  Index row;                   ///< numbers of a row; 0: numbers are counted
  std::int64_t bytes;          ///< of a row or a number
  Index block;                 ///< tokens that a row stands for; 0: 1
  Index after, until;          ///< tokens of which there are such rows; 0: all
  bool once;                   ///< of a sequence, not of each token

  bool operator==(const Term&) const = default;

  /// Bytes of a token, or of a sequence.
  double total() const;
  /// "full attention: 7 layers x 576 numbers x 2 B = 8,064 B a token".
  std::string text() const;
  nlohmann::ordered_json json() const;
};

/// The cache of one sequence as a sum.
std::vector<Term> terms_of(const ModelCache& cache, const CacheRounding& rounding);

/// Bytes that each token adds up to token `until`, after the slope before; 0: without end.
struct Slope {
  Index until;
  double bytes;
};
/// Slopes between the ends of windows and of recent tokens. Of a row that stands for a block each
/// of its tokens adds a share.
std::vector<Slope> slopes_of(const std::vector<Term>& terms);
/// What engines log of a cache: "48 KiB + 98,304 B a token until 4096, then 16,384 B a token".
std::string bytes_text(const std::vector<Slope>& slopes, double once);

}  // namespace headcount
