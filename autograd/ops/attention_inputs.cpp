#include <algorithm>
#include <string>
#include <string_view>

#include "autograd/ops.h"
#include "autograd/ops/attention_kernels.h"
#include "autograd/ops/support.h"

namespace headcount {

void check_attention(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                     const AttentionOptions& options) {
  const Shape qs = tape.shape(q), vs = values.shape();
  std::string key_shapes;
  const auto fail_unless = [&](bool condition, std::string_view message) {
    if (condition) return;
    for (const Rows& part : keys)
      key_shapes += (key_shapes.empty() ? "" : " + ") + part.shape().text();
    require(false, Op::attention, message, " (q ", qs, ", k ", key_shapes, ", v ", vs, ")");
  };
  const auto check_rows = [&](const Rows& rows, const Shape& s) {
    fail_unless(s.rank() == 4 && qs.rank() == 4, "q, k and v must have 4 dimensions");
    fail_unless(s[0] == qs[0] && s[1] == vs[1], "batch and key lengths must agree");
    fail_unless(s[2] > 0 && qs[2] % s[2] == 0, "query heads must be a multiple of key/value heads");
    if (rows.cache() == nullptr) return;
    fail_unless(rows.mixing() == nullptr || s[2] == qs[2], "rows are mixed for each query head");
    const RowCache* const other = values.cache();
    fail_unless(other == nullptr || (other->capacity() == rows.cache()->capacity() &&
                                     values.tokens() == rows.tokens()),
                "the caches of keys and values must hold the same tokens");
    fail_unless(!tape.needs_gradient(q) && !(options.sinks && tape.needs_gradient(*options.sinks)),
                "rows of a cache have no gradient; use a tape that computes none");
    fail_unless(options.key_mask.empty(), "rows of a cache cannot be masked");
    const bool overwritten = rows.tokens() > rows.cache()->capacity();
    fail_unless(!overwritten || qs[1] == 1,
                "several tokens at once would overwrite cached ones; feed one at a time");
  };
  const auto check_selection = [&](const std::optional<Selection>& selection) {
    fail_unless(!selection || (selection->rows.rows != nullptr && selection->rows.most > 0),
                "queries pick at least one row");
  };
  fail_unless(!keys.empty() && keys.size() <= kMaxKeyParts, "keys have 1 to 4 parts");
  check_rows(values, vs);
  Index key_width = 0;
  for (const Rows& part : keys) {
    const Shape s = part.shape();
    check_rows(part, s);
    key_width += s[3];
  }
  fail_unless(qs[3] == key_width, "q and k must have the same head dimension");
  if (options.pooled) {
    const Shape ks = options.pooled->keys.shape(), ps = options.pooled->values.shape();
    fail_unless(ks.rank() == 4 && ps.rank() == 4 && ks[0] == qs[0] && ps[0] == qs[0] &&
                    ks[1] == ps[1] && qs[2] % ks[2] == 0 && qs[2] % ps[2] == 0 && ks[3] == qs[3] &&
                    ps[3] == vs[3],
                "pooled rows must be as wide as the others, for the same sequences");
    fail_unless(options.pooled->tokens > 0 && options.causal && options.key_mask.empty(),
                "pooled rows stand for tokens that are all seen, before the query");
    check_selection(options.pooled->selection);
  }
  check_selection(options.selection);
  fail_unless(!options.selection || (options.causal && options.key_mask.empty()),
              "queries pick from rows that are all seen, before the query");
  fail_unless(!options.causal || qs[1] <= vs[1], "causal attention needs a key for every query");
  fail_unless(options.window == 0 || (options.causal && options.window > 0),
              "a window must be positive and causal");
  fail_unless(options.key_mask.empty() ||
                  options.key_mask.size() == static_cast<std::size_t>(vs[0] * vs[1]),
              "the key mask must be [B, S]");
  fail_unless(!options.sinks || tape.shape(*options.sinks) == Shape{qs[2]},
              "sinks must be one score for each query head");
  if (options.log_gates != nullptr) {
    const Rows& gates = *options.log_gates;
    check_rows(gates, gates.shape());
    fail_unless(gates.shape()[2] == qs[2] && gates.width() == 1 && gates.mixing() == nullptr,
                "forget gates must be [B, S, H, 1]");
    fail_unless(gates.cache() == nullptr || !gates.cache()->converts(),
                "forget gates must be cached unrounded");
    fail_unless(!options.pooled, "a forget gate is that of a token, not of a pooled row");
  }
  const auto one_head = [](const Rows& rows) { return rows.shape()[2] == 1; };
  const std::optional<PooledRows>& pooled = options.pooled;
  fail_unless(
      !options.stacked || (options.log_gates == nullptr && one_head(values) &&
                           std::ranges::all_of(keys, one_head) &&
                           (!pooled || (one_head(pooled->keys) && one_head(pooled->values)))),
      "stacked heads read the same rows, without forget gates");
  const Real dropped = options.dropout.value_or(0);
  fail_unless(dropped >= 0 && dropped < 1, "dropout must be at least 0 and below 1");
}

RowView view_of(Tape& tape, const Rows& rows, Index query_heads) {
  const Shape shape = rows.shape();
  const Index first = rows.first(), width = rows.width();
  RowView result{.stored = {}, .group = query_heads / shape[2], .width = width};
  if (rows.cache() == nullptr) {
    const Shape whole = tape.shape(rows.x());
    const Real* const x = tape.value(rows.x());
    result.stored = HeadRows<const Real>::of(x, whole[1], whole[2], whole[3], first, width);
  } else if (rows.cache()->converts() || rows.mixing() != nullptr) {
    result.converted = &rows;
  } else {
    const RowCache& cache = *rows.cache();
    const Index head_stride = cache.capacity() * cache.width();
    result.stored = {cache.read(0, 0, 0, 1, first, width, nullptr).data,
                     cache.heads() * head_stride, cache.width(), head_stride, width};
  }
  return result;
}

}  // namespace headcount
