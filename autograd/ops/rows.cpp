#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/support.h"

namespace headcount {

Rows Rows::columns(Index first, Index width) const {
  require(first >= 0 && width > 0 && first + width <= width_, Op::read_rows, "columns ", first,
          " to ", first + width - 1, " are not among ", width_);
  Rows result = *this;
  result.first_ += first;
  result.width_ = width;
  return result;
}

// A copy of what a cache holds is a constant of the tape; columns of a value are a piece of it.
Var read_rows(Tape& tape, const Rows& rows) {
  const Index first = rows.first(), width = rows.width();
  if (rows.cache() == nullptr) {
    return width == tape.shape(rows.x()).last() ? rows.x() : columns(rows.x(), first, width);
  }
  const RowCache& cache = *rows.cache();
  const Index count = cache.held(rows.tokens()), heads = cache.heads();
  const Var y = tape.record(Op::read_rows, {cache.sequences(), count, heads, width}, {});
  Real* const scratch = tape.scratch(count * width);
  for (Index i = 0; i < cache.sequences() * heads; ++i) {
    const Index b = i / heads, head = i % heads;
    const ConstMatrix from = cache.read(b, head, 0, count, first, width, scratch);
    for (Index t = 0; t < count; ++t) {
      std::copy_n(from.data + t * from.stride, width,
                  tape.value(y) + ((b * count + t) * heads + head) * width);
    }
  }
  tape.finish(y, [](Tape&, const Real*) {});
  return y;
}

}  // namespace headcount
