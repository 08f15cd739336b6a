#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/finite_differences.h"
#include "autograd/ops.h"

namespace headcount {

/// Draws a number from `least` to `most`: of rapidcheck, or of a generator with a seed.
using Draw = std::function<Index(Index least, Index most)>;

/// Attention with options and sizes as they are drawn, of the op or of its composition.
struct AnyAttention {
  std::string name;  ///< its options, in words
  /// q, k and v; then keys and values of pooled rows, log gates and sinks, where there are some.
  std::vector<CheckedInput> inputs;
  AttentionOptions options;  ///< those that are no inputs and no lists
  std::vector<std::uint8_t> mask;
  std::vector<std::int32_t> picked, picked_blocks;
  Index most = 0, most_blocks = 0;  ///< rows that a query picks; 0: it reads all
  Index block = 0;                  ///< tokens of a pooled row; 0: there are none
  bool gates = false, sinks = false;

  /// Calls attend(q, k, v, options) on a training tape.
  template <class Attend>
  CheckedFunction with(Attend attend) const {
    return
        [self = std::make_shared<AnyAttention>(*this), attend](Tape& tape, std::span<const Var> x) {
          tape.set_training(true);
          tape.set_random(17, 4);
          AttentionOptions o = self->options;
          o.key_mask = self->mask;
          if (self->most > 0) o.picked = PickedRows{self->picked.data(), self->most};
          std::size_t next = 3;
          if (self->block > 0) {
            o.pooled = {.keys = x[3], .values = x[4], .tokens = self->block};
            if (self->most_blocks > 0)
              o.pooled->picked = PickedRows{self->picked_blocks.data(), self->most_blocks};
            next = 5;
          }
          std::optional<Rows> log_gates;
          if (self->gates) log_gates = Rows(x[next++]);
          o.log_gates = log_gates ? &*log_gates : nullptr;
          if (self->sinks) o.sinks = x[next];
          return attend(x[0], x[1], x[2], o);
        };
  }
};

/// Any attention of `shortest` to `longest` keys. `seed` names the numbers of its inputs.
AnyAttention any_attention(const Draw& any, Index shortest, Index longest, const std::string& seed);

/// The op with one slice of keys, for AnyAttention::with.
inline Var fused_attention(Var q, Var k, Var v, const AttentionOptions& options) {
  return attention(q, k, v, options);
}

}  // namespace headcount
