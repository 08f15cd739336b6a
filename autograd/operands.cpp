#include "autograd/operands.h"

#include <Eigen/Core>
#include <cstdint>

#include "autograd/parameters.h"

namespace headcount {

ParameterStore::Rounded::Rounded(ParameterStore& parameters) : parameters_(parameters) {
  if (parameters.precision_ == Precision::f32) return;
  AlignedMemory& to = parameters.rounded_;
  const std::span<const Real> values = parameters.all_values();
  if (!to) to = allocate_aligned(sizeof(std::uint16_t) * values.size());
  round_to_bf16(values.data(), std::ssize(values), reinterpret_cast<Eigen::bfloat16*>(to.get()));
  parameters.is_rounded_ = true;
}

const Eigen::bfloat16* ParameterStore::rounded(ParameterId id) const {
  if (!is_rounded_) return nullptr;
  const auto offset = sizeof(std::uint16_t) * static_cast<std::size_t>(entry(id).offset);
  return reinterpret_cast<const Eigen::bfloat16*>(rounded_.get() + offset);
}

const Eigen::bfloat16* Tape::rounded(Var x) {
  Node& n = node(x);
  if (n.rounded == nullptr && n.parameter.valid()) n.rounded = parameters_->rounded(n.parameter);
  if (n.rounded == nullptr) {
    auto* const to = static_cast<Eigen::bfloat16*>(
        arena_.take(sizeof(std::uint16_t) * static_cast<std::uint64_t>(n.shape.size())));
    round_to_bf16(n.value, n.shape.size(), to);
    n.rounded = to;
  }
  return n.rounded;
}

namespace {

bool rounds(const Tape& tape, Index rows) {
  return tape.precision() == Precision::bf16 && rows >= kFewRows;
}

}  // namespace

ConstMatrix operand(Tape& tape, Var x, Index rows, Index cols, Index products) {
  ConstMatrix matrix(tape.value(x), rows, cols);
  if (rounds(tape, products)) matrix.rounded = tape.rounded(x);
  return matrix;
}

GradientOperand::GradientOperand(Tape& tape, const Real* dy, Index rows, Index cols)
    : tape_(tape), matrix_(dy, rows, cols) {
  if (!rounds(tape, rows)) return;
  memory_ = tape.pool().take((rows * cols + 1) / 2);
  auto* const to = reinterpret_cast<Eigen::bfloat16*>(memory_);
  round_to_bf16(dy, rows * cols, to);
  matrix_.rounded = to;
}

GradientOperand::~GradientOperand() {
  if (memory_ != nullptr) tape_.pool().give_back(memory_);
}

}  // namespace headcount
