#pragma once

#include "autograd/ops.h"

namespace headcount {

/// Kernel of `attention` for decoding: one query per sequence and head, q [B, 1, H, Dk], over keys
/// and values that all lie in the KV cache. Each cached number is read once, in the type it is
/// stored in. Writes `out` [B, 1, H, Dv]. Not part of the public interface.
void attend_newest(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                   const AttentionOptions& options, Var out);

}  // namespace headcount
