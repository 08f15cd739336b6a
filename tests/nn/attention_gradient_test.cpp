// Every attention of the registry against central differences: input and parameters, each option
// on its own and many combinations of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/finite_differences.h"
#include "autograd/parallel.h"
#include "autograd/random.h"
#include "models/config.h"
#include "nn/attention/attention.h"
#include "nn/random_weights.h"

namespace headcount {
namespace {

constexpr double kLayerTolerance = 1e-6;
// Without positions a bias of the keys shifts all scores of a row alike and has no gradient: what
// is below this is compared absolutely, to 1e-9.
constexpr double kFloor = 1e-3;
constexpr Index kSequences = 2, kLength = 5, kDim = 6;

using Assignment = std::pair<std::string, std::string>;  // setting, value

enum class Padding { none, holes, sequence };

// A layer with its settings by name: the model's flags, and what only a layer has.
struct LayerCase {
  ModelConfig model;
  Padding padding = Padding::none;

  LayerCase() {
    model.dim = kDim;
    model.context = kLength;
    model.attention.head_dim = 4;
    // What is normalised may be near zero, where it would change its direction within a step.
    model.attention.norm_epsilon = 0.1;
  }
  Settings settings() {
    Settings s = model.settings();
    s.on_off("causal", "", model.attention.causal);
    s.choice("padding", "", padding,
             {{"none", Padding::none}, {"holes", Padding::holes}, {"sequence", Padding::sequence}});
    return s;
  }
  std::vector<std::uint8_t> key_mask() const;
};

// holes: every third key of both sequences, the very first one among them, so that a causal query
// may see nothing. sequence: the whole of the second one.
std::vector<std::uint8_t> LayerCase::key_mask() const {
  std::vector<std::uint8_t> mask;
  if (padding == Padding::none) return mask;
  for (Index i = 0; i < kSequences * kLength; ++i) {
    mask.push_back(padding == Padding::holes ? i % 3 != 0 : i < kLength);
  }
  return mask;
}

// What each setting is tried with, the default too. Nothing that is normalised has width 1: what is
// left of one number is its sign, whose derivative is zero nearly everywhere.
const std::map<std::string, std::vector<std::string>>& variants() {
  static const std::map<std::string, std::vector<std::string>> all = {
      {"heads", {"4", "8"}},
      {"head-dim", {"4", "6"}},
      {"kv-heads", {"1", "2", "4"}},
      {"kv-rank", {"4", "6"}},
      {"latents", {"1", "2"}},
      {"latent-scale", {"off", "on"}},
      {"kv-factors", {"1", "3"}},
      {"q-factors", {"1", "2"}},
      {"q-rank", {"0", "2", "5"}},
      {"nope-dim", {"2", "3"}},
      {"rope-dim", {"0", "2", "4"}},
      {"v-dim", {"2", "5"}},
      {"key-heads", {"1", "2", "4"}},
      {"value-heads", {"4", "8"}},
      {"conv-taps", {"1", "2", "6"}},
      {"tie-kv", {"off", "on"}},
      {"latent-norm", {"on", "off"}},
      {"latent-dim", {"1", "3"}},
      {"window", {"0", "2"}},
      {"score-scale", {"inv-sqrt", "none", "qk-norm", "row-norm", "length", "0.7"}},
      {"rope-layout", {"half", "interleaved"}},
      {"rope-theta", {"10000", "20"}},
      {"positions", {"rope", "none"}},
      {"bias", {"off", "on"}},
      {"dropout", {"0", "0.3"}},
      {"causal", {"on", "off"}},
      {"gate", {"off", "on"}},
      {"output-projection", {"on", "off"}},
      {"padding", {"none", "holes", "sequence"}},
  };
  return all;
}

// Whether `setting` belongs to another attention.
bool foreign(const std::string& setting, const AttentionKind& kind) {
  LayerCase layer_case;
  constexpr std::array kOfScores = {"window", "score-scale", "causal", "padding"};
  if (!kind.attends && std::ranges::find(kOfScores, setting) != kOfScores.end()) return true;
  return !layer_case.settings().find(setting)->is_for(kind.name);
}

GradientReport check(const std::vector<Assignment>& assignments,
                     const GradientCheckOptions& options) {
  LayerCase layer_case;
  const Settings settings = layer_case.settings();
  for (const auto& [name, value] : assignments) settings.find(name)->parse(value);
  // A window looks back and needs causality.
  if (!layer_case.model.attention.causal) layer_case.model.attention.window = 0;
  // Without its projection a layer's output may have any width; only a model asks for its own.
  AttentionConfig& attention = layer_case.model.attention;
  const bool output_projection = std::exchange(attention.output_projection, true);
  layer_case.model.resolve();
  attention.output_projection = output_projection;
  ParameterStore store;
  // The input is checked as one more parameter.
  const Shape shape = {kSequences, kLength, kDim};
  const ParameterId x = store.add("x", shape, Initializer::normal(1));
  const auto layer = make_attention(store, "layer", attention, {0, 0});
  draw_weights(store);
  const auto function = [&](Tape& tape) {
    tape.set_training(true);
    tape.set_random(3, 1);
    const std::vector<std::uint8_t> mask = layer_case.key_mask();
    Memory memory(mask);
    return layer->forward(tape.parameter(x), memory);
  };
  GradientReport report = check_parameter_gradients(function, store, options);
  EXPECT_GE(report.derivatives, static_cast<Index>(store.size()));
  return report;
}

std::string text(const std::vector<Assignment>& assignments) {
  std::string result;
  for (const auto& [name, value] : assignments) result += "--" + name + " " + value + " ";
  return result;
}

void expect_agreement(const std::vector<Assignment>& assignments,
                      const GradientCheckOptions& options) {
  const GradientReport report = check(assignments, options);
  EXPECT_LE(report.error, kLayerTolerance) << text(assignments) << ": " << report.text();
}

class GradientOfAttention : public testing::TestWithParam<const AttentionKind*> {
 protected:
  // Shapes this small are not worth a second thread.
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(0); }
  const AttentionKind& kind() const { return *GetParam(); }
  Assignment self() const { return {"attention", std::string(kind().name)}; }
};
INSTANTIATE_TEST_SUITE_P(Gradient, GradientOfAttention, testing::ValuesIn(attention_kinds()),
                         [](const auto& kind) {
                           std::string name(kind.param->name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(GradientOfAttention, TriesEverySettingThereIs) {
  ModelConfig model;
  const Settings settings = model.settings();
  for (const Setting& setting : settings.all()) {
    if (setting.group != "Attention" || setting.name == "attention") continue;
    EXPECT_TRUE(variants().contains(setting.name))
        << "--" << setting.name << " needs variants here";
  }
}

TEST_P(GradientOfAttention, AgreesInEveryElementForEachOptionAlone) {
  for (const auto& [name, values] : variants()) {
    if (foreign(name, kind())) continue;
    for (const std::string& value : values) {
      expect_agreement({self(), {name, value}},
                       {.every_element_up_to = 1000, .step = 2e-4, .floor = kFloor});
    }
  }
}

TEST_P(GradientOfAttention, AgreesInRandomDirectionsForRandomCombinations) {
  constexpr std::uint32_t kCombinations = 400;
  for (std::uint32_t combination = 0; combination < kCombinations; ++combination) {
    const RandomKey key{4, random_stream(kind().name), combination};
    std::vector<Assignment> assignments = {self()};
    std::uint64_t index = 0;
    for (const auto& [name, values] : variants()) {
      if (foreign(name, kind())) continue;
      assignments.emplace_back(name, values[random_below(key, index++, values.size())]);
    }
    expect_agreement(assignments, {.every_element_up_to = 0, .step = 1e-4, .floor = kFloor});
  }
}

}  // namespace
}  // namespace headcount
