#pragma once

#include <cstdint>
#include <span>

#include "autograd/base/real.h"

namespace headcount {

/// Loss of a smoothed bigram model of the characters of `train`, in nats per character of
/// `validation` after its first one. With counts n in `train`
/// and t(a) the number of different characters after a,
///   p(b | a) = (n(ab) + t(a) p(b)) / (n(a) + t(a)),  p(b) = (n(b) + 1) / (n + vocabulary),
/// the smoothing of Witten and Bell (1991, IEEE Trans. Inf. Theory 37, 1085). Tokens are
/// below `vocabulary`; both texts have at least two.
double character_pair_loss(std::span<const std::int32_t> train,
                           std::span<const std::int32_t> validation, Index vocabulary);

}  // namespace headcount
