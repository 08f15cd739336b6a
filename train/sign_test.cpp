#include "train/sign_test.h"

#include <cmath>

#include "train/statistics.h"

namespace headcount {

SignTest::SignTest(Index first, Index last) : first_(first) {
  // open[k]: probability, for fair coins, of k exceptions without any earlier look having decided.
  std::vector<double> open(static_cast<std::size_t>(last) + 2);
  open[0] = 1;
  double spent = 0;
  for (Index n = 1; n <= last; ++n) {
    for (auto i = static_cast<std::size_t>(n); i > 0; --i) open[i] = (open[i] + open[i - 1]) / 2;
    open[0] /= 2;
    if (n < first) continue;
    const double allowed =
        kOutsideInterval * std::sqrt(static_cast<double>(n) / static_cast<double>(last));
    std::size_t shown = 0;
    for (; spent + open[shown] <= allowed; ++shown) {
      spent += open[shown];
      open[shown] = 0;
    }
    exceptions_.push_back(static_cast<Index>(shown) - 1);
  }
}

}  // namespace headcount
