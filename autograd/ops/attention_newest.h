#pragma once

#include "autograd/ops.h"

namespace headcount {

/// The kernel of `attention` for one query of each sequence and head, q [B, 1, H, Dk], over rows
/// that are all in caches: each cached number is read once, in the form it is stored in. Writes
/// `out` [B, 1, H, Dv]. Not part of the public interface.
void attend_newest(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                   const AttentionOptions& options, Var out);

}  // namespace headcount
