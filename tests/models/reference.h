#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/safetensors.h"
#include "nn/attention/attention.h"
#include "nn/layer_config.h"

/// Comparison with the fixtures, numbers that other people's code computed.
namespace headcount::reference {

using nlohmann::json;

inline constexpr bool kDouble = sizeof(Real) == sizeof(double);
/// Tolerances of outputs. In double absolute. In float all are relative to the largest number of a
/// tensor. A sum of n terms rounds to about sqrt(n) times 6e-8 of its terms, which are larger than
/// what they leave where they cancel, and products follow one another: the fixtures here keep to
/// 1e-5, but with 2 to 5 times their heads and widths and 24 to 100 tokens gradients reached 6e-5.
/// A wrong formula is off by 1e-2 or more.
inline constexpr double kOutputTolerance = kDouble ? 1e-9 : 1e-4;

inline std::vector<Real> reals(const TensorView& tensor) {
  std::vector<Real> values(tensor.element_count());
  read_into(tensor, values);
  return values;
}

inline Shape shape_of(const TensorView& tensor) {
  Shape shape;
  for (const std::int64_t extent : tensor.shape) shape.append(extent);
  return shape;
}

inline std::vector<std::int32_t> tokens_of(const TensorView& tensor) {
  const std::vector<double> wide = tensor.to_doubles();
  return {wide.begin(), wide.end()};
}

inline double largest(const TensorView& tensor) {
  double most = 0;
  for (const double value : tensor.to_doubles()) most = std::max(most, std::abs(value));
  return most;
}

/// Compares values with a tensor. In float, `tolerance` is relative to `size`, the size of the
/// largest numbers that they are computed from.
inline void expect_close(std::span<const Real> values, const TensorView& expected, double tolerance,
                         double size) {
  const std::vector<double> wanted = expected.to_doubles();
  ASSERT_EQ(values.size(), wanted.size()) << expected.name;
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // NaN must fail: it compares false with everything.
    const double error = std::abs(static_cast<double>(values[i]) - wanted[i]);
    worst = error <= worst ? worst : error;
  }
  EXPECT_LE(worst, kDouble ? tolerance : tolerance * size) << expected.name;
}

inline void expect_close(std::span<const Real> values, const TensorView& expected,
                         double tolerance) {
  expect_close(values, expected, tolerance, largest(expected));
}

inline void expect_close(double value, double expected, double tolerance) {
  EXPECT_NEAR(value, expected, kDouble ? tolerance : tolerance * std::abs(expected));
}

/// The settings of attention in a fixture's configuration.
inline void set_attention(const json& c, Given& a) {
  const std::string kind = c.value("attention", "mha");  // a pattern says it otherwise
  set(a, "heads", c.at("n_heads").get<Index>());
  if (kind == "gqa" || kind == "gta" || kind == "fox")
    set(a, "kv-heads", c.at("n_kv_heads").get<Index>());
  for (const auto& [key, name] : {std::pair{"head_dim", "head-dim"},
                                  {"kv_lora_rank", "kv-rank"},
                                  {"q_lora_rank", "q-rank"},
                                  {"qk_nope_head_dim", "nope-dim"},
                                  {"rope_dim", "rope-dim"},
                                  {"qk_rope_head_dim", "rope-dim"},
                                  {"v_head_dim", "v-dim"},
                                  {"latents", "latents"},
                                  {"kv_rank", "kv-factors"},
                                  {"q_rank", "q-factors"},
                                  {"latent_dim", "latent-dim"},
                                  {"key_heads", "key-heads"},
                                  {"value_heads", "value-heads"},
                                  {"conv", "conv-taps"},
                                  {"o_groups", "o-groups"},
                                  {"o_lora_rank", "o-rank"},
                                  {"compress", "compress"},
                                  {"index_heads", "index-heads"},
                                  {"index_head_dim", "index-head-dim"},
                                  {"index_topk", "index-topk"}}) {
    if (c.contains(key)) set(a, name, c[key].get<Index>());
  }
  set(a, "tie-kv", c.value("tie_kv", false));
  set(a, "qk-norm", c.value("qk_norm", false));
  set(a, "latent-norm", c.value("latent_norm", true));
  set(a, "latent-scale", c.value("latent_scale", false));
  if (c.contains("rope_layout"))
    set(a, "rope-layout", c["rope_layout"] == "half" ? "half" : "interleaved");
  a.put("rope-theta", c.value("rope_theta", 10000.0));
  set(a, "output-projection", c.value("output_projection", true));
  set(a, "gate", c.value("gate", false));
  set(a, "sinks", c.value("sinks", false));
  set(a, "window", c.value("window", Index{0}));
  a.put("value-residual", c.value("value_residual", 0.0));
  set(a, "canon", c.value("canon", "off"));
  set(a, "canon-taps", c.value("canon_taps", Index{4}));
  if (c.contains("score_scale"))
    set(a, "score-scale", ScoreScale{ScoreScale::Kind::number, c["score_scale"]}.text());
}

inline std::string kind_of(const json& c) {
  const std::string kind = c.value("attention", "mha");
  if (kind == "v4_window") return "v4";
  return kind == "latent_bias" ? "latent-bias" : kind;
}

class Reference : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  void copy_weights(ParameterStore& parameters, const std::string& prefix) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const TensorView& tensor = file_.at("w." + parameters.name({i}).substr(prefix.size()));
      ASSERT_EQ(shape_of(tensor), parameters.shape({i})) << tensor.name;
      read_into(tensor, parameters.value({i}));
    }
  }

  // Every parameter against PREFIX.NAME of the fixture, which must have no other.
  void expect_parameters(const std::string& prefix, const std::string& store_prefix,
                         ParameterStore& parameters, bool gradients, double tolerance) {
    std::size_t in_fixture = 0;
    for (const TensorView& tensor : file_.tensors()) in_fixture += tensor.name.starts_with(prefix);
    EXPECT_EQ(in_fixture, parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::span<const Real> values =
          gradients ? parameters.gradient({i}) : std::span<const Real>(parameters.value({i}));
      const TensorView& expected =
          file_.at(prefix + parameters.name({i}).substr(store_prefix.size()));
      // No gradient arrives at an indexer: none flows through a choice.
      const std::vector<Real> none(values.empty() ? expected.element_count() : 0);
      if (values.empty()) values = none;
      expect_close(values, expected, tolerance, size_of(expected));
    }
  }

  // The bias of the keys adds the same to all scores of a query, which softmax ignores: its
  // gradient is zero, and what is left of its terms in float is as large as those of the weights
  // beside it.
  double size_of(const TensorView& expected) const {
    constexpr std::string_view kKeyBias = "k_proj.bias", kBias = "bias";
    if (!expected.name.ends_with(kKeyBias) || largest(expected) > 1e-12) return largest(expected);
    const std::string stem = expected.name.substr(0, expected.name.size() - kBias.size());
    return largest(file_.at(stem + "weight"));
  }

  void check_attention();
  bool holds_a_cache() const;
  void check_cache(const AttentionPlan& plan, const Attention& layer, const ParameterStore& store);
  void check_inputs(LayerCache& cache);
  void check_rows(LayerCache& cache, Index length);
  void check_blocks(const AttentionPlan& plan, LayerCache& cache, const ParameterStore& store);
  void check_visible(const AttentionPlan& plan, const AttentionStats& stats);
  void check_model();
  std::string pattern() const;

  Safetensors file_;
  json config_;
};

}  // namespace headcount::reference
