#include "data/batches.h"

#include <algorithm>
#include <string>

#include "autograd/error.h"

namespace headcount {

namespace {

void check_context(Index tokens, Index context) {
  if (context < 1) {
    throw ShapeError("the context is " + std::to_string(context) + "; it must be at least 1");
  }
  if (tokens > context) return;
  throw DataError("the context of " + std::to_string(context) + " is longer than the text of " +
                  std::to_string(tokens) +
                  " characters allows (context + 1); shorten the context or use more text");
}

void resize(Batch& batch, Index sequences, Index length) {
  batch.sequences = sequences;
  batch.length = length;
  batch.inputs.resize(static_cast<std::size_t>(sequences * length));
  batch.targets.resize(static_cast<std::size_t>(sequences * length));
}

/// Copies the window that begins at `start` into row `row`.
void copy_window(std::span<const std::int32_t> tokens, Index start, Index row, Batch& batch) {
  const auto first = tokens.begin() + start;
  const Index offset = row * batch.length;
  std::copy_n(first, batch.length, batch.inputs.begin() + offset);
  std::copy_n(first + 1, batch.length, batch.targets.begin() + offset);
}

}  // namespace

void sample_windows(std::span<const std::int32_t> tokens, const RandomKey& key, Index batch,
                    Index context, Batch& out) {
  check_context(std::ssize(tokens), context);
  if (batch < 1) {
    throw ShapeError("the batch is " + std::to_string(batch) + "; it must be at least 1");
  }
  resize(out, batch, context);
  const auto starts = static_cast<std::uint64_t>(std::ssize(tokens) - context);
  for (Index row = 0; row < batch; ++row) {
    const auto start = random_below(key, static_cast<std::uint64_t>(row), starts);
    copy_window(tokens, static_cast<Index>(start), row, out);
  }
}

Index evaluation_windows(Index tokens, Index context) {
  check_context(tokens, context);
  return (tokens - 1 + context - 1) / context;
}

void evaluation_window_batch(std::span<const std::int32_t> tokens, Index first_window,
                             Index max_windows, Index context, Batch& out) {
  const Index windows = evaluation_windows(std::ssize(tokens), context);
  if (first_window < 0 || first_window >= windows || max_windows < 1) {
    throw ShapeError("there is no batch of " + std::to_string(max_windows) +
                     " evaluation windows at window " + std::to_string(first_window) + " of " +
                     std::to_string(windows) + "; ask for at least one that exists");
  }
  const Index targets = std::ssize(tokens) - 1;
  const Index full_left = targets / context - first_window;
  if (full_left > 0) {
    resize(out, std::min(max_windows, full_left), context);
  } else {
    resize(out, 1, targets % context);
  }
  for (Index row = 0; row < out.sequences; ++row) {
    copy_window(tokens, (first_window + row) * context, row, out);
  }
}

}  // namespace headcount
