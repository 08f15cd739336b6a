// programs: models in_double
// A converted model against the one that it was made of: the same logits where nothing is lost, and
// what is lost is said. What cannot be converted is refused with the setting that stands in the
// way.
#include "models/tools/conversion.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "models/decoding.h"
#include "nn/attention/random_weights.h"
#include "support/message_of.h"

namespace headcount::decoding {
namespace {

constexpr double kConversionTolerance = kDouble ? 1e-10 : 2e-3;
constexpr Index kDim = 24, kContext = 12;

using Wanted = std::map<std::string, std::string>;

// A model with weights large enough for attention to matter, norms and biases included; `given` are
// settings by name.
std::unique_ptr<LanguageModel> small_model(const std::string& attention, const Wanted& given = {}) {
  Given config(
      model_settings(),
      {{"layers", 2}, {"dim", kDim}, {"heads", 4}, {"context", kContext}, {"ffn-dim", 16}});
  config.put("attention", attention);
  config.put(given);
  auto model = std::make_unique<LanguageModel>(resolve_model(config), kVocabulary);
  draw_weights(model->parameters());
  return model;
}

std::unique_ptr<LanguageModel> converted(const LanguageModel& from, const std::string& attention,
                                         const Wanted& given = {}) {
  Given to = for_another_attention(Given(model_settings(), from.plan()->settings));
  to.put("attention", attention);
  to.put(given);
  return convert(from, to);
}

// Largest change of logits.
double change(const LanguageModel& from, const LanguageModel& to) {
  const std::vector<std::int32_t> tokens = some_tokens(2 * kContext);
  return difference(forward(from, tokens, 2), forward(to, tokens, 2));
}

void expect_same(const LanguageModel& from, const LanguageModel& to, const std::string& what) {
  EXPECT_LT(change(from, to), kConversionTolerance) << what;
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
                                     {{"sinks", "on"}, {"bias", "on"}, {"key-dim", "8"}},
                                     {{"output-projection", "off"}}};

std::string text(const Wanted& given) { return nlohmann::json(given).dump(); }

// To more groups, whose heads repeat, and back to fewer, of equal heads.
TEST(Conversion, OfGroupsToMoreAndBackIsExact) {
  const std::vector<std::string> ways[] = {
      {"mqa", "gqa2", "mha", "mqa"}, {"mqa", "mha", "gqa2", "mqa"}, {"gqa2", "mha", "mha", "gqa2"}};
  for (const Wanted& given : kModels) {
    for (const auto& way : ways) {
      const auto first = small_model(way[0], given);
      auto last = small_model(way[0], given);
      for (const std::string& to : way) {
        last = converted(*last, to);
        expect_same(*first, *last, way[0] + " to " + to + " " + text(given));
      }
      EXPECT_LT(difference(first->parameters().all_values(), last->parameters().all_values()), 1e-6)
          << text(given);
    }
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
  EXPECT_GT(change(*mha, *gqa), 0.1);
}

TEST(Conversion, OfAllRankToLatentsIsExactWithoutPositions) {
  for (Wanted given : kModels) {
    if (given.contains("value-residual")) continue;  // of latents there is none
    given.try_emplace("positions", "none");
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
  EXPECT_LT(change(*model, *converted(*model, "mla24+0")), 2e-3);
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
  EXPECT_GT(change(*model, *converted(*model, "mla5", {{"latent-norm", "off"}})), 1e-2);
}

TEST(Conversion, LosesLessIfMorePairsRotate) {
  // All heads alike, so that only the turning can be lost.
  const auto mqa = small_model("mqa", {{"head-dim", "8"}});
  const auto model = converted(*mqa, "mha");
  const auto lost = [&](const std::string& rope_dim) {
    return change(*model,
                  *converted(*model, "mla24", {{"latent-norm", "off"}, {"rope-dim", rope_dim}}));
  };
  EXPECT_GT(lost("2"), lost("4"));
  EXPECT_GT(lost("4"), lost("6"));
  EXPECT_GT(lost("6"), 0.01);
}

// What the conversion says, which must have all these parts.
void expect_said(const LanguageModel& from, const std::string& attention, const Wanted& given,
                 const std::vector<std::string>& parts) {
  const std::string said =
      message_of<ShapeError>([&] { converted(from, attention, given); }, "accepted");
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << said << "\nlacks: " << part;
}

TEST(Conversion, OfOrToEachKindIsMadeOrRefusedWithWhatCanBeConverted) {
  const auto mha = small_model("mha");
  std::vector<std::string> attentions = {"mqa/share", "mha@3/mha", "mqa/gqa2"};
  for (const AttentionKind* kind : attention_kinds()) attentions.emplace_back(kind->name);
  for (const std::string& attention : attentions) {
    const bool grouped = attention == "mha" || attention == "gqa" || attention == "mqa";
    const auto parts = [&](bool made, const std::string& way) {
      const std::vector<std::string> refusal = {
          "no conversion " + way, attention,
          "; conversions are from mha, gqa or mqa to one of these or to mla"};
      return made ? std::vector<std::string>{"accepted"} : refusal;
    };
    expect_said(*mha, attention, {}, parts(grouped || attention == "mla", "to"));
    expect_said(*small_model(attention), "mha", {}, parts(grouped, "from"));
  }
}

TEST(Conversion, RefusesWhatItCannotKeep) {
  for (const auto& [from, to, parts] :
       std::vector<std::tuple<std::string, std::string, std::vector<std::string>>>{
           {"mha", "mla8+8", {"`rope-dim` 8", "6"}},
           {"mha", "mla8+2:nope-dim=6", {"`nope-dim` plus `rope-dim`", "must be 6"}},
           {"mha", "mla8+2:v-dim=4", {"and `v-dim` 6"}},
           {"mha", "mla25+2", {"`kv-rank` 25", "24"}},
           {"mha", "mla:q-rank=8", {"`q-rank` is 8", "it is 0"}},
           {"mha", "mla:latents=2", {"`latents` is 2", "it is 1"}},
           {"mqa:tie-kv=on", "mha", {"`tie-kv` is off", "it is on"}},
           {"mqa:tie-kv=on", "mha:tie-kv=on", {"does not support the weights 'kv_proj'"}},
           {"mha:canon=B", "mqa", {"weights 'canonB'"}},
           {"mha:qk-norm=on", "mla", {"weights 'k_norm'"}},
           {"mha@3", "gqa2@0", {"accepted"}},
           {"mha", "gqa2@3", {"accepted"}}})
    expect_said(*small_model(from), to, {}, parts);
  expect_said(*small_model("mha", {{"positions", "none"}}), "mla8+2", {}, {"`rope-dim` 2", "0"});
  const Wanted others = {{"head-dim", "8"}, {"rope-dim", "4"},     {"rope-layout", "interleaved"},
                         {"layers", "3"},   {"positions", "none"}, {"value-residual", "0.5"},
                         {"qk-norm", "on"}, {"canon", "B"},        {"gate", "on"},
                         {"sinks", "on"},   {"tie-kv", "on"},      {"key-dim", "8"}};
  for (const auto& [name, value] : others)
    expect_said(*small_model("mha"), "mqa", {{name, value}},
                {"`" + name + "` is " + value, "in the model it is ", "keys and values only"});
}

}  // namespace
}  // namespace headcount::decoding
