// A converted model against the one that it was made of: the same logits where nothing is lost, and
// what is lost is said.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "models/decoder.h"
#include "models/small_conversion.h"

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

void expect_same(const LanguageModel& from, const Conversion& to, const std::string& what) {
  EXPECT_LT(difference(from, *to.model), kConversionTolerance) << what;
  ASSERT_EQ(std::ssize(to.errors), from.plan()->layers) << what;
  for (const HeadErrors& error : to.errors) {
    EXPECT_LT(error.keys, 1e-6) << what;
    EXPECT_LT(error.values, 1e-6) << what;
  }
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
                                     {{"sinks", "on"}, {"bias", "on"}},
                                     {{"output-projection", "off"}}};

std::string text(const Wanted& given) { return nlohmann::json(given).dump(); }

TEST(Conversion, OfGroupsToMoreOfThemRepeatsThemAndIsExact) {
  for (const Wanted& given : kModels) {
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"mqa", "gqa2"}, {"mqa", "mha"}, {"gqa2", "mha"}, {"mha", "mha"}, {"gqa2", "gqa2"}}) {
      const auto model = small_model(from, given);
      expect_same(*model, converted(*model, to), from + " to " + to + " " + text(given));
    }
  }
}

TEST(Conversion, OfEqualHeadsToFewerIsExact) {
  for (const Wanted& given : kModels) {
    const auto mqa = small_model("mqa", given);
    const auto mha = converted(*mqa, "mha").model;
    expect_same(*mha, converted(*mha, "gqa2"), "gqa2 " + text(given));
    const Conversion back = converted(*mha, "mqa");
    expect_same(*mha, back, "mqa " + text(given));
    if (given.contains("rope-layout")) continue;  // the rows now stand in halves
    const auto was = mqa->parameters().all_values(), is = back.model->parameters().all_values();
    for (std::size_t i = 0; i < was.size(); ++i) ASSERT_NEAR(was[i], is[i], 1e-6) << text(given);
  }
}

TEST(Conversion, ToFewerHeadsTakesTheMeanOfTheRowsOfAGroup) {
  const auto mha = small_model("mha");
  const auto gqa = converted(*mha, "gqa2");
  for (const std::string name : {"k_proj.weight", "v_proj.weight"}) {
    const auto all = weights(*mha, name, 1), mean = weights(*gqa.model, name, 1);
    ASSERT_EQ(mean.size(), 12u * kDim);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const std::size_t head = i / (6 * kDim), rest = i % (6 * kDim);
      const Real sum = all[2 * head * 6 * kDim + rest] + all[(2 * head + 1) * 6 * kDim + rest];
      ASSERT_NEAR(mean[i], sum / 2, 1e-6) << name;
    }
  }
  EXPECT_GT(difference(*mha, *gqa.model), 0.1);
}

TEST(Conversion, OfAllRankToLatentsIsExactWithoutPositions) {
  const Wanted models[] = {{{"positions", "none"}},
                           {{"positions", "learned"}, {"norm", "layer"}, {"bias", "on"}},
                           {{"positions", "none"}, {"score-scale", "qk-norm"}, {"bias", "on"}},
                           {{"positions", "none"}, {"score-scale", "length"}, {"gate", "on"}},
                           {{"positions", "none"}, {"sinks", "on"}, {"bias", "on"}},
                           {{"positions", "none"}, {"score-scale", "none"}, {"window", "4"}}};
  const Wanted latents[] = {{{"kv-rank", "24"}},
                            {{"kv-rank", "24"}, {"rope-dim", "4"}},  // which is idle
                            {{"kv-rank", "24"}, {"q-rank", "24"}, {"latent-scale", "on"}},
                            {{"kv-rank", "48"}, {"latents", "2"}}};
  for (Wanted given : models) {
    for (const std::string from : {"mha", "gqa2"}) {
      const auto model = small_model(from, given);
      for (Wanted latent : latents) {
        latent["latent-norm"] = "off";
        const Conversion mla = converted(*model, "mla", latent);
        const std::string what = from + " " + text(given) + " " + text(latent);
        expect_same(*model, mla, what);
        // Converted back, the heads of the latents are those of the model.
        if (!latent.contains("rope-dim"))
          expect_same(*model, converted(*mla.model, "mha"), "back, " + what);
      }
    }
  }
}

TEST(Conversion, OfHeadsThatShareARotaryKeyToLatentsIsExactInEitherLayout) {
  for (const std::string from : {"half", "interleaved"}) {
    for (const std::string to : {"half", "interleaved"}) {
      for (const Wanted& more : {Wanted{}, Wanted{{"bias", "on"}, {"norm", "layer"}}}) {
        Wanted given = more;
        given["rope-dim"] = "4";
        given["rope-layout"] = from;
        const auto model = small_model("mqa", given);
        // Two plain rows of the key and six of the value are all there is.
        const Conversion mla =
            converted(*model, "mla8+4", {{"latent-norm", "off"}, {"rope-layout", to}});
        EXPECT_EQ(mla.model->plan()->settings["nope-dim"], 2);
        expect_same(*model, mla, from + " to " + to);
      }
    }
  }
}

TEST(Conversion, ToTheSameLatentsIsExact) {
  const auto model = small_model("mla10+4", {{"latent-norm", "off"}, {"q-rank", "8"}});
  expect_same(*model, converted(*model, "mla10+4", {{"latent-norm", "off"}, {"q-rank", "8"}}), "");
}

TEST(Conversion, ToNormedLatentsOfFullRankChangesLittle) {
  const auto model = small_model("mha", {{"positions", "none"}});
  EXPECT_LT(difference(*model, *converted(*model, "mla24+0").model), 2e-3);
}

TEST(Conversion, LosesLessWithMoreRank) {
  const auto model = small_model("mha");
  double keys = 2, values = 2;
  for (const std::string rank : {"4", "8", "16", "24"}) {
    const HeadErrors error = converted(*model, "mla", {{"kv-rank", rank}}).errors.front();
    EXPECT_LT(error.values, values) << rank;
    EXPECT_LE(error.keys, keys) << rank;
    keys = error.keys;
    values = error.values;
  }
  EXPECT_LT(values, 1e-6);
  EXPECT_GT(keys, 0.1);  // one rotary key cannot be that of four heads
}

TEST(Conversion, OfAnEnergyTakesTheLeastRankThatKeepsIt) {
  const auto model = small_model("mha", {{"positions", "none"}});
  const auto rank_of = [&](double energy) {
    const Conversion mla = converted(*model, "mla", {}, {.energy = energy});
    for (const HeadErrors& error : mla.errors) {
      // The energy is that of keys and values together: neither loses more than twice its share.
      EXPECT_LT(error.keys * error.keys + error.values * error.values, 4 * (1 - energy) + 1e-9);
    }
    return mla.model->plan()->settings["kv-rank"].get<Index>();
  };
  EXPECT_EQ(rank_of(1), kDim);
  EXPECT_LT(rank_of(0.9), kDim);
  EXPECT_LT(rank_of(0.5), rank_of(0.9));
  // One layer needs as many as it gets: with one less the share would not be kept.
  const Index rank = rank_of(0.9);
  const auto lost = [&](Index width) {
    double most = 0;
    for (Index layer = 0; layer < 2; ++layer) {
      const LayerMatrices matrices(model->parameters(),
                                   "model.layers." + std::to_string(layer) + ".self_attn",
                                   "model.layers." + std::to_string(layer) + ".input_layernorm");
      DoubleMatrix all = matrices.of_z("k_proj");
      all.append(matrices.of_z("v_proj"));
      const Factors best = factors(all, width);
      const DoubleMatrix near = product(best.left, best.right);
      double difference = 0, whole = 0;
      for (std::size_t i = 0; i < all.values.size(); ++i) {
        difference += std::pow(all.values[i] - near.values[i], 2);
        whole += std::pow(all.values[i], 2);
      }
      most = std::max(most, difference / whole);
    }
    return most;
  };
  EXPECT_LE(lost(rank), 0.1);
  EXPECT_GT(lost(rank - 1), 0.1);
}

TEST(Conversion, ChoosesTheLargestRotaryPairOfThoseThatRotateAboutAsFast) {
  const auto model = small_model("mha", {{"head-dim", "8"}});
  // The second and the fourth of each head's four rotary pairs are large.
  for (Index layer = 0; layer < 2; ++layer) {
    for (const std::string name : {"q_proj.weight", "k_proj.weight"}) {
      const auto rows = weights(*model, name, layer);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i / kDim % 2 == 0) rows[i] *= Real{0.01};
      }
    }
  }
  const Wanted width = {{"kv-rank", "24"}, {"rope-dim", "4"}};
  const double even = converted(*model, "mla", width).errors.front().keys;
  const double norm =
      converted(*model, "mla", width, {.rotary_pairs = RotaryPairs::norm}).errors.front().keys;
  EXPECT_NE(even, norm);
  const auto rotary_key = [&](RotaryPairs pairs) {
    const auto mla = converted(*model, "mla", width, {.rotary_pairs = pairs}).model;
    const auto rows = weights(*mla, "kv_a_proj_with_mqa.weight").last(4 * kDim);
    return std::sqrt(std::inner_product(rows.begin(), rows.end(), rows.begin(), 0.0));
  };
  EXPECT_GT(rotary_key(RotaryPairs::norm), 10 * rotary_key(RotaryPairs::even));
}

TEST(Conversion, OfTiedHeadsIsExactToMhaAndBack) {
  for (const Wanted& given :
       {Wanted{{"positions", "none"}},
        Wanted{{"positions", "learned"}, {"norm", "layer"}, {"bias", "on"}}}) {
    for (const std::string groups : {"mqa", "gqa2"}) {
      Wanted of_tied = given;
      of_tied["tie-kv"] = "on";
      const auto tied = small_model(groups, of_tied);
      const Conversion mha = converted(*tied, "mha");
      expect_same(*tied, mha, groups + text(given));
      const Conversion back = converted(*mha.model, groups, {{"tie-kv", "on"}});
      expect_same(*mha.model, back, groups + text(given));
      EXPECT_EQ(back.model->parameters().element_count(), tied->parameters().element_count());
    }
  }
}

TEST(Conversion, ToTiedHeadsIsExactWhereAKeyWithoutPositionTellsTheValue) {
  const auto model = small_model("gqa2", {{"rope-dim", "4"}});
  // Rows 0 and 1 of a key have no position, and values are combinations of them.
  for (Index layer = 0; layer < 2; ++layer) {
    const auto k = weights(*model, "k_proj.weight", layer),
               v = weights(*model, "v_proj.weight", layer);
    for (std::size_t row = 0; row < 12; ++row) {
      const std::size_t group = row / 6;
      for (std::size_t i = 0; i < kDim; ++i) {
        const auto factor = static_cast<Real>(row);
        v[row * kDim + i] =
            factor * k[group * 6 * kDim + i] + (1 - factor) * k[(group * 6 + 1) * kDim + i];
      }
    }
  }
  for (const std::string layout : {"half", "interleaved"})
    expect_same(
        *model,
        converted(*model, "gqa2", {{"tie-kv", "on"}, {"rope-dim", "4"}, {"rope-layout", layout}}),
        layout);
  const auto other = small_model("gqa2", {{"rope-dim", "4"}});
  const HeadErrors lost =
      converted(*other, "gqa2", {{"tie-kv", "on"}, {"rope-dim", "4"}}).errors[0];
  EXPECT_GT(lost.values, 0.3);
}

TEST(Conversion, OfSharedLayersToTheSameIsExact) {
  const auto model = small_model("mqa/share", {{"layers", "4"}});
  expect_same(*model, converted(*model, "mha/share"), "mha/share");
  const auto by_type = small_model("mqa@3/gqa2/share@3/share@0", {{"layers", "4"}});
  expect_same(*by_type, converted(*by_type, "mha@3/mha/share@3/share@0"), "by type");
}

TEST(Conversion, ToSharedLayersKeepsTheMeanOfThem) {
  const auto model = small_model("mha", {{"layers", "4"}});
  const Conversion shared = converted(*model, "mha/share");
  // x differs from z by the norm's weights, which each layer has of its own.
  const auto of_z = [](const LanguageModel& m, const std::string& layer) {
    return LayerMatrices(m.parameters(), "model.layers." + layer + ".self_attn",
                         "model.layers." + layer + ".input_layernorm")
        .of_z("k_proj");
  };
  DoubleMatrix mean = of_z(*model, "2");
  mean += of_z(*model, "3");
  mean *= 0.5;
  const DoubleMatrix kept = of_z(*shared.model, "2");
  for (std::size_t i = 0; i < mean.values.size(); ++i)
    ASSERT_NEAR(kept.values[i], mean.values[i], 1e-5);
  EXPECT_THROW(of_z(*shared.model, "3"), ShapeError);
  for (const HeadErrors& error : shared.errors) EXPECT_GT(error.keys, 0.1);
}

TEST(Conversion, SaysHowFarKeysAndValuesMove) {
  // Heads 0 and 1 alike but for the sign, 2 and 3 the same: the mean of the first two is nothing.
  const auto model = small_model("mha", {{"positions", "none"}, {"layers", "1"}});
  for (const std::string name : {"k_proj.weight", "v_proj.weight"}) {
    const auto rows = weights(*model, name);
    const std::size_t head = 6 * kDim;
    for (std::size_t i = 0; i < head; ++i) {
      rows[head + i] = -rows[i];
      rows[2 * head + i] = rows[3 * head + i] = rows[i];
    }
  }
  const HeadErrors error = converted(*model, "gqa2").errors.front();
  EXPECT_NEAR(error.keys, std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(error.values, std::sqrt(0.5), 1e-6);
}

TEST(Conversion, SaysWhatIsLostWhereKeysRotateNoMore) {
  // All heads alike, so that only the turning can be lost: half of the pairs, the slow ones.
  const auto mqa = small_model("mqa", {{"head-dim", "8"}});
  const auto model = converted(*mqa, "mha").model;
  const auto lost = [&](const std::string& rope_dim) {
    return converted(*model, "mla", {{"kv-rank", "24"}, {"rope-dim", rope_dim}}).errors[0].keys;
  };
  EXPECT_GT(lost("2"), lost("4"));
  EXPECT_GT(lost("4"), lost("6"));
  EXPECT_GT(lost("6"), 0.001);
}

TEST(Conversion, DecodesAsItReads) {
  const auto model = small_model("mha");
  for (const std::string to : {"gqa2", "mla10+4", "mqa/share"}) {
    const auto other = converted(*model, to).model;
    const std::vector<std::int32_t> tokens = {1, 5, 3, 9};
    Decoder decoder(*other, {});
    Tape tape(std::as_const(*other).parameters());
    const auto whole = other->logits(tape, tokens, 1).value();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto step = decoder.feed(std::span(tokens).subspan(i, 1));
      EXPECT_NEAR(step[2], whole[i * kConvertedVocabulary + 2], 2e-3) << to;
    }
  }
}

}  // namespace
}  // namespace headcount
