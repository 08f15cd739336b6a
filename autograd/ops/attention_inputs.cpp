#include <algorithm>
#include <string>
#include <string_view>

#include "autograd/ops.h"
#include "autograd/ops/attention_kernels.h"
#include "autograd/ops/support.h"

namespace headcount {

namespace {

// Checks of the inputs of one call; each throws ShapeError.
class InputChecks {
 public:
  InputChecks(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options)
      : tape_(tape),
        keys_(keys),
        values_(values),
        options_(options),
        qs_(tape.shape(q)),
        vs_(values.shape()),
        gradient_(tape.needs_gradient(q) ||
                  (options.sinks && tape.needs_gradient(*options.sinks))) {}

  void rows(const Rows& rows) {
    const Shape s = rows.shape();
    need(s.rank() == 4 && qs_.rank() == 4, "q, k and v must have 4 dimensions");
    need(s[0] == qs_[0] && s[1] == vs_[1], "batch and key lengths must agree");
    need(s[2] > 0 && qs_[2] % s[2] == 0, "query heads must be a multiple of key/value heads");
    if (rows.cache() == nullptr) {
      gradient_ = gradient_ || tape_.needs_gradient(rows.x());
      return;
    }
    cached_ = true;
    need(rows.mixing() == nullptr || s[2] == qs_[2], "rows are mixed for each query head");
    const RowCache* const other = values_.cache();
    need(other == nullptr ||
             (other->capacity() == rows.cache()->capacity() && values_.tokens() == rows.tokens()),
         "the caches of keys and values must hold the same tokens");
    need(options_.key_mask.empty(), "rows of a cache cannot be masked");
    need(!rows.cache()->overwritten(rows.tokens()) || qs_[1] == 1,
         "several tokens at once would overwrite cached ones; feed one at a time");
  }

  void keys() {
    need(!keys_.empty() && keys_.size() <= kMaxKeyParts, "keys have 1 to 4 parts");
    Index width = 0;
    for (const Rows& part : keys_) {
      rows(part);
      width += part.shape()[3];
    }
    need(qs_[3] == width, "q and k must have the same head dimension");
  }

  void pooled(const PooledRows& pooled) {
    const Shape ks = pooled.keys.shape(), ps = pooled.values.shape();
    need(ks.rank() == 4 && ps.rank() == 4 && ks[0] == qs_[0] && ps[0] == qs_[0] && ks[1] == ps[1] &&
             qs_[2] % ks[2] == 0 && qs_[2] % ps[2] == 0 && ks[3] == qs_[3] && ps[3] == vs_[3],
         "pooled rows must be as wide as the others, for the same sequences");
    need(pooled.tokens > 0 && options_.causal && options_.key_mask.empty(),
         "pooled rows stand for tokens that are all seen, before the query");
    for (const Rows* rows : {&pooled.keys, &pooled.values}) {
      if (rows->cache() != nullptr)
        cached_ = true;
      else
        gradient_ = gradient_ || tape_.needs_gradient(rows->x());
    }
    selection(pooled.selection);
  }

  void selection(const std::optional<Selection>& selection) const {
    need(!selection || (selection->rows.rows != nullptr && selection->rows.most > 0),
         "queries pick at least one row");
  }

  void visibility() const {
    need(!options_.selection || (options_.causal && options_.key_mask.empty()),
         "queries pick from rows that are all seen, before the query");
    need(!options_.causal || qs_[1] <= vs_[1], "causal attention needs a key for every query");
    need(options_.window == 0 || (options_.causal && options_.window > 0),
         "a window must be positive and causal");
    need(options_.key_mask.empty() ||
             options_.key_mask.size() == static_cast<std::size_t>(vs_[0] * vs_[1]),
         "the key mask must be [B, S]");
  }

  void gates(const Rows& gates) {
    rows(gates);
    need(gates.shape()[2] == qs_[2] && gates.width() == 1 && gates.mixing() == nullptr,
         "forget gates must be [B, S, H, 1]");
    need(gates.cache() == nullptr || !gates.cache()->converts(),
         "forget gates must be cached unrounded");
    need(!options_.pooled, "a forget gate is that of a token, not of a pooled row");
  }

  void stacked() const {
    const auto one_head = [](const Rows& rows) { return rows.shape()[2] == 1; };
    const std::optional<PooledRows>& pooled = options_.pooled;
    need(!options_.stacked || (options_.log_gates == nullptr && one_head(values_) &&
                               std::ranges::all_of(keys_, one_head) &&
                               (!pooled || (one_head(pooled->keys) && one_head(pooled->values)))),
         "stacked heads read the same rows, without forget gates");
  }

  // What remains once all rows are known.
  void others() const {
    need(options_.cap >= 0, "the cap of scores must not be negative");
    need(options_.cap == 0 || options_.row_scale != RowScale::inverse_norm,
         "scores that are divided by the norm of their row have no cap");
    need(!cached_ || !gradient_, "rows of a cache have no gradient; use a tape that computes none");
    need(!options_.sinks || tape_.shape(*options_.sinks) == Shape{qs_[2]},
         "sinks must be one score for each query head");
    const Real dropped = options_.dropout.value_or(0);
    need(dropped >= 0 && dropped < 1, "dropout must be at least 0 and below 1");
  }

 private:
  void need(bool condition, std::string_view message) const {
    if (condition) return;
    std::string key_shapes;
    for (const Rows& part : keys_)
      key_shapes += (key_shapes.empty() ? "" : " + ") + part.shape().text();
    require(false, Op::attention, message, " (q ", qs_, ", k ", key_shapes, ", v ", vs_, ")");
  }

  const Tape& tape_;
  std::span<const Rows> keys_;
  const Rows& values_;
  const AttentionOptions& options_;
  Shape qs_, vs_;
  bool gradient_;        // whether an input needs one
  bool cached_ = false;  // whether some rows are in a cache
};

}  // namespace

void check_attention(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                     const AttentionOptions& options) {
  InputChecks check(tape, q, keys, values, options);
  check.rows(values);
  check.keys();
  if (options.pooled) check.pooled(*options.pooled);
  check.selection(options.selection);
  check.visibility();
  if (options.log_gates != nullptr) check.gates(*options.log_gates);
  check.stacked();
  check.others();
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
