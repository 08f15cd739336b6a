#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/finite_differences.h"
#include "autograd/ops.h"

/// The table of ops: for each, the ways to call it that every check of the engine goes through.
namespace headcount {

enum class CaseSize {
  tiny,            ///< few enough elements to perturb one by one
  several_chunks,  ///< enough for a parallel loop to have several chunks, the last one shorter
};

/// One way to call one op: with these options, at these inputs.
struct OpCase {
  std::string name;
  std::vector<CheckedInput> inputs;
  CheckedFunction function;
};

/// All cases of an op; empty if it has none. Inputs lie off kinks and poles.
std::vector<OpCase> op_cases(Op op, CaseSize size);

/// Reason why an op that computes nothing has no cases, with what checks it instead; empty if the
/// op needs cases.
std::string_view checked_without_cases(Op op);

/// Every op there is, and those that have cases.
std::vector<Op> all_ops();
std::vector<Op> ops_with_cases();

/// Collects the cases of one op.
class CaseList {
 public:
  CaseList(Op op, CaseSize size) : op_(op), size_(size) {}

  Index pick(Index tiny, Index large) const { return size_ == CaseSize::tiny ? tiny : large; }
  /// A case at inputs of these shapes, standard normal unless changed in what is returned.
  OpCase& add(const std::string& name, const std::vector<Shape>& shapes, CheckedFunction function);
  std::vector<OpCase> take() { return std::move(cases_); }

 private:
  Op op_;
  CaseSize size_;
  std::vector<OpCase> cases_;
};

void add_attention_cases(CaseList& cases);
void add_pool_tokens_cases(CaseList& cases);
void add_pick_rows_cases(CaseList& cases);
void add_index_loss_cases(CaseList& cases);

/// Random q, k, v, g and beta that suit the gated delta rule: short keys, decays and betas in (0,
/// 1).
void make_delta_inputs(std::vector<CheckedInput>& inputs);

}  // namespace headcount
