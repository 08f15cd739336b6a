#include <vector>

#include "autograd/ops.h"

namespace headcount {

namespace {

// [T, S]: 0 where query t sees key s. Elsewhere a number that the softmax makes 0; it is finite, so
// that a tape which traps infinities does not stop here.
Var causal_mask(Tape& tape, Index T, Index S) {
  std::vector<Real> mask;
  for (Index t = 0; t < T; ++t)
    for (Index s = 0; s < S; ++s) mask.push_back(s <= S - T + t ? Real{0} : Real{-1e30});
  return tape.constant({T, S}, mask);
}

}  // namespace

// The H / G query heads of a KV head are neighbours, so their queries are the rows of one matrix.
// One product with the keys serves them all; no key is repeated.
Var plain_scores(Var q, Var keys, Real factor) {
  const Shape qs = q.shape(), ks = keys.shape();
  const Index B = qs[0], T = qs[1], H = qs[2], d = qs[3], S = ks[1], G = ks[2];
  const Var queries = reshape(transpose(q, 1, 2), {B, G, H / G * T, d});
  const Var columns_of_keys = transpose(transpose(keys, 1, 2), 2, 3);  // [B, G, d, S]
  return reshape(scale(matrix_product(queries, columns_of_keys), factor), {B, H, T, S});
}

Var plain_sums(Var weights, Var values) {
  const Shape ws = weights.shape(), vs = values.shape();
  const Index B = ws[0], H = ws[1], T = ws[2], S = ws[3], G = vs[2], n = vs[3];
  const Var rows = reshape(weights, {B, G, H / G * T, S});
  const Var sums = matrix_product(rows, transpose(values, 1, 2));  // [B, G, H / G T, n]
  return transpose(reshape(sums, {B, H, T, n}), 1, 2);
}

Var plain_attention(Var q, Var k, Var v, Real factor) {
  const Var scores = plain_scores(q, k, factor);
  const Var mask = causal_mask(*q.tape, q.shape()[1], k.shape()[1]);
  return plain_sums(softmax(scores + mask), v);
}

}  // namespace headcount
