#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/checks/finite_differences.h"
#include "autograd/ops.h"

/// The table of ops: how each is called, which every check of the engine goes through, and the
/// formula that it computes.
namespace headcount {

enum class CaseSize {
  tiny,   ///< few enough elements to perturb one by one
  large,  ///< enough for a parallel loop to have several chunks, the last one shorter
};

/// Draws a number from `least` to `most`: of rapidcheck, or of a generator with a seed.
using Draw = std::function<Index(Index least, Index most)>;

/// One way to call one op: with these options, at these inputs, which lie off kinks and poles.
struct OpCase {
  std::string name;
  std::vector<CheckedInput> inputs;
  CheckedFunction function;
  CheckedFunction composed;  ///< the formula (see compositions.h); empty for dropout and reshape
};

/// An op with cases, with options and sizes as they are drawn.
OpCase any_case(Op op, CaseSize size, const Draw& any);
/// Cases that a generator draws with a fixed seed.
std::vector<OpCase> op_cases(Op op, CaseSize size);

/// Every op that computes something of its inputs: none of leaves, parameters (GradientParameters
/// checks a store's) and copies of cached rows.
std::vector<Op> ops_with_cases();

}  // namespace headcount
