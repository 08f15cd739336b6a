#pragma once

#include <span>
#include <vector>

#include "autograd/base/real.h"
#include "train/statistics.h"

namespace headcount {

/// Confidence intervals of a mean for a sequential test: it looks after `first` values, after each
/// further one, up to `last`, and may stop at any look because of what it sees. With probability
/// 0.95 all of these intervals hold at once; Student's intervals at 18 looks would do so with about
/// 0.8.
///
/// They are the repeated confidence intervals of Jennison and Turnbull (1989, J. R. Stat. Soc. B
/// 51, 305) with the error spending of Lan and DeMets (1983, Biometrika 70, 659): by look n, the
/// chance that some interval failed is 0.05 sqrt(n / last), of the power family of Kim and DeMets
/// (1987, Biometrika 74, 149); the root spends much of it early, where few values decide what is
/// clear. For normal values of unknown variance this is exact, but for rounding: the t of
/// successive looks are those of a random direction, as in Jennison and Turnbull (1991, Biometrika
/// 78, 133).
class RepeatedIntervals {
 public:
  /// 2 <= first <= last.
  RepeatedIntervals(Index first, Index last);

  Index first() const { return first_; }
  Index last() const { return first_ + static_cast<Index>(bounds_.size()) - 1; }

  /// Half width of the interval after `values` values (first to last), in standard errors of their
  /// mean.
  double bound(Index values) const { return bounds_.at(static_cast<std::size_t>(values - first_)); }

  /// The mean of `values` with its interval at that look; without an interval for fewer than
  /// `first` or more than `last` values. If there is one look only, it is Student's interval of
  /// however many values are given.
  Estimate estimate(std::span<const double> values) const;

 private:
  Index first_;
  std::vector<double> bounds_;
};

}  // namespace headcount
