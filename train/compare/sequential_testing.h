#pragma once

#include <optional>
#include <span>
#include <vector>

#include "train/compare/comparison.h"

/// Sequential tests look after `first` values and after each further one, up to `last`, and may
/// stop at any look because of what it shows. Both tests here spend their error as Lan and DeMets
/// (1983, Biometrika 70, 659) do: the probability of a wrong conclusion by look n is at most
/// 0.05 (n / last)^rho, of the power family of Kim and DeMets (1987, Biometrika 74, 149). For
/// intervals rho is 3: early looks need clear cases, and the last interval is nearly as narrow as
/// that of a fixed number. For the sign test rho is 1/2: few values cannot be clearer than
/// unanimous, and spending less at first would only ask for more of them. Looks are indexed from 0:
/// look i comes after `first` + i values.

namespace headcount {

/// Half widths of the confidence intervals of a mean at each look, in standard errors of the mean.
/// With probability 0.95 all intervals contain the true mean; Student's intervals at 18 looks
/// would do so with about 0.8.
///
/// They are the repeated confidence intervals of Jennison and Turnbull (1989, J. R. Stat. Soc. B
/// 51, 305). For normal values of unknown variance they are exact but for rounding: the t of
/// successive looks are those of a random direction, as in Jennison and Turnbull (1991, Biometrika
/// 78, 133). 2 <= first <= last.
///
/// A union bound, Student's interval at the error that each look spends, needs no integration. With
/// it, of 94 attentions of the studies in tests/bench/results, seen as 3..5 seeds, 5 of 40 verdicts
/// were undecided, and 3 came a seed later. Where differences are normal with their means and
/// deviations, as many verdicts take 3..11 seeds instead of 3..8 (28 % more runs), 5..15 instead of
/// 5..10 (34 %), and 3..35 instead of 3..20 (50 %).
std::vector<double> repeated_interval_bounds(Index first, Index last);

/// Sign test of whether at least half of all values lie on one side of a bound, whatever their
/// distribution: skewed, in two clusters, or with rare outliers. Returns, for each look, the
/// greatest number of values on the other side with which the test decides; -1 if it cannot decide
/// yet. If fewer than half of all values lie on the side, each does with a probability below 1/2,
/// so too few exceptions are less probable than among tosses of fair coins. Fewer than five values
/// decide nothing, since (1/2)^4 is more than 0.05. 1 <= first <= last.
std::vector<Index> sign_test_exceptions(Index first, Index last);

/// Verdict by the interval of `cost`, a test of non-inferiority, one-sided at 2.5 %: enough if it
/// lies below the tolerance, not enough if above; undecided otherwise, and without a finite
/// interval or a tolerance.
Verdict verdict(const Estimate& cost, std::optional<double> tolerance);

/// Sequential test that derives verdicts from the costs of the seeds so far. It looks after
/// `seeds.first` seeds and again after each further one, up to `seeds.last`. Differences of losses
/// are assumed to be normal, so the confidence interval of their mean decides. Shares of right
/// answers are bounded, skewed, and sometimes in two clusters; no interval of the mean of so few
/// values is reliable then, since a rare failure may not have been seen. Steps to learn have no
/// mean if a run does not learn. For answers and steps, a sign test decides instead, on which side
/// of the tolerance at least half of all seeds lie.
class Judge {
 public:
  Judge(Metric metric, const SeedRange& seeds);

  /// Mean of `costs`, one per finished seed, with the confidence interval of the look after that
  /// number of seeds; no interval if there is no such look. With a fixed number of seeds, Student's
  /// interval of all finished seeds.
  Estimate interval(std::span<const double> costs) const;
  /// Verdict of the look at `costs`, one per finished seed; undecided if there is no look after
  /// that number of seeds. With a fixed number of seeds, there is one look, at all finished seeds.
  /// Losses that all diverged are not enough.
  Verdict verdict(std::span<const double> costs, std::optional<double> tolerance) const;

 private:
  Metric metric_;
  std::size_t first_;
  std::vector<double> bounds_;     // by look: see sequential_testing.h
  std::vector<Index> exceptions_;  // by look
};

}  // namespace headcount
