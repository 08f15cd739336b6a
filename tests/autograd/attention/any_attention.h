#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "autograd/op_cases.h"
#include "support/numbers.h"

namespace headcount {

/// Attention with options and sizes as they are drawn, of the op or of its composition.
struct AnyAttention {
  /// Columns [first, first + width) of an input, read as keys or as values.
  struct Part {
    std::size_t input;
    Index first, width;
    Rows of(std::span<const Var> x) const { return Rows(x[input]).columns(first, width); }
  };

  std::string name;                  ///< its options, in words
  std::vector<CheckedInput> inputs;  ///< queries, then what the parts read, log gates and sinks
  std::vector<Part> keys;
  Part values, pooled_keys, pooled_values;
  AttentionOptions options;  ///< those that are no inputs and no lists
  std::vector<std::uint8_t> mask;
  std::vector<std::int32_t> picked, picked_blocks;
  Index most = 0, most_blocks = 0;   ///< rows that a query picks; 0: it reads all
  PickedRows lists = {};             ///< those of `picked`: how many, and of which blocks
  Index block = 0;                   ///< tokens of a pooled row; 0: there are none
  std::size_t gates = 0, sinks = 0;  ///< inputs; 0: there are none
  /// If not null, statistics, and weights of the picked rows and blocks.
  std::shared_ptr<AttentionStats> stats;
  std::shared_ptr<Values> picked_weights, block_weights;

  /// Draws attention of `shortest` to `longest` keys; `seed` names the numbers of its inputs.
  AnyAttention(const Draw& any, Index shortest, Index longest, const std::string& seed);

  /// Calls attend(q, keys, values, options) on a training tape.
  template <class Attend>
  CheckedFunction with(Attend attend) const {
    return [self = std::make_shared<AnyAttention>(*this), attend](
               Tape& tape, std::span<const Var> x) { return self->call(tape, x, attend); };
  }

 private:
  void gather_blocks(Index queries, Index heads);
  template <class Attend>
  Var call(Tape& tape, std::span<const Var> x, Attend attend) const {
    const auto cleared = [](const std::shared_ptr<Values>& weights) -> Real* {
      if (weights == nullptr) return nullptr;
      std::ranges::fill(*weights, Real{0});
      return weights->data();
    };
    tape.set_training(true);
    tape.set_random(17, 4);
    AttentionOptions o = options;
    o.key_mask = mask;
    if (stats != nullptr) {
      *stats = {};
      stats->keeps_weights = true;
    }
    o.stats = stats.get();
    if (most > 0) {
      o.picked = lists;
      o.picked->rows = picked.data(), o.picked->most = most;
      o.picked->weights = cleared(picked_weights);
    }
    if (block > 0) {
      o.pooled = {.keys = pooled_keys.of(x), .values = pooled_values.of(x), .tokens = block};
      if (most_blocks > 0)
        o.pooled->picked = PickedRows{picked_blocks.data(), most_blocks, cleared(block_weights)};
    }
    std::optional<Rows> log_gates;
    if (gates > 0) log_gates = Rows(x[gates]);
    o.log_gates = log_gates ? &*log_gates : nullptr;
    if (sinks > 0) o.sinks = x[sinks];
    std::vector<Rows> parts;
    for (const Part& part : keys) parts.push_back(part.of(x));
    return attend(x[0], std::span<const Rows>(parts), values.of(x), o);
  }
};

/// The op, for AnyAttention::with.
inline Var fused_attention(Var q, std::span<const Rows> keys, const Rows& values,
                           const AttentionOptions& options) {
  return attention(q, keys, values, options);
}

}  // namespace headcount
