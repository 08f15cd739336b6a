#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/no_target.h"
#include "autograd/random.h"

namespace headcount {

/// Number of directions in which the questions of a text can ask: see TextMarks::directions.
inline constexpr Index kMostDirections = 12;

/// Marks of a text beside its tokens. Each list may be empty.
struct TextMarks {
  /// [tokens]: at an answer, the distance back to the token it follows from; 0 elsewhere. See
  /// Story.
  std::span<const std::int32_t> distances = {};
  /// Positions where windows may begin, ascending from 0. Empty: windows begin anywhere. Training
  /// windows begin at these positions only; evaluation windows, which cover the whole text, also
  /// begin every `context` tokens.
  std::span<const Index> starts = {};
  bool only_answers = false;  ///< the loss counts answers alone: other targets are kNoTarget
  /// Answers do not stand in the text: the target at an answer is the token that it follows from.
  bool hidden_answers = false;
  /// [vocabulary]: direction in which a question asks that is this token, below kMostDirections; -1
  /// for any other token. Empty if questions have no directions.
  std::span<const Index> directions = {};
  /// A window holds one document, or a slice of one: its targets end at the next of `starts`, at
  /// which the next document begins. The rest of the window is padding, which the loss does not
  /// count and no earlier token reads.
  bool one_document = false;
};

/// Token that a model has to predict at `position` of `tokens`, from the tokens before it.
std::int32_t target_at(std::span<const std::int32_t> tokens, Index position,
                       const TextMarks& marks);

/// Number of `targets` other than kNoTarget: the loss counts these.
Index counted(std::span<const std::int32_t> targets);

/// Token sequences of equal length, with the token that follows each token. Functions that fill a
/// batch allocate nothing after the first call at a given size.
struct Batch {
  std::vector<std::int32_t> inputs;   ///< [sequences, length], row-major
  std::vector<std::int32_t> targets;  ///< [sequences, length]: the token after each input, or
                                      ///< kNoTarget where the loss does not count it
  Index sequences = 0;
  Index length = 0;
  Index tokens = 0;  ///< inputs that are no padding
};

/// Fills `out` with `batch` windows of `context` tokens and their targets, each at a start drawn
/// uniformly from 0 .. tokens - context - 1, or from `marks.starts` if given. Window i is a pure
/// function of i and `key`, whose step is the number of the batch. Throws DataError for a text
/// shorter than context + 1 tokens. With `marks.one_document`, `marks.starts` are windows as
/// `evaluation_windows` returns them, none of them longer than `context`.
void sample_windows(std::span<const std::int32_t> tokens, const RandomKey& key, Index batch,
                    Index context, Batch& out, const TextMarks& marks = {});

/// Start positions of the windows that cover `tokens` tokens in order. Each target (each token but
/// the first) is counted in exactly one window. A window starts every `context` tokens, counted
/// anew from each of `starts`. Throws DataError for fewer than two tokens.
std::vector<Index> evaluation_windows(Index tokens, Index context,
                                      std::span<const Index> starts = {});

/// Length in tokens of the longest of the `windows` that `evaluation_windows` returned: the
/// distance from a window's start to the next one's, or to the end of the text.
Index longest_window(std::span<const Index> windows, Index tokens);

/// Fills `out` with up to `max_windows` windows, the first of which starts at position
/// windows[first_window]. Targets of the next window are not counted in this one. Windows are
/// `context` tokens long, those of one document as long as it, and shorter at the end of the text.
/// Windows of another length than the first are left for the next batch, so advance by
/// out.sequences:
///
///     for (Index w = 0; w < windows.size(); w += batch.sequences)
///       evaluation_window_batch(tokens, windows, w, 8, context, batch);
///
/// `windows` must come from `evaluation_windows` for these tokens and this context; nothing is
/// checked.
void evaluation_window_batch(std::span<const std::int32_t> tokens, std::span<const Index> windows,
                             Index first_window, Index max_windows, Index context, Batch& out,
                             const TextMarks& marks = {});

}  // namespace headcount
