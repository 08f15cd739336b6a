#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/checkpoint/safetensors_file.h"
#include "nn/layer_config.h"
#include "nn/test_layer.h"

namespace headcount {

/// Runs a layer with the delta rule, of `kind` and the settings and weights of a fixture, on the
/// fixture's input, and compares what its cache holds after it: the state with `cache.state`, and
/// the last inputs of q, k and v with `convolutions`, each of which has those of one or more of
/// them: [B, channels, taps], where later tokens do not see the first of the taps.
inline void expect_kept_states(std::string_view kind, const std::string& fixture,
                               const std::vector<std::string>& convolutions) {
  const Safetensors file =
      open_safetensors(std::string(HEADCOUNT_FIXTURE_FOLDER) + "/" + fixture + ".safetensors");
  const auto json = nlohmann::json::parse(file.metadata().at("config"));
  LayerConfig config;
  config.kind = kind;
  config.dim = json.at("d_model");
  config.norm_epsilon = json.value("norm_eps", 0.0);
  for (const auto& [key, name] : {std::pair{"n_heads", "heads"},
                                  {"head_dim", "head-dim"},
                                  {"v_head_dim", "v-dim"},
                                  {"key_heads", "key-heads"},
                                  {"value_heads", "value-heads"},
                                  {"conv", "conv-taps"}}) {
    if (json.contains(key)) set(config, name, json[key].get<Index>());
  }
  const AttentionPlan plan = resolved(config);
  ParameterStore parameters;
  const auto layer = make_attention(parameters, "w", plan, {});
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    read_into(file.at(parameters.name({i})), parameters.value({i}));
  const TensorView& x = file.at("x");
  Values input(x.element_count());
  read_into(x, input);
  const Index batch = x.shape[0], length = x.shape[1];
  LayerCache cache = make_cache(plan, {.sequences = batch, .capacity = length});
  Tape tape(std::as_const(parameters));
  Memory memory(cache, length);
  layer->forward(tape.constant({batch, length, config.dim}, input), memory);

  const double tolerance = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-5;
  const std::vector<double> state = file.at("cache.state").to_doubles();
  ASSERT_EQ(cache.state("state").size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    EXPECT_NEAR(static_cast<double>(cache.state("state")[i]), state[i], tolerance);
  std::size_t tensor = 0;
  Index first = 0;
  for (const char* const name : {"q_inputs", "k_inputs", "v_inputs"}) {
    const TensorView& conv = file.at(convolutions.at(tensor));
    const std::vector<double> inputs = conv.to_doubles();
    const Index channels = conv.shape[1], taps = conv.shape[2];
    const std::span<const Real> kept = cache.state(name);
    const Index width = std::ssize(kept) / batch / (taps - 1);
    for (Index i = 0; i < std::ssize(kept); ++i) {
      const Index b = i / width / (taps - 1), tap = i / width % (taps - 1) + 1, c = i % width;
      EXPECT_NEAR(static_cast<double>(kept[static_cast<std::size_t>(i)]),
                  inputs[static_cast<std::size_t>((b * channels + first + c) * taps + tap)],
                  tolerance);
    }
    first += width;
    if (first < channels) continue;
    EXPECT_EQ(first, channels);
    first = 0;
    ++tensor;
  }
  EXPECT_EQ(tensor, convolutions.size());
}

}  // namespace headcount
