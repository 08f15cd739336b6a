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

// Scores of all rows, [B, T, R]: factor times the sum over h of weights[t, h] max(0, q[t, h] k[r]).
Var scores_of_all_rows(Var q, Var keys, Var weights, Real factor) {
  const Shape s = q.shape();  // [B, T, I, D]
  const Index rows = keys.shape()[1], queries = s[0] * s[1];
  const Var turned = transpose(reshape(keys, {s[0], rows, s[3]}), 1, 2);  // [B, D, R]
  const Var products = matrix_product(reshape(q, {s[0], s[1] * s[2], s[3]}), turned);
  const Var of_heads = reshape(positive_part(products), {queries, s[2], rows});
  const Var sums = matrix_product(reshape(weights, {queries, 1, s[2]}), of_heads);
  return scale(reshape(sums, {s[0], s[1], rows}), factor);
}

// Rows that query t sees: those whose last token is not after it, and of these the last `window`.
std::vector<std::int32_t> rows_seen_by(Index t, Index rows, const PickOptions& options) {
  std::vector<std::int32_t> seen;
  for (Index row = 0; row < rows; ++row) {
    const Index last_token = (row + 1) * options.tokens - 1;
    if (last_token <= options.first_position + t) seen.push_back(static_cast<std::int32_t>(row));
  }
  if (options.window > 0 && std::ssize(seen) > options.window)
    seen.erase(seen.begin(), seen.end() - options.window);
  return seen;
}

}  // namespace

Picks composed_pick_rows(Var q, Var keys, Var weights, const PickOptions& options) {
  Tape& tape = *q.tape;
  const Index batch = q.shape()[0], length = q.shape()[1], most = options.most;
  const Index rows = keys.shape()[1], count = batch * length * most;
  const Var scores = scores_of_all_rows(q, keys, weights, options.scale);
  auto* const lists = tape.scratch_of<std::int32_t>(count);
  std::fill_n(lists, count, -1);
  std::vector<std::int32_t> places(static_cast<std::size_t>(count));  // in `scores`
  std::vector<Real> is_picked(static_cast<std::size_t>(count));
  for (Index i = 0; i < batch * length; ++i) {
    const Real* const own = scores.value().data() + i * rows;
    std::vector<std::int32_t> seen = rows_seen_by(i % length, rows, options);
    std::ranges::stable_sort(seen, std::greater(), [=](std::int32_t row) { return own[row]; });
    if (std::ssize(seen) > most) seen.erase(seen.begin() + most, seen.end());
    std::ranges::sort(seen);
    std::ranges::copy(seen, lists + i * most);
    for (Index j = 0; j < std::ssize(seen); ++j) {
      const auto at = static_cast<std::size_t>(i * most + j);
      places[at] = static_cast<std::int32_t>(i * rows + lists[at]);
      is_picked[at] = 1;
    }
  }
  const Shape shape = {batch, length, most};
  const Var found = embedding(reshape(scores, {batch * length * rows, 1}), places, shape);
  return {reshape(found, shape) * tape.constant(shape, is_picked), {lists, most}};
}

// (sum over queries of sum over j of p_j (log p_j - log softmax(s)_j)) / queries
Var composed_index_loss(const Picks& picks, const Real* picked_weights) {
  Tape& tape = *picks.scores.tape;
  const Index queries = picks.scores.shape().rows(), most = picks.rows.most;
  const Var scores = reshape(picks.scores, {queries * most});
  Var total = scale(sum(scores), 0);  // what queries without weights add
  for (Index i = 0; i < queries; ++i) {
    const std::int32_t* const list = picks.rows.rows + i * most;
    const Index count = std::find(list, list + most, -1) - list;
    std::vector<Real> p(picked_weights + i * most, picked_weights + i * most + count);
    const Real of_all = std::accumulate(p.begin(), p.end(), Real{0});
    if (of_all == 0) continue;
    Real p_log_p = 0;
    for (Real& weight : p) {
      weight /= of_all;
      if (weight > 0) p_log_p += weight * std::log(weight);
    }
    const Var log_softmax = logarithm(composed_softmax(columns(scores, i * most, count)));
    total = total + filled(tape, {}, p_log_p) - sum(tape.constant({count}, p) * log_softmax);
  }
  return scale(total, 1 / static_cast<Real>(queries));
}

}  // namespace headcount
