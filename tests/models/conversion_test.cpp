// programs: models in_double
// A converted model against the one that it was made of: the same logits where nothing is lost, and
// what is lost is said. What cannot be converted is refused with the setting that stands in the
// way.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "models/decoder.h"
#include "models/small_conversion.h"
#include "support/message_of.h"

namespace headcount {
namespace {

constexpr double kConversionTolerance = sizeof(Real) == sizeof(double) ? 1e-10 : 2e-3;
constexpr Index kDim = 24, kContext = 12;

std::vector<Real> logits(const LanguageModel& model) {
  std::mt19937 generator(7);
  std::vector<std::int32_t> tokens(2 * kContext);
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(generator() % kConvertedVocabulary);
  Tape tape(model.parameters());
  const auto values = model.logits(tape, tokens, 2).value();
  return {values.begin(), values.end()};
}

double difference(const LanguageModel& a, const LanguageModel& b) {
  const std::vector<Real> x = logits(a), y = logits(b);
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(x[i] - y[i])));
  return largest;
}

void expect_same(const LanguageModel& from, const LanguageModel& to, const std::string& what) {
  EXPECT_LT(difference(from, to), kConversionTolerance) << what;
}

std::span<Real> weights(LanguageModel& model, const std::string& name, Index layer = 0) {
  ParameterStore& store = model.parameters();
  return store.value(store.find("model.layers." + std::to_string(layer) + ".self_attn." + name));
}

// Settings of a model besides its attention.
const std::vector<Wanted> kModels = {{},
                                     {{"rope-layout", "interleaved"}},
                                     {{"positions", "none"}},
                                     {{"positions", "learned"}, {"norm", "layer"}, {"bias", "on"}},
                                     {{"norm", "layer"}, {"bias", "on"}, {"window", "3"}},
                                     {{"score-scale", "qk-norm"}},
                                     {{"score-scale", "length"}, {"gate", "on"}},
                                     {{"qk-norm", "on"}, {"canon", "AC"}, {"score-cap", "5"}},
                                     {{"value-residual", "0.5"}, {"rope-dim", "4"}},
                                     {{"sinks", "on"}, {"bias", "on"}},
                                     {{"output-projection", "off"}}};

std::string text(const Wanted& given) { return nlohmann::json(given).dump(); }

TEST(Conversion, OfGroupsToMoreOfThemRepeatsThemAndIsExact) {
  for (const Wanted& given : kModels) {
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"mqa", "gqa2"}, {"mqa", "mha"}, {"gqa2", "mha"}, {"mha", "mha"}, {"gqa2", "gqa2"}}) {
      const auto model = small_model(from, given);
      expect_same(*model, *converted(*model, to), from + " to " + to + " " + text(given));
    }
  }
}

TEST(Conversion, OfEqualHeadsToFewerIsExact) {
  for (const Wanted& given : kModels) {
    const auto mqa = small_model("mqa", given);
    const auto mha = converted(*mqa, "mha");
    expect_same(*mha, *converted(*mha, "gqa2"), "gqa2 " + text(given));
    const auto back = converted(*mha, "mqa");
    expect_same(*mha, *back, "mqa " + text(given));
    const auto was = mqa->parameters().all_values(), is = back->parameters().all_values();
    for (std::size_t i = 0; i < was.size(); ++i) ASSERT_NEAR(was[i], is[i], 1e-6) << text(given);
  }
}

TEST(Conversion, ToFewerHeadsTakesTheMeanOfTheRowsOfAGroup) {
  const auto mha = small_model("mha");
  const auto gqa = converted(*mha, "gqa2");
  for (const std::string name : {"k_proj.weight", "v_proj.weight"}) {
    const auto all = weights(*mha, name, 1), mean = weights(*gqa, name, 1);
    ASSERT_EQ(mean.size(), 12u * kDim);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const std::size_t head = i / (6 * kDim), rest = i % (6 * kDim);
      const Real sum = all[2 * head * 6 * kDim + rest] + all[(2 * head + 1) * 6 * kDim + rest];
      ASSERT_NEAR(mean[i], sum / 2, 1e-6) << name;
    }
  }
  EXPECT_GT(difference(*mha, *gqa), 0.1);
}

TEST(Conversion, OfAllRankToLatentsIsExactWithoutPositions) {
  const Wanted models[] = {{{"positions", "none"}},
                           {{"positions", "learned"}, {"norm", "layer"}, {"bias", "on"}},
                           {{"positions", "none"}, {"score-scale", "qk-norm"}, {"bias", "on"}},
                           {{"positions", "none"}, {"score-scale", "length"}, {"gate", "on"}},
                           {{"positions", "none"}, {"sinks", "on"}, {"bias", "on"}},
                           {{"positions", "none"}, {"qk-norm", "on"}, {"canon", "A"}},
                           {{"positions", "none"}, {"score-scale", "none"}, {"window", "4"}}};
  for (const Wanted& given : models) {
    for (const std::string from : {"mha", "gqa2"}) {
      const auto model = small_model(from, given);
      expect_same(*model, *converted(*model, "mla24", {{"latent-norm", "off"}}),
                  from + " " + text(given));
    }
  }
}

TEST(Conversion, OfHeadsThatShareARotaryKeyToLatentsIsExactInEitherLayout) {
  for (const std::string from : {"half", "interleaved"}) {
    for (const std::string to : {"half", "interleaved"}) {
      for (const std::string norm : {"rms", "layer"}) {
        const auto model = small_model("mqa", {{"rope-dim", "4"},
                                               {"rope-layout", from},
                                               {"norm", norm},
                                               {"bias", norm == "layer" ? "on" : "off"}});
        // Two plain rows of the key and six of the value are all there is.
        const auto mla = converted(*model, "mla8+4", {{"latent-norm", "off"}, {"rope-layout", to}});
        EXPECT_EQ(mla->plan()->settings["nope-dim"], 2);
        expect_same(*model, *mla, from + " to " + to);
      }
    }
  }
}

TEST(Conversion, ToNormedLatentsOfFullRankChangesLittle) {
  const auto model = small_model("mha", {{"positions", "none"}});
  EXPECT_LT(difference(*model, *converted(*model, "mla24+0")), 2e-3);
}

TEST(Conversion, KeepsTheGreatestSingularValuesOfKeysAndValues) {
  // Values are combinations of the keys of the first head, so that six singular values are all.
  const auto model = small_model("mqa", {{"positions", "none"}});
  for (Index layer = 0; layer < 2; ++layer) {
    const auto k = weights(*model, "k_proj.weight", layer),
               v = weights(*model, "v_proj.weight", layer);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = k[i] - 2 * k[(i + kDim) % k.size()];
  }
  expect_same(*model, *converted(*model, "mla6", {{"latent-norm", "off"}}), "six");
  EXPECT_GT(difference(*model, *converted(*model, "mla5", {{"latent-norm", "off"}})), 1e-2);
}

TEST(Conversion, LosesLessIfMorePairsRotate) {
  // All heads alike, so that only the turning can be lost.
  const auto mqa = small_model("mqa", {{"head-dim", "8"}});
  const auto model = converted(*mqa, "mha");
  const auto lost = [&](const std::string& rope_dim) {
    return difference(
        *model, *converted(*model, "mla24", {{"latent-norm", "off"}, {"rope-dim", rope_dim}}));
  };
  EXPECT_GT(lost("2"), lost("4"));
  EXPECT_GT(lost("4"), lost("6"));
  EXPECT_GT(lost("6"), 0.01);
}

std::string refusal(const LanguageModel& from, const std::string& attention,
                    const Wanted& given = {}) {
  return message_of<ShapeError>([&] { converted(from, attention, given); }, "accepted");
}

void expect_refusal(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

const char* const kWhat = "; conversions are from mha, gqa or mqa to one of these or to mla";

TEST(Conversion, OfOrToEachKindIsMadeOrRefusedWithWhatCanBeConverted) {
  const auto mha = small_model("mha");
  std::vector<std::string> attentions = {"mqa/share", "mha@3/mha", "mqa/gqa2"};
  for (const AttentionKind* kind : attention_kinds()) attentions.emplace_back(kind->name);
  for (const std::string& attention : attentions) {
    const bool grouped = attention == "mha" || attention == "gqa" || attention == "mqa";
    const auto expect_made = [&](bool made, const std::string& said, const std::string& way) {
      SCOPED_TRACE(way + attention);
      if (made) {
        EXPECT_EQ(said, "accepted");
      } else {
        expect_refusal(said, {"no conversion " + way, attention, kWhat});
      }
    };
    expect_made(grouped || attention == "mla", refusal(*mha, attention), "to");
    expect_made(grouped, refusal(*small_model(attention), "mha"), "from");
  }
}

TEST(Conversion, RefusesWhatItCannotKeep) {
  const auto mha = small_model("mha");
  expect_refusal(refusal(*mha, "mla8+8"), {"`rope-dim` 8", "6"});
  expect_refusal(refusal(*mha, "mla8+2", {{"nope-dim", "6"}}),
                 {"`nope-dim` plus `rope-dim`", "must be 6"});
  expect_refusal(refusal(*mha, "mla8+2", {{"v-dim", "4"}}), {"`v-dim`, must be 6"});
  expect_refusal(refusal(*mha, "mla25+2"), {"`kv-rank` 25", "24"});
  expect_refusal(refusal(*small_model("mha", {{"positions", "none"}}), "mla8+2"),
                 {"`rope-dim` 2", "0"});
  const Wanted others[] = {
      {{"head-dim", "8"}}, {{"rope-dim", "4"}},     {{"rope-layout", "interleaved"}},
      {{"layers", "3"}},   {{"positions", "none"}}, {{"value-residual", "0.5"}},
      {{"qk-norm", "on"}}, {{"canon", "B"}},        {{"gate", "on"}},
      {{"sinks", "on"}},   {{"tie-kv", "on"}}};
  for (const Wanted& other : others) {
    const auto& [name, value] = *other.rbegin();
    expect_refusal(refusal(*mha, "mqa", other),
                   {"`" + name + "` is " + value, "in the model it is ", "keys and values only"});
  }
  expect_refusal(refusal(*mha, "mla", {{"q-rank", "8"}}), {"`q-rank` is 8", "it is 0"});
  expect_refusal(refusal(*mha, "mla", {{"latents", "2"}}), {"`latents` is 2", "it is 1"});
  expect_refusal(refusal(*small_model("mqa", {{"tie-kv", "on"}}), "mha"),
                 {"`tie-kv` is off", "it is on"});
  expect_refusal(refusal(*small_model("mqa", {{"tie-kv", "on"}}), "mha", {{"tie-kv", "on"}}),
                 {"does not support the weights 'kv_proj'"});
  expect_refusal(refusal(*small_model("mha", {{"canon", "B"}}), "mqa"), {"weights 'canonB'"});
  expect_refusal(refusal(*small_model("mha", {{"qk-norm", "on"}}), "mla"), {"weights 'k_norm'"});
  EXPECT_EQ(refusal(*small_model("mha@3"), "gqa2@0"), "accepted");
  EXPECT_EQ(refusal(*mha, "gqa2@3"), "accepted");
}

}  // namespace
}  // namespace headcount
