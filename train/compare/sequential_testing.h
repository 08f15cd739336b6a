#pragma once

#include <vector>

#include "autograd/base/real.h"

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
std::vector<double> repeated_interval_bounds(Index first, Index last);

/// Sign test of whether at least half of all values lie on one side of a bound, whatever their
/// distribution: skewed, in two clusters, or with rare outliers. Returns, for each look, the
/// greatest number of values on the other side with which the test decides; -1 if it cannot decide
/// yet. If fewer than half of all values lie on the side, each does with a probability below 1/2,
/// so too few exceptions are less probable than among tosses of fair coins. Fewer than five values
/// decide nothing, since (1/2)^4 is more than 0.05. 1 <= first <= last.
std::vector<Index> sign_test_exceptions(Index first, Index last);

}  // namespace headcount
