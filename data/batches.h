#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/no_target.h"
#include "autograd/random.h"
#include "autograd/real.h"

namespace headcount {

/// What is known of a text beside its tokens. All of it may be empty.
struct TextMarks {
  /// [tokens]: at an answer (see Story), how many tokens back the one stands that tells it; 0
  /// elsewhere.
  std::span<const std::int32_t> answers = {};
  /// Where windows begin: ascending, 0 the first. Empty: windows begin anywhere. Training windows
  /// begin here only; evaluation windows, which cover all of a text, also every `context` tokens.
  std::span<const Index> starts = {};
  bool only_answers = false;  ///< the loss counts answers alone: other targets are kNoTarget
};

/// How many of `targets` the loss counts.
Index counted(std::span<const std::int32_t> targets);

/// Token sequences of one length and what follows each token. Functions that fill a batch reuse its
/// memory: after the first call at a given size they allocate nothing.
struct Batch {
  std::vector<std::int32_t> inputs;   ///< [sequences, length], row-major
  std::vector<std::int32_t> targets;  ///< [sequences, length]: the token after each input, or
                                      ///< kNoTarget where the loss does not count it
  Index sequences = 0;
  Index length = 0;
};

/// Fills `out` with `batch` windows of `context` tokens and their targets, each at a start drawn
/// uniformly from 0 .. tokens - context - 1, or from those of `marks.starts`. Window i of `key`
/// (its stream the batches', its step the training step) is a pure function of key and i. Throws
/// DataError for a text shorter than context + 1 tokens, ShapeError for batch or context below 1.
void sample_windows(std::span<const std::int32_t> tokens, const RandomKey& key, Index batch,
                    Index context, Batch& out, const TextMarks& marks = {});

/// Where the windows begin that cover `tokens` tokens in order so that each target (each token but
/// the first) is counted in one of them: every `context` tokens, and anew at each of `starts`.
/// Throws as sample_windows.
std::vector<Index> evaluation_windows(Index tokens, Index context,
                                      std::span<const Index> starts = {});

/// Fills `out` with up to `max_windows` of these `windows` from number `first_window` on. What
/// belongs to the next window is no target of this one. Windows are `context` long; one that meets
/// the end of the text before is shorter and comes as a batch of its own, so advance by
/// out.sequences:
///
///     for (Index w = 0; w < windows.size(); w += batch.sequences)
///       evaluation_window_batch(tokens, windows, w, 8, context, batch);
///
/// Throws as sample_windows, and ShapeError for a `first_window` that does not exist or
/// `max_windows` below 1.
void evaluation_window_batch(std::span<const std::int32_t> tokens, std::span<const Index> windows,
                             Index first_window, Index max_windows, Index context, Batch& out,
                             const TextMarks& marks = {});

}  // namespace headcount
