#include <algorithm>

#include "autograd/attention/attention_kernel.h"
#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

Rows Rows::columns(Index first, Index width) const {
  require(first >= 0 && width > 0 && first + width <= width_, Op::read_rows,
          "columns {} to {} are not among {}", first, first + width - 1, width_);
  Rows result = *this;
  result.first_ += first;
  result.width_ = width;
  return result;
}

Shape Rows::shape() const {
  if (cache_ == nullptr) return x_.shape().with_last(width_);
  return {cache_->sequences(), cache_->held(tokens_), cache_->heads(), width_};
}

KeySlice::KeySlice(Tape& tape, const Rows& rows)
    : width(rows.width()), cache(rows.cache()), x(rows.x()), first_column(rows.first()) {
  const Shape shape = rows.shape();
  heads = shape[2];
  if (cache == nullptr) {
    const Index row_width = tape.shape(x).last();
    data = tape.value(x) + first_column;
    slots = shape[1];
    head_stride = row_width;
    slot_stride = heads * row_width;
    sequence_stride = slots * slot_stride;
    return;
  }
  slots = cache->capacity();
  oldest = cache->overwritten(rows.tokens()) ? cache->slot(rows.tokens()) : 0;
  slot_stride = cache->width();
  head_stride = slots * slot_stride;
  sequence_stride = heads * head_stride;
  read_rotated(1);
}

void KeySlice::read_rotated(Index size) {
  block = size;
  if (cache != nullptr && cache->block() == block && !cache->converts())
    data = cache->read_stored(0, 0, 0, 1, first_column, width, nullptr).data;
}

namespace {

// Rows row_of(b, i, head) of each sequence b for i < count, as a constant; zeros for row -1.
template <class RowOf>
Var copied(Tape& tape, const Rows& rows, Index count, const RowOf& row_of) {
  const Shape shape = rows.shape();
  const Index heads = shape[2], width = rows.width();
  const Var y = tape.record(Op::read_rows, {shape[0], count, heads, width}, {});
  if (tape.dry(y)) return y;
  const KeySlice slice(tape, rows);
  Real* const out = tape.value(y);
  parallel_for(shape[0] * count, row_chunk(heads * width), [&](Index place) {
    const Index b = place / count;
    for (Index head = 0; head < heads; ++head) {
      const Index row = row_of(b, place % count, head);
      Real* const to = out + (place * heads + head) * width;
      if (row < 0)
        std::fill_n(to, width, Real{0});
      else if (slice.data != nullptr)
        std::copy_n(slice.data + slice.offset(b, row, head), width, to);
      else
        slice.read(b, head, slice.slot(row), 1, to);
    }
  });
  tape.finish(y, [](Tape&, const Real*) {});
  return y;
}

}  // namespace

// Rows of a cache are copied as a constant of the tape.
Var read_rows(Tape& tape, const Rows& rows) {
  if (rows.cache() != nullptr)
    return copied(tape, rows, rows.shape()[1], [](Index, Index row, Index) { return row; });
  const bool all = rows.width() == tape.shape(rows.x()).last();
  return all ? rows.x() : columns(rows.x(), rows.first(), rows.width());
}

Var read_rows(Tape& tape, const Rows& rows, const PickedRows& picked) {
  const Index all = rows.shape()[1], heads = rows.shape()[2], block = picked.block;
  const Index of_last = (all + picked.missing - 1) % block + 1;
  const auto row_of = [&](Index b, Index i, Index head) -> Index {
    const std::int32_t n =
        picked.rows[picked.offset(b, 0, 1, head * picked.lists / heads) + i / block];
    return n < 0 ? n : picked.begin(n) + i % block;
  };
  return copied(tape, rows, (picked.most - 1) * block + of_last, row_of);
}

}  // namespace headcount
