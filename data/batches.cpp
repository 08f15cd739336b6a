#include "data/batches.h"

#include <algorithm>

#include "autograd/base/count.h"
#include "autograd/base/error.h"

namespace headcount {

namespace {

void check_context(Index tokens, Index context) {
  if (tokens > context) return;
  throw DataError(
      "the context of {} is longer than the text of {} characters allows (context + 1); shorten "
      "the context or use more text",
      context, tokens);
}

void resize(Batch& batch, Index sequences, Index length) {
  batch.sequences = sequences;
  batch.length = length;
  batch.tokens = 0;
  const auto tokens = static_cast<std::size_t>((Count(sequences) * length).index());
  batch.inputs.resize(tokens);
  batch.targets.resize(tokens);
}

/// Position up to which the targets of window number `window` are counted.
Index end_of(std::span<const Index> windows, Index window, Index tokens) {
  return window + 1 < std::ssize(windows) ? windows[window + 1] : tokens - 1;
}

/// Copies the window that begins at `start` into row `row`. Targets after `end` are not counted.
void copy_window(std::span<const std::int32_t> tokens, Index start, Index end, Index row,
                 const TextMarks& marks, Batch& batch) {
  const auto first = tokens.begin() + start;
  const Index offset = row * batch.length;
  const Index counted = std::min(batch.length, end - start);
  const Index read = marks.one_document ? counted : batch.length;
  const auto inputs = batch.inputs.begin() + offset, targets = batch.targets.begin() + offset;
  std::copy_n(first, read, inputs);
  std::fill(inputs + read, inputs + batch.length, 0);
  std::copy_n(first + 1, counted, targets);
  std::fill(targets + counted, targets + batch.length, kNoTarget);
  batch.tokens += read;
  if (!marks.only_answers) return;
  for (Index i = 0; i < counted; ++i) {
    const Index position = start + 1 + i;
    targets[i] = marks.distances[position] != 0 ? target_at(tokens, position, marks) : kNoTarget;
  }
}

}  // namespace

std::int32_t target_at(std::span<const std::int32_t> tokens, Index position,
                       const TextMarks& marks) {
  return tokens[position - (marks.hidden_answers ? marks.distances[position] : 0)];
}

Index counted(std::span<const std::int32_t> targets) {
  return std::ssize(targets) - std::ranges::count(targets, kNoTarget);
}

void sample_windows(std::span<const std::int32_t> tokens, const RandomKey& key, Index batch,
                    Index context, Batch& out, const TextMarks& marks) {
  const Index size = std::ssize(tokens);
  if (!marks.one_document) check_context(size, context);
  resize(out, batch, context);
  const auto fits = std::ranges::lower_bound(marks.starts, size - context);
  const Index starts = marks.one_document     ? std::ssize(marks.starts)
                       : marks.starts.empty() ? size - context
                                              : fits - marks.starts.begin();
  for (Index row = 0; row < batch; ++row) {
    const auto drawn = static_cast<Index>(random_below(key, row, starts));
    copy_window(tokens, marks.starts.empty() ? drawn : marks.starts[drawn],
                marks.one_document ? end_of(marks.starts, drawn, size) : size, row, marks, out);
  }
}

std::vector<Index> evaluation_windows(Index tokens, Index context, std::span<const Index> starts) {
  if (tokens < 2)
    throw DataError("a text of {} characters has nothing to predict; use a longer one", tokens);
  std::vector<Index> windows;
  auto next = starts.begin();
  for (Index start = 0; start < tokens - 1;) {
    windows.push_back(start);
    while (next != starts.end() && *next <= start) ++next;
    start += context;
    if (next != starts.end()) start = std::min(start, *next);
  }
  return windows;
}

Index longest_window(std::span<const Index> windows, Index tokens) {
  Index longest = 0;
  for (Index window = 0; window < std::ssize(windows); ++window)
    longest = std::max(longest, end_of(windows, window, tokens) - windows[window]);
  return longest;
}

void evaluation_window_batch(std::span<const std::int32_t> tokens, std::span<const Index> windows,
                             Index first_window, Index max_windows, Index context, Batch& out,
                             const TextMarks& marks) {
  const Index size = std::ssize(tokens);
  const Index last = std::min(std::ssize(windows), first_window + max_windows);
  const auto length = [&](Index window) {
    const Index end = marks.one_document ? end_of(windows, window, size) : size - 1;
    return std::min(context, end - windows[window]);
  };
  Index next = first_window + 1;
  while (next < last && length(next) == length(first_window)) ++next;
  resize(out, next - first_window, length(first_window));
  for (Index window = first_window; window < next; ++window) {
    copy_window(tokens, windows[window], end_of(windows, window, size), window - first_window,
                marks, out);
  }
}

}  // namespace headcount
