#include "autograd/parameters.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/base/error.h"
#include "autograd/parallel.h"
#include "autograd/random.h"

namespace headcount {

ParameterId ParameterStore::add(std::string name, Shape shape, Initializer initializer,
                                MatrixRows rows) {
  if (values_) throw ShapeError("parameter {} comes after the store was allocated", name);
  if (!index_.emplace(name, entries_.size()).second)
    throw ShapeError("two parameters are named {}", name);
  constexpr Index kPadding = static_cast<Index>(kAlignment / sizeof(Real));
  const Index padded = (shape.size() + kPadding - 1) / kPadding * kPadding;
  entries_.push_back({std::move(name), shape, initializer, rows, padded_count_});
  element_count_ += shape.size();
  if (__builtin_add_overflow(padded_count_, padded, &padded_count_) ||
      std::int64_t{padded_count_} > std::numeric_limits<std::int64_t>::max() / 64) {
    throw ShapeError("the model's parameters are too many for {} bits; lower `dim` or `layers`",
                     8 * sizeof(Index));
  }
  return {entries_.size() - 1};
}

Gradients::Gradients(const ParameterStore& parameters)
    : memory_(parameters.zeros()), arrived_(parameters.size(), false) {}

AlignedMemory ParameterStore::zeros() const {
  const std::uint64_t bytes = static_cast<std::uint64_t>(padded_count_) * sizeof(Real);
  AlignedMemory buffer = allocate_aligned(bytes);
  std::memset(buffer.get(), 0, static_cast<std::size_t>(bytes));
  return buffer;
}

void ParameterStore::allocate() {
  values_ = zeros();
  gradients_ = Gradients(*this);
}

namespace {

// Number `index` of a tensor's initial values.
double initial_number(const Initializer& start, const RandomKey& key, std::uint64_t index) {
  if (start.kind == Initializer::Kind::constant) return start.low;
  if (start.kind == Initializer::Kind::normal) return start.high * random_normal(key, index);
  const double uniform = 1 - random_uniform(key, index);  // never 0
  const double number = start.low + (start.high - start.low) * uniform;
  if (start.kind == Initializer::Kind::uniform) return number;
  if (start.kind == Initializer::Kind::log_uniform) return std::log(number);
  const double step = start.low * std::pow(start.high / start.low, uniform);
  return step + std::log(-std::expm1(-step));  // softplus of it is `step`
}

}  // namespace

void ParameterStore::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < size(); ++i) {
    const Entry& e = entries_[i];
    const RandomKey key{seed, random_stream(e.name), 0};
    Real* const x = value({i}).data();
    parallel_chunks(e.shape.size(), kElementChunk, [&](Index begin, Index end) {
      for (Index j = begin; j < end; ++j)
        x[j] = static_cast<Real>(initial_number(e.initializer, key, static_cast<std::uint64_t>(j)));
    });
  }
}

ParameterId ParameterStore::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw ShapeError("the model has no parameter {}", name);
  return {found->second};
}

std::span<const Real> ParameterStore::gradient(const Gradients& gradients, ParameterId id) const {
  const std::span<const Real> result = slice(gradients.memory_, id);
  if (!gradients.arrived_[id.index]) return {};
  return result;
}

std::span<Real> ParameterStore::complete_gradients(Gradients& gradients) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const std::span<Real> gradient = slice(gradients.memory_, {i});
    if (!gradients.arrived_[i]) std::ranges::fill(gradient, Real{0});
    gradients.arrived_[i] = true;
  }
  return whole(gradients.memory_);
}

std::span<Real> ParameterStore::slice(const AlignedMemory& buffer, ParameterId id) const {
  if (!buffer) throw ShapeError("parameter {} has no memory before allocate()", name(id));
  const Entry& e = entry(id);
  return {reinterpret_cast<Real*>(buffer.get()) + e.offset,
          static_cast<std::size_t>(e.shape.size())};
}

std::span<Real> ParameterStore::whole(const AlignedMemory& buffer) const {
  return {reinterpret_cast<Real*>(buffer.get()), static_cast<std::size_t>(padded_count_)};
}

}  // namespace headcount
