#include "train/cli/nearest.h"

#include <algorithm>
#include <vector>

namespace headcount {

namespace {

// Damerau's and Levenshtein's distance, where no letter is edited twice (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table of distances: entry j of row i is the distance between the
  // first i letters of `a` and the first j letters of `b`.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        row[j] = i + j;
        continue;
      }
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last.back();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> known) {
  std::size_t least = (word.size() + 2) / 3 + 1;
  std::string found;
  for (const std::string& one : known) {
    const std::size_t distance = edit_distance(word, one);
    if (distance >= std::min(least, one.size())) continue;
    least = distance;
    found = one;
  }
  return found;
}

std::string suggestion(std::string_view word, std::span<const std::string> known,
                       const std::string& prefix) {
  const std::string found = nearest(word, known);
  return found.empty() ? "" : "; did you mean " + prefix + found + "?";
}

}  // namespace headcount
