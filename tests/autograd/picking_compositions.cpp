// programs: in_double
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "autograd/compositions.h"

namespace headcount {

namespace {

// max(0, x). The gradient at 0 is 0.
Var positive_part(Var x) {
  std::vector<Real> positive;
  for (const Real v : x.value()) positive.push_back(v > 0 ? Real{1} : Real{0});
  return x * x.tape->constant(x.shape(), positive);
}

// Rows that query t sees: those whose last token is not after it, and of these the last `window`.
std::vector<std::int32_t> rows_seen_by(Index t, Index rows, const TopK& options) {
  std::vector<std::int32_t> seen;
  for (Index row = 0; row < rows; ++row) {
    const Index last_token = (row + options.first_row + 1) * options.tokens - 1;
    if (last_token <= options.first_position + t) seen.push_back(static_cast<std::int32_t>(row));
  }
  if (options.window > 0 && std::ssize(seen) > options.window)
    seen.erase(seen.begin(), seen.end() - options.window);
  return seen;
}

}  // namespace

Picks composed_pick_rows(Var q, Var keys, Var weights, Real factor, const TopK& sizes) {
  const Shape s = q.shape();  // [B, T, I, D]
  const Index rows = keys.shape()[1], queries = s[0] * s[1], most = sizes.most;
  const Var turned = transpose(reshape(keys, {s[0], rows, s[3]}), 1, 2);  // [B, D, R]
  const Var products = matrix_product(reshape(q, {s[0], s[1] * s[2], s[3]}), turned);
  const Var of_heads = reshape(positive_part(products), {queries, s[2], rows});
  const Var sums = matrix_product(reshape(weights, {queries, 1, s[2]}), of_heads);
  const Var all = scale(reshape(sums, {queries * rows, 1}), factor);
  auto* const lists = q.tape->scratch_of<std::int32_t>(queries * most);
  std::fill_n(lists, queries * most, -1);
  std::vector<std::int32_t> places(static_cast<std::size_t>(queries * most));
  std::vector<Real> there(places.size());
  for (Index i = 0; i < queries; ++i) {
    const Real* const own = all.value().data() + i * rows;
    std::vector<std::int32_t> seen = rows_seen_by(i % s[1], rows, sizes);
    std::ranges::stable_sort(seen, std::greater(), [=](std::int32_t row) { return own[row]; });
    if (std::ssize(seen) > most) seen.erase(seen.begin() + most, seen.end());
    std::ranges::sort(seen);
    std::ranges::copy(seen, lists + i * most);
    for (std::size_t j = 0; j < seen.size(); ++j) {
      const auto at = static_cast<std::size_t>(i * most) + j;
      places[at] = static_cast<std::int32_t>(i * rows) + seen[j];
      there[at] = 1;
    }
  }
  const Shape shape = {s[0], s[1], most};
  const Var scores = reshape(embedding(all, places, {queries * most}), shape);
  return {{lists, most}, scores * q.tape->constant(shape, there)};
}

// (sum over queries of sum over j of p_j (log p_j - log softmax(s)_j)) / queries
Var composed_index_loss(const Picks& picks) {
  const Var scores = picks.scores;
  const PickedRows& picked = picks.picked;
  Tape& tape = *scores.tape;
  const Index queries = scores.shape().rows(), most = picked.most;
  const Var numbers = reshape(scores, {queries * most, 1});
  Var total = scale(sum(numbers), 0);  // what queries without weights add
  for (Index i = 0; i < queries; ++i) {
    const std::int32_t* const list = picked.rows + i * most;
    const Index count = std::find(list, list + most, -1) - list;
    std::vector<Real> p(picked.weights + i * most, picked.weights + i * most + count);
    const Real of_all = std::accumulate(p.begin(), p.end(), Real{0});
    if (of_all == 0) continue;
    Real p_log_p = 0;
    for (Real& weight : p) {
      weight /= of_all;
      if (weight > 0) p_log_p += weight * std::log(weight);
    }
    std::vector<std::int32_t> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), static_cast<std::int32_t>(i * most));
    const Var s = reshape(embedding(numbers, places, {count}), {count});
    const Var log_softmax = logarithm(composed_softmax(s));
    total = total + filled(tape, {}, p_log_p) - sum(tape.constant({count}, p) * log_softmax);
  }
  return scale(total, 1 / static_cast<Real>(queries));
}

}  // namespace headcount
