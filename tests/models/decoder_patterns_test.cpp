// programs: models in_double
// Decoding where layers share, in patterns, and in the forms of MLA.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/checkpoint/checkpoint.h"
#include "models/decoding.h"

namespace headcount::decoding {
namespace {

// A layer that shares has queries of its own for the indexer's rows.
TEST(DecodingOfPickedRows, EqualsForwardWhereLayersShare) {
  for (const char* attention : {"csa3+2@4/share/csa2+1", "csa2+3/share@0/csa4+1@3/share@3",
                                "dsa8+2:index-topk=3/share/mqa/share",
                                "dsa:index-topk=4@9/dsa:index-topk=1/share@9/share@0"})
    expect_decoding_equals_forward(decoder_config(attention));
}

TEST(PatternDecoding, HasAFormInTheLayersThatHaveIt) {
  for (const std::string form : {"expanded", "absorbed"}) {
    Given config = decoder_config("mla/share/mqa@6");
    expect_decoding_equals_forward(config, {{"mla", form}});
  }
  const auto model = make_model(decoder_config("gqa2/mqa"));
  EXPECT_THROW(Decoder(*model, {1, CacheType::real, {{"gqa", "absorbed"}}}), ShapeError);
}

TEST(PatternDecoding, HasAFormForEachKind) {
  const auto model = make_model(decoder_config("mla/tpa"));
  const auto forms = [&](const FormOfKind& wanted) {
    std::vector<std::string> all;
    const Decoder decoder(*model, {1, CacheType::real, wanted});
    for (const LayerCache& cache : decoder.caches()) all.push_back(cache.form());
    return std::vector(all.begin(), all.begin() + 2);
  };
  EXPECT_EQ(forms({{"mla", "absorbed"}}), (std::vector<std::string>{"absorbed", ""}));
  EXPECT_EQ(forms({{"mla", "expanded"}}), (std::vector<std::string>{"expanded", ""}));
}

TEST(MlaDecoding, RefusesToAbsorbWhatIsNotLinearInTheKeys) {
  Given config = decoder_config("mla");
  set(config, "score-scale", "qk-norm");
  const auto model = make_model(config);
  EXPECT_THROW(Decoder(*model, {1, CacheType::real, {{"mla", "absorbed"}}}), ShapeError);
}

// DeepSeek's own code, absorbed mode: what its cache holds after T tokens.
TEST(MlaDecoding, CachesWhatDeepSeekV3Caches) {
  for (const char* name : {"deepseek_v3_mla_full_q", "deepseek_v3_mla_low_rank_q"}) {
    const Safetensors file =
        open_safetensors(std::string(HEADCOUNT_FIXTURE_FOLDER) + "/" + name + ".safetensors");
    const auto json = nlohmann::json::parse(file.metadata().at("config"));
    LayerConfig config;
    config.kind = "mla";
    config.dim = json.at("d_model");
    set(config, "heads", json.at("n_heads").get<Index>());
    set(config, "q-rank", json.at("q_lora_rank").get<Index>());
    set(config, "kv-rank", json.at("kv_lora_rank").get<Index>());
    set(config, "nope-dim", json.at("qk_nope_head_dim").get<Index>());
    set(config, "rope-dim", json.at("qk_rope_head_dim").get<Index>());
    set(config, "v-dim", json.at("v_head_dim").get<Index>());
    const TensorView& x = file.at("x");
    config.max_positions = x.shape[1];
    const AttentionPlan plan = resolved(config);
    ParameterStore parameters;
    const auto layer = make_attention(parameters, "w", plan, {});
    parameters.allocate();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      read_into(file.at(parameters.name({i})), parameters.value({i}));
    }
    std::vector<Real> input(x.element_count());
    read_into(x, input);
    const Index batch = x.shape[0], length = x.shape[1];
    LayerCache cache = make_cache(plan, {batch, length, CacheType::real, "absorbed"});
    Tape tape(std::as_const(parameters));
    Memory memory(cache, length);
    const Var y = layer->forward(tape.constant({batch, length, config.dim}, input), memory);
    const double tolerance = kDouble ? 1e-9 : 1e-4;
    const std::vector<double> outputs = file.at("y").to_doubles();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(y.value()[i]), outputs[i], tolerance);
    }
    const std::vector<double> latent = file.at("cache.latent").to_doubles();
    const std::vector<double> rope_key = file.at("cache.rope_key").to_doubles();
    const auto expect_kept = [&](const char* rows, const std::vector<double>& expected) {
      const RowCache& kept = cache.rows(rows);
      for (Index token = 0; token < batch * length; ++token) {
        const ConstMatrix row =
            kept.read(token / length, 0, token % length, 1, 0, kept.width(), nullptr);
        for (Index i = 0; i < kept.width(); ++i) {
          EXPECT_NEAR(static_cast<double>(row.data[i]),
                      expected[static_cast<std::size_t>(token * kept.width() + i)], tolerance);
        }
      }
    };
    expect_kept("latent", latent);
    expect_kept("rope_key", rope_key);
  }
}

}  // namespace
}  // namespace headcount::decoding
