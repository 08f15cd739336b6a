#include <cmath>
#include <cstring>
#include <string>

#include "autograd/op_cases.h"

// The gradient checks of all ops, in double, for a program without GoogleTest: gradients.mjs calls
// them.
namespace {

using headcount::CaseSize;
using headcount::GradientReport;
using headcount::Op;
using headcount::OpCase;

constexpr double kTolerance = 1e-6;  // that of GradientOfOp

std::string failures;

// Checks the cases of an op; returns the number of derivatives compared.
int check(Op op, CaseSize size) {
  headcount::GradientCheckOptions options;
  if (size == CaseSize::several_chunks) options.every_element_up_to = 0;
  int derivatives = 0;
  for (const OpCase& c : headcount::op_cases(op, size)) {
    const GradientReport report = headcount::check_gradients(c.function, c.inputs, options);
    derivatives += static_cast<int>(report.derivatives);
    if (!(report.error <= kTolerance) || report.derivatives == 0)
      failures += c.name + ": " + report.text() + "\n";
  }
  return derivatives;
}

}  // namespace

extern "C" {

[[clang::export_name("op_count")]] int op_count() {
  return static_cast<int>(headcount::ops_with_cases().size());
}

[[clang::export_name("op_name")]] const char* op_name(int op) {
  static std::string text;
  text = headcount::name(headcount::ops_with_cases()[static_cast<std::size_t>(op)]);
  return text.c_str();
}

[[clang::export_name("check_op")]] int check_op(int op) {
  const Op checked = headcount::ops_with_cases()[static_cast<std::size_t>(op)];
  return check(checked, CaseSize::tiny) + check(checked, CaseSize::several_chunks);
}

// What has failed so far, one line for each case; empty if nothing has.
[[clang::export_name("failed")]] const char* failed() { return failures.c_str(); }

}  // extern "C"
