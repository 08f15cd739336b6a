// programs: gradcheck
// Gradients of every registered attention against central differences: input and parameters, for
// each option alone and for many combinations.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/checks/finite_differences.h"
#include "autograd/parallel.h"
#include "autograd/random.h"
#include "models/plan.h"
#include "nn/attention/attention.h"
#include "nn/attention/kinds_with_scores.h"
#include "nn/attention/random_weights.h"
#include "nn/attention/variants.h"

namespace headcount {
namespace {

constexpr double kLayerTolerance = 1e-6;
// Gradients below this are compared absolutely, to 1e-9. Without positions a bias of the keys
// shifts all scores of a row alike and has no gradient.
constexpr double kFloor = 1e-3;
constexpr Index kSequences = 2, kLength = 5, kDim = 6;

using nlohmann::json;

enum class Padding { none, holes, sequence };

constexpr Named<Padding> kPaddings[] = {
    {"none", Padding::none}, {"holes", Padding::holes}, {"sequence", Padding::sequence}};

// Settings of models, and options of a layer that models have no settings for.
const SettingList& case_settings() {
  static const SettingList list = together({model_settings(),
                                            {{"causal", "", kOnOff, "on"},
                                             {"padding", "", kPaddings, "none"},
                                             {"dropout", "", kFraction, 0.0}}});
  return list;
}

// Key mask. holes: hides every third key of both sequences, the first one too, so that a causal
// query may see nothing. sequence: hides the whole second sequence.
std::vector<std::uint8_t> key_mask(Padding padding) {
  std::vector<std::uint8_t> mask;
  if (padding == Padding::none) return mask;
  for (Index i = 0; i < kSequences * kLength; ++i) {
    mask.push_back(padding == Padding::holes ? i % 3 != 0 : i < kLength);
  }
  return mask;
}

GradientReport check(const json& settings, const GradientCheckOptions& options) {
  Given given(case_settings(), {{"head-dim", 4}});
  given.put(settings);
  const auto padding = given.chosen("padding", kPaddings);
  LayerPlace place = layer_place(read_model_settings(given));
  place.dim = kDim;
  place.max_positions = kLength;
  place.causal = given.on("causal");
  // Vectors near zero would change their direction within a step of the differences.
  place.norm_epsilon = 0.1;
  // A window looks back and needs causality.
  if (!place.causal) given.put("window", 0);
  // Convolutions are causal and would carry hidden tokens to others.
  if (!place.causal || padding != Padding::none) given.put("canon", "off");
  reconcile(given);
  const AttentionPlan attention =
      resolve_attention(attention_kind(given.text("attention")), given, place);
  ParameterStore store;
  // The input is checked as one more parameter.
  const Shape shape = {kSequences, kLength, kDim};
  const ParameterId x = store.add("x", shape, Initializer::normal(1));
  const auto layer = make_attention(store, "layer", attention, {0, 0});
  draw_weights(store);
  const auto function = [&](Tape& tape) {
    tape.set_training(true, static_cast<Real>(given.number("dropout")));
    tape.set_random(3, 1);
    const std::vector<std::uint8_t> mask = key_mask(padding);
    // The values of a first layer, which are mixed in, depend on the same weights and input.
    Memory first(mask), memory(mask);
    if (attention.value_residual > 0) {
      layer->forward(gelu(tape.parameter(x)), first);
      memory.set_first_values(first.first_values());
    }
    return layer->forward(tape.parameter(x), memory);
  };
  GradientReport report = check_parameter_gradients(function, store, options);
  EXPECT_GE(report.derivatives, static_cast<Index>(store.size()));
  return report;
}

// The stencil's own error grows with the fourth power of its step: where a function bends sharply,
// a shorter step tells it from a wrong gradient. So it does where a step changes which rows an
// indexer picks.
void expect_agreement(const json& settings, GradientCheckOptions options) {
  GradientReport report = check(settings, options);
  for (int tries = 0; report.error > kLayerTolerance && tries < 3; ++tries) {
    options.step /= 4;
    report = check(settings, options);
  }
  EXPECT_LE(report.error, kLayerTolerance) << settings << ": " << report.text();
}

class GradientOfAttention : public testing::TestWithParam<const AttentionKind*> {
 protected:
  // Shapes this small are not worth a second thread.
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(0); }
  const AttentionKind& kind() const { return *GetParam(); }
  json settings() const { return {{"attention", kind().name}}; }
};
INSTANTIATE_TEST_SUITE_P(Gradient, GradientOfAttention, testing::ValuesIn(attention_kinds()),
                         name_of);

TEST(GradientsOfAttentions, TryEverySettingThereIs) {
  for (const Setting& setting : attention_settings()) {
    EXPECT_TRUE(variants().contains(setting.name))
        << "--" << setting.name << " needs variants here";
  }
}

// A program may have an attention of its own in place of another one.
TEST(GradientsOfAttentions, TryNoSettingOfAnAttentionThatIsNotThere) {
  for (const AttentionKind* const kind : attention_kinds()) {
    EXPECT_TRUE(foreign("setting-of-none", *kind)) << kind->name;
    EXPECT_EQ(foreign("causal", *kind), kind->needs_causal) << kind->name;
  }
}

// In every element of each tensor; with an option in three directions of a large one, which have a
// wrong element in them, too.
TEST_P(GradientOfAttention, AgreesForEachOptionAlone) {
  GradientCheckOptions options = {
      .every_element_up_to = 1000, .directions = 3, .step = 2e-4, .floor = kFloor};
  expect_agreement(settings(), options);
  options.every_element_up_to = 48;
  for (const auto& [name, values] : variants(kind())) {
    const Setting& setting = *find_setting(case_settings(), name);
    for (const std::string& value : values) {
      json changed = settings();
      changed[name] = value;
      if (setting.value(value) != setting.standard.value) expect_agreement(changed, options);
    }
  }
}

TEST_P(GradientOfAttention, AgreesInRandomDirectionsForRandomCombinations) {
  constexpr std::uint32_t kCombinations = 200;
  for (std::uint32_t combination = 0; combination < kCombinations; ++combination) {
    const RandomKey key{4, random_stream(kind().name), combination};
    json chosen = settings();
    std::uint64_t index = 0;
    for (const auto& [name, values] : variants(kind()))
      chosen[name] = values[random_below(key, index++, values.size())];
    expect_agreement(chosen, {.every_element_up_to = 0, .step = 1e-4, .floor = kFloor});
  }
}

}  // namespace
}  // namespace headcount
