// programs: autograd gradcheck in_double
// What attention adds to the plain one: groups of rows, windows, masks, picks, other scales, caps,
// gates, sinks, statistics. And the rows that an indexer picks, and its loss.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "autograd/compositions.h"

namespace headcount {

namespace {

// Place in a query's list of the block with row `row`; -1 if it is not picked.
Index place_in(const PickedRows& picked, Index b, Index t, Index list, Index row, Index queries) {
  const std::int32_t* const first = picked.rows + picked.offset(b, t, queries, list);
  const auto block = static_cast<std::int32_t>((row + picked.missing) / picked.block);
  const Index n = std::find(first, first + picked.most, block) - first;
  return n < picked.most ? picked.offset(b, t, queries, list) + n : -1;
}

bool masked(const AttentionOptions& o, Index b, Index key, Index keys) {
  return !o.key_mask.empty() && o.key_mask[static_cast<std::size_t>(b * keys + key)] == 0;
}

// Keys that pooled rows are come after the others.
bool sees(const AttentionOptions& o, const Position& at, Index heads, Index queries,
          Index all_keys) {
  const Index b = at[0], t = at[2], s = at[3];
  const auto reads = [&](const std::optional<PickedRows>& picked, Index row) {
    return !picked || place_in(*picked, b, t, at[1] * picked->lists / heads, row, queries) >= 0;
  };
  const Index keys = all_keys - (o.pooled ? o.pooled->keys.shape()[1] : 0);
  if (s >= keys) {
    return s - keys < (keys - queries + t + 1) / o.pooled->tokens &&
           reads(o.pooled->picked, s - keys);
  }
  const Index last = o.causal ? keys - queries + t : keys - 1;
  return s <= last && (o.window == 0 || s > last - o.window) && !masked(o, b, s, keys) &&
         reads(o.picked, s);
}

Var scaled_scores(Var raw, Var seen, const AttentionOptions& options) {
  if (options.row_scale == RowScale::one) return scale(raw, options.scale);
  // A query that sees nothing has norm and length 0; what it is divided by then plays no part.
  const Var nothing = filled(*raw.tape, raw.shape(), std::numeric_limits<Real>::min());
  const Var squares = options.row_scale == RowScale::inverse_norm ? raw * raw * seen : seen;
  return scale(raw * seen, options.scale) / square_root(repeated_row_sums(squares) + nothing);
}

// The sum of the log gates [B, S, H, 1] up to each query less that up to each key, [B, H, T, S].
Var gate_scores(Var gates, const AttentionOptions& options, const Shape& shape) {
  Tape& tape = *gates.tape;
  const Index keys = gates.shape()[1];
  const auto sums = [&](Index rows) {  // up to the last tokens, [B, H, rows, 1]
    const Var up_to = made(tape, {shape[0], shape[1], rows, keys}, [&](const Position& p) {
      return Real(p[3] <= keys - rows + p[2] && !masked(options, p[0], p[3], keys));
    });
    return matrix_product(up_to, transpose(gates, 1, 2));
  };
  const Var of_keys = gathered(sums(keys), shape, [](const Position& p) {
    return Position{p[0], p[1], p[3], 0};
  });
  return gathered(sums(shape[2]), shape) - of_keys;
}

// What attention tells of its weights [B, H, T, S], the last columns those of pooled rows, and of
// those of the sinks, if there are some.
void tell(const AttentionOptions& o, Var weights, const Values& of_sinks) {
  const Shape s = weights.shape();
  const Index pooled = o.pooled ? o.pooled->keys.shape()[1] : 0, keys = s[3] - pooled;
  const auto tell_picked = [&](const std::optional<PickedRows>& picked, Index query, Index row,
                               Real weight) {
    if (!picked || picked->weights == nullptr) return;
    const Index list = query / s[2] % s[1] * picked->lists / s[1];
    const Index at = place_in(*picked, query / (s[1] * s[2]), query % s[2], list, row, s[2]);
    if (at >= 0) picked->weights[at] += weight;
  };
  if (o.stats != nullptr) {
    o.stats->weights.resize(static_cast<std::size_t>(s.rows() * keys));
    o.stats->pooled_weights.resize(static_cast<std::size_t>(s.rows() * pooled));
  }
  for (Index query = 0; query < s.rows(); ++query) {
    double total = 0, entropy = 0;
    const auto count = [&](Real weight) {
      const auto w = static_cast<double>(weight);
      total += w;
      entropy -= w > 0 ? w * std::log(w) : 0;
    };
    for (Index j = 0; j < s[3]; ++j) {
      const Real weight = weights.value()[static_cast<std::size_t>(query * s[3] + j)];
      count(weight);
      const bool of_token = j < keys;
      tell_picked(of_token ? o.picked : o.pooled->picked, query, of_token ? j : j - keys, weight);
      if (o.stats == nullptr) continue;
      Real* const row = o.stats->weights.data() + query * keys;
      if (of_token) {
        row[j] += weight;
        continue;
      }
      o.stats->pooled_weights[static_cast<std::size_t>(query * pooled + j - keys)] = weight;
      const Index block = o.pooled->tokens, first = (j - keys) * block;
      for (Index i = first; weight > 0 && i < first + block; ++i)
        row[i] += weight / static_cast<Real>(block);
    }
    if (!of_sinks.empty()) count(of_sinks[static_cast<std::size_t>(query)]);
    if (o.stats == nullptr || total == 0) continue;
    o.stats->entropy_sum += entropy;
    ++o.stats->rows;
  }
}

}  // namespace

Var composed_attention(Var q, std::span<const Rows> keys, const Rows& values,
                       const AttentionOptions& options) {
  const auto read = [](const Rows& rows) { return columns(rows.x(), rows.first(), rows.width()); };
  std::optional<Var> raw;  // [B, H, T, S]; the scores of pooled rows are more columns
  for (Index first = 0; const Rows& part : keys) {
    const Var of_part = plain_scores(columns(q, first, part.width()), read(part), 1);
    raw = raw ? *raw + of_part : of_part;
    first += part.width();
  }
  const Index tokens = raw->shape().last();
  if (options.pooled) raw = concat(*raw, plain_scores(q, read(options.pooled->keys), 1));
  const Shape shape = raw->shape();
  const Var seen = made(*q.tape, shape, [&](const Position& p) {
    return Real(sees(options, p, shape[1], shape[2], shape[3]));
  });
  Var scores = scaled_scores(*raw, seen, options);
  if (options.cap > 0) scores = composed_soft_cap(scores, options.cap);
  if (options.log_gates != nullptr)
    scores = scores + gate_scores(options.log_gates->x(), options, shape);
  Var shares = scores + scale(seen - filled(*q.tape, shape, 1), Real{1e30});
  // A sink is one more column of the softmax. Where nothing is seen the weights are uniform; the
  // product makes them 0.
  if (options.sinks) {
    const auto head = [](const Position& p) { return Position{0, 0, 0, p[1]}; };
    shares = concat(shares, gathered(*options.sinks, shape.with_last(1), head));
  }
  const Var softmax_of_all = softmax(shares);
  const Var weights = columns(softmax_of_all, 0, shape.last()) * seen;
  Values of_sinks;
  if (options.sinks) of_sinks = copy(columns(softmax_of_all, shape.last(), 1).value());
  tell(options, weights, of_sinks);
  const Var kept = dropout(weights, options.dropout.value_or(0));
  const Var y = plain_sums(columns(kept, 0, tokens), read(values));
  if (!options.pooled) return y;
  return y + plain_sums(columns(kept, tokens, shape.last() - tokens), read(options.pooled->values));
}

namespace {

// max(0, x). The gradient at 0 is 0.
Var positive_part(Var x) {
  Values positive;
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

Picks composed_pick_rows(Var q, Var keys, std::optional<Var> weights, Real factor,
                         const TopK& sizes) {
  const Shape s = q.shape();  // [B, T, I, D]
  const Index rows = keys.shape()[1], queries = s[0] * s[1], most = sizes.most;
  const Index lists = queries * sizes.lists, in_list = s[2] / sizes.lists;
  const PickedRows blocks{.block = sizes.block, .missing = sizes.first_row % sizes.block};
  const Var turned = transpose(reshape(keys, {s[0], rows, s[3]}), 1, 2);  // [B, D, R]
  const Var products = matrix_product(reshape(q, {s[0], s[1] * s[2], s[3]}), turned);
  Var all = scale(reshape(products, {queries * s[2], rows}), factor);
  if (weights) {
    const Var of_heads = reshape(positive_part(all), {queries, s[2], rows});
    all = reshape(matrix_product(reshape(*weights, {queries, 1, s[2]}), of_heads), {queries, rows});
  }
  // The place in `all` of the number that is the score of a list's block; none of unseen ones.
  struct Score {
    Index head, row;
    Real number;
  };
  std::vector<std::map<std::int32_t, Score>> scores(static_cast<std::size_t>(lists));
  auto* const picked = q.tape->scratch_of<std::int32_t>(lists * most);
  std::fill_n(picked, lists * most, -1);
  for (Index list = 0; list < lists; ++list) {
    auto& of_list = scores[static_cast<std::size_t>(list)];
    std::vector<std::int32_t> seen;
    for (const std::int32_t row : rows_seen_by(list / sizes.lists % s[1], rows, sizes)) {
      const auto block = static_cast<std::int32_t>((row + blocks.missing) / sizes.block);
      const Index first = weights ? list : list * in_list;
      for (Index head = first; head < first + (weights ? 1 : in_list); ++head) {
        const Real number = all.value()[static_cast<std::size_t>(head * rows + row)];
        const auto [at, is_new] = of_list.try_emplace(block, Score{head, row, number});
        if (is_new) seen.push_back(block);
        if (number > at->second.number) at->second = {head, row, number};
      }
    }
    const auto rank = [&](std::int32_t block) {
      const bool own = !weights && block == seen.back();
      return own ? std::numeric_limits<Real>::infinity() : of_list.at(block).number;
    };
    std::vector<std::int32_t> best = seen;
    std::ranges::stable_sort(best, std::greater(), rank);
    if (std::ssize(best) > most) best.erase(best.begin() + most, best.end());
    std::ranges::sort(best);
    std::ranges::copy(best, picked + list * most);
  }
  const Shape shape =
      sizes.lists == 1 ? Shape{s[0], s[1], most} : Shape{s[0], s[1], sizes.lists, most};
  const Var chosen = gathered(all, {lists, most}, [=](const Position& p) {
    const std::int32_t block = picked[p[2] * most + p[3]];
    if (block < 0) return Position{0, 0, 0, -1};
    const Score& score = scores[static_cast<std::size_t>(p[2])].at(block);
    return Position{0, 0, score.head, score.row};
  });
  return {{.rows = picked,
           .most = most,
           .lists = sizes.lists,
           .block = blocks.block,
           .missing = blocks.missing},
          reshape(chosen, shape)};
}

// (sum over queries of sum over j of p_j (log p_j - log softmax(s)_j)) / queries
Var composed_index_loss(const Picks& picks) {
  const PickedRows& picked = picks.picked;
  Tape& tape = *picks.scores.tape;
  const Index queries = picks.scores.shape().rows(), most = picked.most;
  const Var scores = reshape(picks.scores, {queries, most});
  Var total = scale(sum(scores), 0);  // what queries without weights add
  for (Index i = 0; i < queries; ++i) {
    const std::int32_t* const list = picked.rows + i * most;
    const Index count = std::find(list, list + most, -1) - list;
    Values p(picked.weights + i * most, picked.weights + i * most + count);
    const Real of_all = std::accumulate(p.begin(), p.end(), Real{0});
    if (of_all == 0) continue;
    Real p_log_p = 0;
    for (Real& weight : p) {
      weight /= of_all;
      if (weight > 0) p_log_p += weight * std::log(weight);
    }
    const Var s = gathered(scores, {count}, [=](const Position& at) {
      return Position{0, 0, i, at[3]};
    });
    const Var log_softmax = logarithm(composed_softmax(s));
    total = total + filled(tape, {}, p_log_p) - sum(tape.constant({count}, p) * log_softmax);
  }
  return scale(total, 1 / static_cast<Real>(queries));
}

}  // namespace headcount
