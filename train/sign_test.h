#pragma once

#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// Sequential sign test of whether at least half of all values lie on one side of a bound, whatever
/// their distribution: skewed, in two clusters, or with rare outliers. It looks after `first`
/// values, after each further one, up to `last`, and may stop at any look.
///
/// If fewer than half lie there, each value does with a chance below 1/2, so the chance that
/// some look finds too few exceptions is below that of fair coins: 0.05 at most. By look n it is
/// 0.05 sqrt(n / last) at most, as the chance of RepeatedIntervals is. No five values show
/// anything before the fifth: (1/2)^4 is more than 0.05.
class SignTest {
 public:
  /// 1 <= first <= last.
  SignTest(Index first, Index last);

  Index first() const { return first_; }
  Index last() const { return first_ + static_cast<Index>(exceptions_.size()) - 1; }

  /// Greatest number of `values` values (first to last) that may lie on the other side if the test
  /// is to decide; -1 if it cannot decide yet.
  Index exceptions(Index values) const {
    return exceptions_.at(static_cast<std::size_t>(values - first_));
  }

 private:
  Index first_;
  std::vector<Index> exceptions_;
};

}  // namespace headcount
