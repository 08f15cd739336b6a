#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/random.h"
#include "autograd/real.h"

namespace headcount {

/// Token sequences of one length and what follows each token. Functions that fill a batch reuse its
/// memory: after the first call at a given size they allocate nothing.
struct Batch {
  std::vector<std::int32_t> inputs;   ///< [sequences, length], row-major
  std::vector<std::int32_t> targets;  ///< [sequences, length]: the token after each input
  Index sequences = 0;
  Index length = 0;
};

/// Fills `out` with `batch` windows of `context` tokens and their targets, each at a start drawn
/// uniformly from 0 .. tokens - context - 1. Window i of `key` (its stream the batches', its step
/// the training step) is a pure function of key and i. Throws DataError for a text shorter than
/// context + 1 tokens, ShapeError for batch or context below 1.
void sample_windows(std::span<const std::int32_t> tokens, const RandomKey& key, Index batch,
                    Index context, Batch& out);

/// How many non-overlapping windows cover `tokens` tokens in order so that each target (each token
/// but the first) is in one of them: full windows of `context`, then, where that does not come out
/// even, a shorter one. Throws as sample_windows.
Index evaluation_windows(Index tokens, Index context);

/// Fills `out` with up to `max_windows` of these windows from number `first_window` on. The shorter
/// last window comes as a batch of its own, so advance by out.sequences:
///
///     for (Index w = 0; w < evaluation_windows(n, context); w += batch.sequences)
///       evaluation_window_batch(tokens, w, 8, context, batch);
///
/// Throws as sample_windows, and ShapeError for a `first_window` that does not exist or
/// `max_windows` below 1.
void evaluation_window_batch(std::span<const std::int32_t> tokens, Index first_window,
                             Index max_windows, Index context, Batch& out);

}  // namespace headcount
