#include "autograd/checks/dry_counts.h"

#include "autograd/tape.h"

namespace headcount {

DryCounts::OfOp DryCounts::sum() const {
  OfOp all;
  for (const OfOp& op : ops) {
    all.of_cache += op.of_cache;
    all.of_tokens += op.of_tokens;
  }
  return all;
}

bool Tape::dry(Var y, Count macs) {
  if (!is_dry()) return false;
  const Node& n = node(y);
  DryCounts::OfOp& counts = dry_->ops[static_cast<std::size_t>(n.op)];
  (n.of_cache ? counts.of_cache : counts.of_tokens) += macs;
  return true;
}

}  // namespace headcount
