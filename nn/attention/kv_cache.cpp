#include "nn/attention/kv_cache.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "autograd/error.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

template <class Number>
using Numbers = Eigen::Map<Eigen::Array<Number, Eigen::Dynamic, 1>>;
template <class Number>
using ConstNumbers = Eigen::Map<const Eigen::Array<Number, Eigen::Dynamic, 1>>;

Index number_bytes(CacheType type) {
  switch (type) {
    case CacheType::real:
      return sizeof(Real);
    case CacheType::f16:
      return sizeof(Eigen::half);
    case CacheType::int8:
      return sizeof(std::int8_t);
  }
  return 0;
}

}  // namespace

Index cache_bytes(CacheType type, Index elements, Index vectors) {
  return elements * number_bytes(type) +
         (type == CacheType::int8 ? vectors * static_cast<Index>(sizeof(float)) : 0);
}

CacheTensor::CacheTensor(Index sequences, Index heads, Index width, Index capacity, CacheType type)
    : sequences_(sequences),
      heads_(heads),
      width_(width),
      capacity_(capacity),
      type_(type),
      row_bytes_(width * number_bytes(type)),
      bytes_(
          cache_bytes(type, sequences * heads * capacity * width, sequences * heads * capacity)) {
  const Index rows = sequences * heads * capacity;
  numbers_ = allocate_aligned(static_cast<std::size_t>(rows * row_bytes_));
  if (type == CacheType::int8)
    scales_ = allocate_aligned(static_cast<std::size_t>(rows) * sizeof(float));
}

void CacheTensor::write(Index sequence, Index position, const Real* numbers) {
  for (Index head = 0; head < heads_; ++head) {
    const Index index = row_index(sequence, head, position % capacity_);
    const ConstNumbers<Real> from(numbers + head * width_, width_);
    switch (type_) {
      case CacheType::real:
        Numbers<Real>(reinterpret_cast<Real*>(row(index)), width_) = from;
        break;
      case CacheType::f16:
        Numbers<Eigen::half>(reinterpret_cast<Eigen::half*>(row(index)), width_) =
            from.template cast<Eigen::half>();
        break;
      case CacheType::int8: {
        const Real most = from.abs().maxCoeff();
        const Real step = most > 0 ? most / 127 : Real{1};
        *scale(index) = static_cast<float>(step);
        Numbers<std::int8_t>(reinterpret_cast<std::int8_t*>(row(index)), width_) =
            (from / step).round().template cast<std::int8_t>();
        break;
      }
    }
  }
}

ConstMatrix CacheTensor::read(Index sequence, Index head, Index slot, Index count,
                              Real* scratch) const {
  const Index first = row_index(sequence, head, slot);
  if (type_ == CacheType::real) return {reinterpret_cast<const Real*>(row(first)), count, width_};
  if (type_ == CacheType::f16) {
    Numbers<Real>(scratch, count * width_) =
        ConstNumbers<Eigen::half>(reinterpret_cast<const Eigen::half*>(row(first)), count * width_)
            .cast<Real>();
  } else {
    for (Index i = 0; i < count; ++i) {
      Numbers<Real>(scratch + i * width_, width_) =
          ConstNumbers<std::int8_t>(reinterpret_cast<const std::int8_t*>(row(first + i)), width_)
              .cast<Real>() *
          static_cast<Real>(*scale(first + i));
    }
  }
  return {scratch, count, width_};
}

void CacheTensor::copy_first(const CacheTensor& other) {
  const Index rows = heads_ * capacity_;
  for (Index sequence = 0; sequence < sequences_; ++sequence) {
    std::memcpy(row(sequence * rows), other.row(0), static_cast<std::size_t>(rows * row_bytes_));
    if (type_ != CacheType::int8) continue;
    std::memcpy(scale(sequence * rows), other.scale(0),
                static_cast<std::size_t>(rows) * sizeof(float));
  }
}

Index KvCache::bytes() const {
  Index total = 0;
  for (const CacheTensor& tensor : tensors) total += tensor.bytes();
  return total;
}

void KvCache::write(std::size_t tensor, Var x) {
  const Shape shape = x.shape();
  const Real* rows = x.value().data();
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index t = 0; t < shape[1]; ++t) {
      tensors[tensor].write(b, length + t, rows + (b * shape[1] + t) * shape[2] * shape[3]);
    }
  }
}

namespace {

// All of slots [0, count) into x [B, count, heads, width].
Var read_slots(Tape& tape, const CacheTensor& tensor, Index sequences, Index count) {
  const Index heads = tensor.heads(), width = tensor.width();
  const Var x = tape.record(Op::reshape, {sequences, count, heads, width}, {});
  Real* scratch = tape.scratch(count * width);
  for (Index i = 0; i < sequences * heads; ++i) {
    const Index b = i / heads, head = i % heads;
    const ConstMatrix rows = tensor.read(b, head, 0, count, scratch);
    for (Index t = 0; t < count; ++t) {
      std::copy_n(rows.data + t * width, width,
                  tape.value(x) + ((b * count + t) * heads + head) * width);
    }
  }
  return x;
}

constexpr Index kKeyChunk = 512;  // keys per task
constexpr Index kAligned = static_cast<Index>(kAlignment / sizeof(Real));

// Keys that are read at once: few enough that their rows stay in the first-level cache while each
// query head of a group goes over them.
Index keys_per_piece(Index width) {
  constexpr Index kNumbers = 8192;
  return std::clamp(kNumbers / width / kAligned * kAligned, kAligned, kKeyChunk);
}

// One query per sequence and head, in two passes over the slots, each in tasks of one cached head
// and one chunk of its keys: all scores; then their exponentials and what these weigh of the
// values. Between the passes each row's scale and greatest score are known, at the end its sum:
// chunks are put together in their order.
class OneToken {
 public:
  OneToken(Var query, Var output, const CacheTensor& key_rows, const CacheTensor& value_rows,
           Index held, const AttentionOptions& attention_options)
      : shape(query.shape()),
        q(query.value().data()),
        out(query.tape->value(output)),
        keys(key_rows),
        values(value_rows),
        options(attention_options),
        count(held),
        v_width(output.shape()[3]),
        group(shape[2] / keys.heads()),
        chunks((held + kKeyChunk - 1) / kKeyChunk) {
    // Sizes of a full cache, so that every token takes the same memory.
    const Index most_tasks =
        shape[0] * keys.heads() * ((keys.capacity() + kKeyChunk - 1) / kKeyChunk);
    const Index width = std::max(keys.width(), values.width());
    piece_keys = keys_per_piece(width);
    piece = keys.converts() ? piece_keys * width : 0;
    Tape& tape = *query.tape;
    stride = (keys.capacity() + kAligned - 1) / kAligned * kAligned;
    scores = tape.scratch(shape[0] * shape[2] * stride);
    converted = tape.scratch(most_tasks * piece);
    sums = tape.scratch(most_tasks * group * v_width);
    sums_of_exp = tape.scratch(most_tasks * group);
    extents = tape.scratch_of<Extent>(most_tasks * group);
    row_scales = tape.scratch_of<Scale>(most_tasks * group);
  }

  void run() {
    const Index tasks = shape[0] * keys.heads() * chunks;
    const Index chunk = task_chunk(group * std::min(kKeyChunk, count) * shape[3]);
    const auto for_tasks = [&](void (OneToken::*body)(Index) const) {
      parallel_chunks(tasks, chunk, [&](Index begin, Index end) {
        for (Index task = begin; task < end; ++task) (this->*body)(task);
      });
    };
    for_tasks(&OneToken::score);
    for_tasks(&OneToken::weigh);
    for (Index h = 0; h < shape[0] * keys.heads(); ++h) {
      for (Index i = 0; i < group; ++i) add_chunks(h, i);
    }
  }

 private:
  // Of the scores of one query head: with these of all chunks, a row can be scaled.
  struct Extent {
    Real least, most, squares;
  };
  struct Scale {
    Real factor, most;  // the greatest score after the factor
  };

  Index first_key(Index task) const { return task % chunks * kKeyChunk; }
  Index key_count(Index task) const { return std::min(kKeyChunk, count - first_key(task)); }
  // Task -> cached head, over all sequences; its `group` query heads lie side by side.
  Index head(Index task) const { return task / chunks; }

  // Calls body(slot, count) for the pieces of a task's slots.
  template <class Body>
  void for_pieces(Index task, const Body& body) const {
    const Index end = first_key(task) + key_count(task);
    for (Index slot = first_key(task); slot < end; slot += piece_keys) {
      body(slot, std::min(piece_keys, end - slot));
    }
  }

  void score(Index task) const {
    const Index h = head(task);
    for_pieces(task, [&](Index slot, Index n) {
      const ConstMatrix k =
          keys.read(h / keys.heads(), h % keys.heads(), slot, n, converted + task * piece);
      for (Index i = h * group; i < (h + 1) * group; ++i) {
        multiply(Matrix(scores + i * stride + slot, 1, n),
                 ConstMatrix(q + i * shape[3], 1, shape[3]), k.transpose());
      }
    });
    for (Index i = 0; i < group; ++i) {
      const ConstNumbers<Real> row(scores + (h * group + i) * stride + first_key(task),
                                   key_count(task));
      extents[task * group + i] = {row.minCoeff(), row.maxCoeff(), row.square().sum()};
    }
  }

  // Where row i of a task's group has its results in chunk c.
  Index place(Index h, Index c, Index i) const { return (h * chunks + c) * group + i; }

  Scale scale_of(Index h, Index i) const {
    Extent all = extents[place(h, 0, i)];
    for (Index c = 1; c < chunks; ++c) {
      const Extent& one = extents[place(h, c, i)];
      all = {std::min(all.least, one.least), std::max(all.most, one.most),
             all.squares + one.squares};
    }
    Real factor = options.scale;
    if (options.row_scale == RowScale::inverse_norm) {
      factor = all.squares > 0 ? factor / std::sqrt(all.squares) : Real{0};
    } else if (options.row_scale == RowScale::inverse_sqrt_length) {
      factor /= std::sqrt(static_cast<Real>(count));
    }
    return {factor, factor * (factor < 0 ? all.least : all.most)};
  }

  void weigh(Index task) const {
    const Index h = head(task);
    Real* const sum = sums + task * group * v_width;
    Real* const sum_of_exp = sums_of_exp + task * group;
    std::fill_n(sum, group * v_width, Real{0});
    std::fill_n(sum_of_exp, group, Real{0});
    Scale* const scales = row_scales + task * group;
    for (Index i = 0; i < group; ++i) scales[i] = scale_of(h, i);
    for_pieces(task, [&](Index slot, Index n) {
      const ConstMatrix v =
          values.read(h / values.heads(), h % values.heads(), slot, n, converted + task * piece);
      for (Index i = 0; i < group; ++i) {
        Numbers<Real> weights(scores + (h * group + i) * stride + slot, n);
        weights = (weights * scales[i].factor - scales[i].most).exp();
        sum_of_exp[i] += weights.sum();
        add_weighted(sum + i * v_width, weights.data(), v);
      }
    });
  }

  void add_chunks(Index h, Index i) const {
    Numbers<Real> total(out + (h * group + i) * v_width, v_width);
    total.setZero();
    Real sum_of_exp = 0;
    for (Index c = 0; c < chunks; ++c) {
      total += ConstNumbers<Real>(sums + place(h, c, i) * v_width, v_width);
      sum_of_exp += sums_of_exp[place(h, c, i)];
    }
    total /= sum_of_exp;
  }

  // sum += weights v, a few rows at once, so that the sum is not read and written for each.
  void add_weighted(Real* sum, const Real* weights, const ConstMatrix& v) const {
    Numbers<Real> total(sum, v_width);
    const auto row = [&](Index j) { return ConstNumbers<Real>(v.data + j * v.stride, v_width); };
    Index j = 0;
    for (; j + 4 <= v.rows; j += 4) {
      total += weights[j] * row(j) + weights[j + 1] * row(j + 1) + weights[j + 2] * row(j + 2) +
               weights[j + 3] * row(j + 3);
    }
    for (; j < v.rows; ++j) total += weights[j] * row(j);
  }

  Shape shape;
  const Real* q;
  Real* out;
  const CacheTensor &keys, &values;
  const AttentionOptions& options;
  Index count, v_width, group, chunks;
  Index piece_keys;
  Index piece;        // numbers of a piece of keys or values that must be converted
  Index stride;       // of rows of scores: each piece starts aligned
  Real* scores;       // [B, H, stride]
  Real* converted;    // [tasks, piece]
  Real* sums;         // [tasks, group, v_width]
  Real* sums_of_exp;  // [tasks, group]
  Extent* extents;    // [tasks, group]
  Scale* row_scales;  // [tasks, group]
};

}  // namespace

Var KvCache::read(std::size_t tensor, Tape& tape, Index sequences, Index total) const {
  return read_slots(tape, tensors[tensor], sequences, std::min(total, tensors[tensor].capacity()));
}

Var attend_cached(Var q, const KvCache& cache, std::size_t keys, std::size_t values,
                  Index value_width, const AttentionOptions& options) {
  const Shape shape = q.shape();
  Tape& tape = *q.tape;
  const CacheTensor &k = cache.tensors[keys], &v = cache.tensors[values];
  const Index total = cache.length + shape[1];
  if (shape[1] == 1) {
    const Var y = tape.record(Op::attention, shape.with_last(value_width), {});
    OneToken(q, y, k, v, std::min(total, k.capacity()), options).run();
    return y;
  }
  if (total > k.capacity()) {
    throw ShapeError(
        "decoding several tokens at once would overwrite cached ones; feed one at a time");
  }
  const Var all_k = read_slots(tape, k, shape[0], total);
  const Var all_v = read_slots(tape, v, shape[0], total);
  const Var columns = v.width() == value_width
                          ? all_v
                          : split(all_v, std::array{value_width, v.width() - value_width})[0];
  return attention(q, all_k, columns, options);
}

}  // namespace headcount
