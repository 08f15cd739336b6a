#pragma once

#include <cstdint>
#include <span>

#include "autograd/real.h"

namespace headcount {

/// What a model gets that knows nothing but how often one character follows another: nats per
/// character of `validation`, all but its first, by the pairs of `train`. With n for counts there
/// and t(a) different characters after a,
///   p(b | a) = (n(ab) + t(a) p(b)) / (n(a) + t(a)),  p(b) = (n(b) + 1) / (n + vocabulary),
/// the smoothing of Witten and Bell (1991, IEEE Trans. Inf. Theory 37, 1085). Tokens are below
/// `vocabulary`; both texts have two or more.
double character_pair_loss(std::span<const std::int32_t> train,
                           std::span<const std::int32_t> validation, Index vocabulary);

}  // namespace headcount
