// The well-known models, against what was published of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cost_rows.h"
#include "models/released_models.h"
#include "nn/layer_config.h"

namespace headcount {
namespace {

struct PublishedModel {
  std::string name, attention;
  Index heads, kv_heads;         // kv_heads: 0 for MLA
  std::int64_t cache_per_token;  // bytes at two a number
  std::int64_t attention_parameters;
};

// Sizes by hand from the papers' tables. Qwen3's norms of queries and keys are not counted.
const std::vector<PublishedModel> kPublished = {
    {"gpt-2", "mha", 12, 12, 36'864, 2'362'368},
    {"llama-2-7b", "mha", 32, 32, 512 * 1024, 67'108'864},
    {"llama-3-8b", "gqa", 32, 8, 128 * 1024, 41'943'040},
    {"llama-3-70b", "gqa", 64, 8, 320 * 1024, 150'994'944},
    {"mistral-7b", "gqa", 32, 8, 128 * 1024, 41'943'040},
    {"qwen3-8b", "gqa", 32, 8, 144 * 1024, 41'943'040},
    {"deepseek-v2", "mla", 128, 0, 576 * 60 * 2, 149'227'520},
    {"deepseek-v3", "mla", 128, 0, 70'272, 187'107'328},
};

// 5 local layers, which keep 1024 tokens, and a global one: 62 layers are 52 and 10. K and V of 16
// heads of 128. Its norms of queries and keys are not counted.
TEST(KnownModels, HaveGemma3sLocalAndGlobalLayers) {
  const Given config = with(known_model("gemma-3-27b").settings);
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 131'072, CacheType::bf16, left_out).back();
  EXPECT_EQ(row.attention, "5*gqa@1024/gqa");
  constexpr std::int64_t kPerToken = 2 * 16 * 128 * 2;
  EXPECT_EQ(row.cache_bytes, kPerToken * (52 * 1024 + 10 * 131'072));
  EXPECT_EQ(row.costs.parameters, std::int64_t{62} * (2 * 5376 * 32 * 128 + 2 * 5376 * 16 * 128));
  EXPECT_EQ(kv_cache_bytes(resolve_model(config), 1024, CacheType::bf16), kPerToken * 62 * 1024);
}

// 36 layers with states of 32 heads of 128 x 128, and the last three inputs of their convolutions,
// in float32; 12 layers with K and V of 2 heads of 256. 16 heads of queries, each with a gate; the
// states have one of their own, in in_proj_qkvz.
TEST(KnownModels, HaveQwen3NextsStatesAndGatedHeads) {
  const Given config = with(known_model("qwen3-next-80b").settings);
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 131'072, CacheType::bf16, left_out).back();
  EXPECT_EQ(row.attention, "3*deltax128/gqa");
  constexpr std::int64_t kKeys = 16 * 128, kValues = 32 * 128, kDim = 2048;
  constexpr std::int64_t kStates = kValues * 128 + 3 * (2 * kKeys + kValues);
  EXPECT_EQ(row.cache_bytes,
            std::int64_t{36} * kStates * 4 + std::int64_t{12} * 2 * 2 * 256 * 2 * 131'072);
  constexpr std::int64_t kDelta = kDim * (2 * kKeys + 2 * kValues) + kDim * 2 * 32 +
                                  4 * (2 * kKeys + kValues) + 2 * 32 + 128 + kValues * kDim;
  constexpr std::int64_t kGated = 3 * kDim * 16 * 256 + 2 * kDim * 2 * 256;
  EXPECT_EQ(row.costs.parameters, 36 * kDelta + 12 * kGated);
}

// 20 layers with states of 32 heads of 128 x 128, and the last three inputs of their convolutions,
// in float32; 7 layers with MLA, of latents of 512 and one rotary key of 64.
TEST(KnownModels, HaveKimiLinearsStatesAndLatents) {
  const ModelPlan model = resolve_model(with(known_model("kimi-linear-48b").settings));
  constexpr std::int64_t kStates = 32 * 128 * 128 + 3 * 3 * 32 * 128;
  for (const Index context : {4096, 131'072}) {
    EXPECT_EQ(kv_cache_bytes(model, context, CacheType::bf16),
              20 * kStates * 4 + std::int64_t{7} * (512 + 64) * 2 * context);
  }
  for (const Index mla : {4, 8, 12, 16, 20, 24, 27})  // as its configuration counts layers
    EXPECT_EQ(model->layer_attention(mla - 1).kind().name, "mla") << mla;
}

// A layer of KDA: q, k, v and o 2304 x 4096; low-rank matrices, of rank 128, for the decay of each
// channel and for the gate; beta 2304 x 32; three convolutions of 4 taps; dt_bias, A_log and a
// norm.
TEST(KnownModels, CountKimiLinearsLayersAsItsSourceHasThem) {
  constexpr std::int64_t kDim = 2304, kHeads = 32, kWidth = kHeads * 128, kRank = 128;
  constexpr std::int64_t kKda = 4 * kDim * kWidth + 2 * (kDim * kRank + kRank * kWidth) +
                                kDim * kHeads + 3 * kWidth * 4 + kWidth + kHeads + 128;
  static_assert(kKda == 39'514'272);
  constexpr std::int64_t kMla = kDim * kHeads * (128 + 64) + kDim * (512 + 64) + 512 +
                                512 * kHeads * (128 + 128) + kWidth * kDim;
  static_assert((20 * kKda + 7 * kMla) / 27 == 36'818'133);
  const ReleasedModel& kimi = known_model("kimi-linear-48b");
  std::vector<std::string> left_out;
  for (const CostRow& row : cost_table(with(kimi.settings), 131'072, CacheType::bf16, left_out)) {
    if (!row.attention.starts_with("3*kda") || !row.trained) continue;
    EXPECT_EQ(row.attention,
              "3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/"
              "2*kda/mla");
    EXPECT_EQ(row.costs.parameters, 20 * kKda + 7 * kMla);
    // Norms, dt_bias and A_log multiply nothing.
    EXPECT_EQ(row.costs.linear_macs_per_token,
              20 * (kKda - kWidth - kHeads - 128) + 7 * (kMla - 512));
    return;
  }
  ADD_FAILURE() << "the table has no row with kda";
}

// Layers with a window of 128 tokens take turns with layers without, the first one has it; K and V
// of 8 heads of 64. Queries and outputs of 64 heads, biases everywhere, and a sink for each head.
TEST(KnownModels, HaveGptOsssWindowsAndSinks) {
  for (const auto& [name, layers] :
       {std::pair<std::string, std::int64_t>{"gpt-oss-20b", 24}, {"gpt-oss-120b", 36}}) {
    const Given config = with(known_model(name).settings);
    std::vector<std::string> left_out;
    const CostRow row = cost_table(config, 131'072, CacheType::bf16, left_out).back();
    EXPECT_EQ(row.attention, "gqa8@128/gqa8");
    constexpr std::int64_t kPerToken = 2 * 8 * 64 * 2;
    EXPECT_EQ(row.cache_bytes, kPerToken * layers / 2 * (128 + 131'072));
    constexpr std::int64_t kLayer =
        2 * 2880 * 64 * 64 + 2 * 2880 * 8 * 64 + 64 * 64 + 2 * 8 * 64 + 2880 + 64;
    static_assert(kLayer == 26'550'144);
    EXPECT_EQ(row.costs.parameters, layers * kLayer);
    const ModelPlan model = resolve_model(config);
    EXPECT_EQ(model->layer_attention(0).window, 128);
    EXPECT_EQ(model->layer_attention(1).window, 0);
    EXPECT_TRUE(model->layer_attention(1).sinks);
  }
}

// Every fifth of 35 layers is global, the others have a window of 512 tokens; the last 15 read what
// the last layer of their type before them kept, so that 16 local and 4 global ones keep K and V of
// 2 heads of 256. Its norms of queries, keys and values are not counted.
TEST(KnownModels, HaveGemma3nsLayersThatShareByType) {
  const Given config = with(known_model("gemma-3n-e4b").settings);
  const ModelPlan model = resolve_model(config);
  constexpr std::int64_t kPerToken = 2 * 2 * 256 * 2;
  for (const Index context : {4096, 131'072, 1'048'576})
    EXPECT_EQ(kv_cache_bytes(model, context, CacheType::bf16),
              kPerToken * (16 * 512 + 4 * context));
  for (Index layer = 0; layer < 35; ++layer) {
    const bool global = layer % 5 == 4;
    EXPECT_EQ(model->layer_attention(layer).window, global ? 0 : 512) << layer;
    EXPECT_EQ(model->writer(layer), layer < 20 ? layer : global ? 19 : 18) << layer;
  }
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 131'072, CacheType::bf16, left_out).back();
  constexpr std::int64_t kQueries = 2 * 2048 * 8 * 256, kRows = 2 * 2048 * 2 * 256;
  EXPECT_EQ(row.costs.parameters, 35 * kQueries + 20 * kRows);
}

// A row of 512 numbers per token in windows of 128; csa keeps (512 + 128) / 4 numbers a token
// beyond them and hca 512 / 128, and 64 KiB of numbers are those of a window. Of an open block csa
// keeps 4 x 3 (512 + 128) numbers, and 2 x 4 (512 + 128) of the one before; hca 2 x 127 x 512.
TEST(KnownModels, HaveDeepSeekV4sPooledRows) {
  const Given config = with(known_model("deepseek-v4").settings);
  const ModelPlan model = resolve_model(config);
  constexpr std::int64_t kWindow = 128 * 512, kOpenCsa = 640 * (4 * 3 + 2 * 4),
                         kOpenHca = 2 * 127 * 512;
  static_assert(kWindow == 65'536);
  std::int64_t csa = 0;
  for (Index layer = 0; layer < 43; ++layer) {
    const AttentionPlan& attention = model->layer_attention(layer);
    const bool sparse = layer >= 2 && layer % 2 == 1;
    EXPECT_EQ(attention.kind().name, sparse ? "csa" : "hca") << layer;
    Count of_block, window, open;
    Index block = 0;
    for (const Kept& kept : cache_parts(attention)) {
      block = std::max(block, kept.block);
      if (kept.block == 0) {
        window += Count(kept.numbers()) * attention.window;
      } else {
        (kept.per_sequence ? open : of_block) += kept.numbers();
      }
    }
    EXPECT_EQ(of_block, (sparse ? 160 : 4) * Count(block));
    EXPECT_EQ(window, kWindow);
    EXPECT_EQ(open, sparse ? kOpenCsa : kOpenHca);
    csa += sparse ? 1 : 0;
  }
  EXPECT_EQ(csa, 20);
  for (const Index context : {4096, 131'072, 1'048'576})
    EXPECT_EQ(
        kv_cache_bytes(model, context, CacheType::bf16),
        2 * (43 * kWindow + (20 * 160 + 23 * 4) * context) + 4 * (20 * kOpenCsa + 23 * kOpenHca));
  // Queries, rows, grouped outputs, sinks and norms; compressors; the indexer.
  constexpr std::int64_t kDim = 4096, kHeads = 64, kRank = 1024;
  constexpr std::int64_t kShared = kDim * kRank + kRank + kRank * kHeads * 512 + kDim * 512 + 512 +
                                   8 * kRank * kHeads / 8 * 512 + kDim * 8 * kRank + kHeads;
  constexpr std::int64_t kOfHca = 2 * kDim * 512 + 128 * 512 + 512;
  constexpr std::int64_t kOfCsa =
      2 * kDim * 2 * 640 + 4 * 2 * 640 + 640 + kRank * 64 * 128 + kDim * 64;
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 131'072, CacheType::bf16, left_out).back();
  EXPECT_EQ(row.costs.parameters, 43 * kShared + 23 * kOfHca + 20 * kOfCsa);
}

// Latents of 512, rotary keys of 64 and index keys of 128 numbers in 61 layers. Beside
// DeepSeek-V3's projections the indexer has queries of 64 heads of 128, made of the query latent, a
// weight for each head, and keys with a LayerNorm. A token reads 2048 others.
TEST(KnownModels, HaveDeepSeekV32sIndexer) {
  const Given config = with(known_model("deepseek-v3.2").settings);
  const ModelPlan model = resolve_model(config);
  static_assert(512 + 64 + 128 == 704);
  for (const Index context : {4096, 131'072, 1'048'576})
    EXPECT_EQ(kv_cache_bytes(model, context, CacheType::bf16),
              std::int64_t{61} * 704 * 2 * context);
  const CostRow row = all_rows(config, 131'072, CacheType::bf16).at("dsa-absorbed");
  constexpr std::int64_t kIndexer = 1536 * 64 * 128 + 7168 * 64 + 7168 * 128 + 2 * 128;
  static_assert(kIndexer == 13'959'424);
  EXPECT_TRUE(row.decodes);
  EXPECT_EQ(row.costs.parameters, 61 * (187'107'328 + kIndexer));
  EXPECT_EQ(row.costs.decode_attention_macs,
            std::int64_t{61} * (131'072 * 64 * (128 + 1) + 2048 * 128 * (512 + 64 + 512)));
}

// DeepSeek-V3 as its inference code computes it, with wkv_b applied to queries and sums in every
// step, and as an article's table has it, with wkv_b merged into other matrices.
TEST(KnownModels, CountDeepSeekV3AsItIsRunAndAsItCouldBeMerged) {
  const CostRows rows =
      all_rows(with(known_model("deepseek-v3").settings), 131'072, CacheType::bf16);
  const CostRow &run = rows.at("mla-absorbed"), &merged = rows.at("mla-merged");
  constexpr std::int64_t kNorms = 1536 + 512;
  EXPECT_EQ(run.costs.parameters, std::int64_t{61} * 187'107'328);
  EXPECT_EQ(run.costs.linear_macs_per_token, std::int64_t{61} * (187'107'328 - kNorms));
  EXPECT_TRUE(run.decodes);
  constexpr std::int64_t kMerged =
      7168 * 1536 + 1536 * 128 * (512 + 64) + 7168 * (512 + 64) + std::int64_t{128} * 512 * 7168;
  static_assert(kMerged == 598'147'072);
  EXPECT_EQ(merged.costs.parameters, 61 * kMerged);
  EXPECT_EQ(merged.costs.linear_macs_per_token, 61 * kMerged);
  EXPECT_FALSE(merged.decodes);
}

TEST(KnownModels, HaveStep3sOneWideHead) {
  const Given config = with(known_model("step-3").settings);
  const CostRow row = all_rows(config, 1, CacheType::bf16).at("mfa");
  EXPECT_EQ(row.cache_bytes, 61 * 2 * 256 * 2);
  constexpr std::int64_t kWidth = 64 * 256, kRank = 2048, kDim = 7168;
  EXPECT_EQ(row.costs.parameters,
            61 * (kDim * kRank + kRank + kRank * kWidth + 2 * kDim * 256 + kWidth * kDim));
}

TEST(KnownModels, HaveThePublishedSizes) {
  for (const PublishedModel& published : kPublished) {
    const ModelPlan model = resolve_model(with(known_model(published.name).settings));
    const AttentionPlan& attention = model->cycle.front();
    EXPECT_EQ(attention.kind().name, published.attention) << published.name;
    EXPECT_EQ(attention.heads, published.heads) << published.name;
    if (published.attention != "mla") {
      EXPECT_EQ(cache_parts(attention).front().heads, published.kv_heads) << published.name;
    }
    const CostRows rows = all_rows(with(known_model(published.name).settings), 1, CacheType::bf16);
    const CostRow& row = rows.at(published.attention);
    EXPECT_EQ(row.layers, model->layers);
    EXPECT_EQ(row.cache_bytes, published.cache_per_token) << published.name;
    EXPECT_EQ(row.costs.parameters, Count(row.layers) * published.attention_parameters)
        << published.name;
  }
}

TEST(KnownModels, AreAllHeldAgainstTheirPublication) {
  std::vector<std::string> known, held;
  for (const ReleasedModel& model : known_models()) {
    known.push_back(model.name);
    EXPECT_FALSE(model.source.empty()) << model.name;
  }
  for (const PublishedModel& published : kPublished) held.push_back(published.name);
  for (const char* const name :
       {"deepseek-v3.2", "gemma-3-27b", "qwen3-next-80b", "kimi-linear-48b", "gpt-oss-20b",
        "gpt-oss-120b", "gemma-3n-e4b", "deepseek-v4", "step-3"})
    held.emplace_back(name);
  std::ranges::sort(known);
  std::ranges::sort(held);
  EXPECT_EQ(known, held);
}

TEST(KnownModels, UnknownNameIsAnErrorThatListsThem) {
  try {
    known_model("gpt-9");
    ADD_FAILURE() << "gpt-9 is not known";
  } catch (const SettingError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("'gpt-9'"), std::string::npos) << message;
    for (const ReleasedModel& model : known_models())
      EXPECT_NE(message.find(model.name), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace headcount
