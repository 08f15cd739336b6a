#include "data/batches.h"

#include <algorithm>
#include <string>

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
  const auto tokens = static_cast<std::size_t>((Count(sequences) * length).index());
  batch.inputs.resize(tokens);
  batch.targets.resize(tokens);
}

/// Copies the window that begins at `start` into row `row`. Targets from `end` on are not counted.
void copy_window(std::span<const std::int32_t> tokens, Index start, Index end, Index row,
                 const TextMarks& marks, Batch& batch) {
  const auto first = tokens.begin() + start;
  const Index offset = row * batch.length;
  std::copy_n(first, batch.length, batch.inputs.begin() + offset);
  const auto targets = batch.targets.begin() + offset;
  std::copy_n(first + 1, batch.length, targets);
  const Index counted = std::min(batch.length, end - start);
  std::fill(targets + counted, targets + batch.length, kNoTarget);
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
  check_context(size, context);
  resize(out, batch, context);
  const auto fits = std::ranges::lower_bound(marks.starts, size - context);
  const Index starts = marks.starts.empty() ? size - context : fits - marks.starts.begin();
  for (Index row = 0; row < batch; ++row) {
    const auto drawn = static_cast<Index>(random_below(key, row, starts));
    copy_window(tokens, marks.starts.empty() ? drawn : marks.starts[drawn], size, row, marks, out);
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

void evaluation_window_batch(std::span<const std::int32_t> tokens, std::span<const Index> windows,
                             Index first_window, Index max_windows, Index context, Batch& out,
                             const TextMarks& marks) {
  const Index count = std::ssize(windows), targets = std::ssize(tokens) - 1;
  Index full = first_window;
  while (full < std::min(count, first_window + max_windows) && windows[full] + context <= targets)
    ++full;
  if (full > first_window) {
    resize(out, full - first_window, context);
  } else {
    resize(out, 1, targets - windows[first_window]);
  }
  for (Index row = 0; row < out.sequences; ++row) {
    const Index window = first_window + row;
    const Index end = window + 1 < count ? windows[window + 1] : targets;
    copy_window(tokens, windows[window], end, row, marks, out);
  }
}

}  // namespace headcount
