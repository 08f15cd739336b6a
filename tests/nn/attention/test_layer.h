#pragma once

#include <memory>
#include <optional>
#include <string>

#include "nn/attention/attention.h"
#include "nn/attention/layer_config.h"
#include "nn/attention/random_weights.h"
#include "support/numbers.h"

/// Helpers for tests of attention layers.
namespace headcount {

using Mask = std::vector<std::uint8_t>;

/// Tolerance between two ways of computing the same in float. Random weights are large: scores of
/// 50 and more have rounding errors of about 1e-5, which a softmax passes on.
inline constexpr double kRounding = 1e-4;

/// A layer with random weights; weights of equal names are equal in all layers.
struct Layer {
  AttentionPlan config;
  ParameterStore store;
  std::unique_ptr<Attention> attention;

  explicit Layer(const LayerConfig& c) : config(resolved(c)) {
    attention = make_attention(store, "a", config, {});
    draw_weights(store);
  }
  std::span<Real> weight(const std::string& name) { return store.value(store.find("a." + name)); }

  /// Output for x; with `dropout`, on a training tape.
  Values forward(const Values& x, Index batch, const Mask& mask = {},
                 std::optional<Real> dropout = {}) const {
    Tape tape(store);
    tape.set_training(dropout.has_value(), dropout.value_or(0));
    const Index length = std::ssize(x) / batch / config.dim;
    Memory memory(mask);
    const Var y = attention->forward(tape.constant({batch, length, config.dim}, x), memory);
    return copy(y.value());
  }

  /// Output, then gradients of the input and of all weights for a random cotangent.
  Values forward_and_backward(const Values& x, Index batch) {
    Tape tape(&store);
    store.clear_gradients();
    const Index length = std::ssize(x) / batch / config.dim;
    const Var input = tape.leaf({batch, length, config.dim}, x);
    Memory memory;
    const Var y = attention->forward(input, memory);
    Values result = copy(y.value());
    tape.backward(y, normal_values(1, y.shape().size()));
    result.insert(result.end(), input.gradient().begin(), input.gradient().end());
    const std::span<const Real> gradients = store.complete_gradients();
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  }
};

/// Dim 12, two heads of 4, up to 9 tokens.
inline LayerConfig small_config(std::string_view kind) {
  LayerConfig config;
  config.kind = kind;
  config.dim = 12;
  set(config, "heads", 2);
  set(config, "head-dim", 4);
  config.max_positions = 9;
  return config;
}

}  // namespace headcount
