#include "data/texts/character_pairs.h"

#include <cmath>
#include <unordered_map>
#include <vector>

namespace headcount {

double character_pair_loss(std::span<const std::int32_t> train,
                           std::span<const std::int32_t> validation, Index vocabulary) {
  std::unordered_map<std::uint64_t, Index> pairs;
  const auto pair = [vocabulary](std::int32_t a, std::int32_t b) {
    return static_cast<std::uint64_t>(a) * vocabulary + b;
  };
  std::vector<double> count(vocabulary), followed(vocabulary), followers(vocabulary);
  for (std::size_t i = 0; i < train.size(); ++i) {
    ++count[train[i]];
    if (i == 0) continue;
    ++followed[train[i - 1]];
    if (++pairs[pair(train[i - 1], train[i])] == 1) ++followers[train[i - 1]];
  }
  const double all = static_cast<double>(train.size()) + static_cast<double>(vocabulary);
  double nats = 0;
  for (std::size_t i = 1; i < validation.size(); ++i) {
    const std::int32_t before = validation[i - 1];
    double p = (count[validation[i]] + 1) / all;
    if (followed[before] > 0) {
      const auto found = pairs.find(pair(before, validation[i]));
      const double times = found == pairs.end() ? 0 : static_cast<double>(found->second);
      p = (times + followers[before] * p) / (followed[before] + followers[before]);
    }
    nats -= std::log(p);
  }
  return nats / static_cast<double>(validation.size() - 1);
}

}  // namespace headcount
