// label: unsanitized
// The well-known models, against what was published of them: sizes by hand from the papers' tables.
#include "models/released_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cost_rows.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using Number = std::int64_t;

struct Published {
  std::string name, row;        // row of its attention in the cost table; "": the last one
  Number constant, per_token;   // bytes of a cache, two a number and four a number of a state
  Number attention_parameters;  // of all layers; norms of queries and keys are not counted
};

// Gemma 3: 5 local layers of 1024 tokens and a global one; K and V of 16 heads of 128.
constexpr Number kGemma3 = 2 * 16 * 128 * 2;
// Qwen3-Next: 36 layers with states of 32 heads of 128 x 128 and the last three inputs of their
// convolutions; 12 with 16 gated query heads and K and V of 2 heads of 256.
constexpr Number kNextKeys = 16 * 128, kNextValues = 32 * 128;
constexpr Number kNextState = kNextValues * 128 + 3 * (2 * kNextKeys + kNextValues);
constexpr Number kNextDelta = 2048 * (2 * kNextKeys + 2 * kNextValues) + 2048 * 2 * 32 +
                              4 * (2 * kNextKeys + kNextValues) + 2 * 32 + 128 + kNextValues * 2048;
constexpr Number kNextGated = 3 * 2048 * 16 * 256 + 2 * 2048 * 2 * 256;
// Kimi Linear: 20 layers with states of 32 heads of 128 x 128 and three inputs of convolutions of 4
// taps; low-rank matrices of rank 128 for decays and gate. 7 layers with MLA: latents of 512, one
// rotary key of 64.
constexpr Number kKimiWidth = 32 * 128, kKimiState = kKimiWidth * 128 + 3 * 3 * kKimiWidth;
constexpr Number kKimiKda = 4 * 2304 * kKimiWidth + 2 * (2304 * 128 + 128 * kKimiWidth) +
                            2304 * 32 + 3 * kKimiWidth * 4 + kKimiWidth + 32 + 128;
constexpr Number kKimiMla =
    2304 * 32 * (128 + 64) + 2304 * (512 + 64) + 512 + 512 * 32 * (128 + 128) + kKimiWidth * 2304;
static_assert(kKimiKda == 39'514'272 && (20 * kKimiKda + 7 * kKimiMla) / 27 == 36'818'133);
// gpt-oss: every second layer has a window of 128 tokens; K and V of 8 heads of 64, biases, and a
// sink for each of 64 heads.
constexpr Number kOss = 2 * 8 * 64 * 2;
constexpr Number kOssLayer =
    2 * 2880 * 64 * 64 + 2 * 2880 * 8 * 64 + 64 * 64 + 2 * 8 * 64 + 2880 + 64;
// Gemma 3n: every fifth of 35 layers is global, the others have windows of 512 tokens; the last 15
// share by type, so that 16 local and 4 global layers keep K and V of 2 heads of 256.
constexpr Number kGemma3n = 2 * 2 * 256 * 2;
// DeepSeek-V4: rows of 512 numbers in windows of 128 tokens; 20 layers of csa keep (512 + 128) / 4
// numbers a token, 23 of hca 512 / 128, and numbers of an open block and, csa, of the one before.
constexpr Number kV4Window = 128 * 512, kV4Csa = 640 * (4 * 3 + 2 * 4), kV4Hca = 2 * 127 * 512;
constexpr Number kV4Shared = 4096 * 1024 + 1024 + 1024 * 64 * 512 + 4096 * 512 + 512 +
                             8 * 1024 * 64 / 8 * 512 + 4096 * 8 * 1024 + 64;
constexpr Number kV4OfHca = 2 * 4096 * 512 + 128 * 512 + 512;
constexpr Number kV4OfCsa = 2 * 4096 * 2 * 640 + 4 * 2 * 640 + 640 + 1024 * 64 * 128 + 4096 * 64;
// DeepSeek-V3.2: beside the projections of V3, queries of 64 heads of 128 made of the query latent,
// a weight for each, and index keys of 128 with a LayerNorm.
constexpr Number kDeepSeek = 187'107'328, kIndexer = 1536 * 64 * 128 + 7168 * 64 + 7168 * 128 + 256;

const std::vector<Published> kPublished = {
    {"gpt-2", "mha", 0, 36'864, 12 * Number{2'362'368}},
    {"llama-2-7b", "mha", 0, 512 * 1024, 32 * Number{67'108'864}},
    {"llama-3-8b", "gqa", 0, 128 * 1024, 32 * Number{41'943'040}},
    {"llama-3-70b", "gqa", 0, 320 * 1024, 80 * Number{150'994'944}},
    {"mistral-7b", "gqa", 0, 128 * 1024, 32 * Number{41'943'040}},
    {"qwen3-8b", "gqa", 0, 144 * 1024, 36 * Number{41'943'040}},
    {"deepseek-v2", "mla", 0, 576 * 60 * 2, 60 * Number{149'227'520}},
    {"deepseek-v3", "mla", 0, 70'272, 61 * kDeepSeek},
    {"deepseek-v3.2", "dsa-absorbed", 0, 61 * (512 + 64 + 128) * 2, 61 * (kDeepSeek + kIndexer)},
    {"gemma-3-27b", "5*gqa@1024/gqa", 52 * 1024 * kGemma3, 10 * kGemma3,
     Number{62} * (2 * 5376 * 32 * 128 + 2 * 5376 * 16 * 128)},
    {"qwen3-next-80b", "3*deltax128/gqa", 36 * kNextState * 4, 12 * 2 * 2 * 256 * 2,
     36 * kNextDelta + 12 * kNextGated},
    {"kimi-linear-48b", "3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/2*kda/mla",
     20 * kKimiState * 4, 7 * (512 + 64) * 2, 20 * kKimiKda + 7 * kKimiMla},
    {"gpt-oss-20b", "gqa8@128/gqa8", 12 * 128 * kOss, 12 * kOss, 24 * kOssLayer},
    {"gpt-oss-120b", "gqa8@128/gqa8", 18 * 128 * kOss, 18 * kOss, 36 * kOssLayer},
    {"gemma-3n-e4b", "", 16 * 512 * kGemma3n, 4 * kGemma3n,
     Number{35} * 2 * 2048 * 8 * 256 + Number{20} * 2 * 2048 * 2 * 256},
    {"deepseek-v4", "", 2 * 43 * kV4Window + 4 * (20 * kV4Csa + 23 * kV4Hca),
     2 * (20 * 160 + 23 * 4), 43 * kV4Shared + 23 * kV4OfHca + 20 * kV4OfCsa},
    {"step-3", "mfa", 0, 61 * 2 * 256 * 2,
     61 * (Number{7168} * 2048 + 2048 + 2048 * 64 * 256 + 2 * 7168 * 256 + 64 * 256 * 7168)},
};

TEST(KnownModels, HaveThePublishedSizes) {
  std::vector<std::string> held, known;
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.name);
    held.push_back(published.name);
    std::vector<std::string> left_out;
    const std::vector<CostRow> rows =
        cost_table(with(known_model(published.name).settings), 131'072, CacheType::bf16, left_out);
    const auto row = published.row.empty()
                         ? rows.end() - 1
                         : std::ranges::find(rows, published.row, &CostRow::attention);
    ASSERT_NE(row, rows.end()) << "the last row is " << rows.back().attention;
    EXPECT_EQ(row->cache_bytes, published.constant + published.per_token * 131'072);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(row->long_cache_bytes[i],
                published.constant + published.per_token * long_contexts()[i]);
    EXPECT_EQ(row->costs.parameters, published.attention_parameters);
  }
  for (const ReleasedModel& model : known_models()) {
    known.push_back(model.name);
    EXPECT_FALSE(model.source.empty()) << model.name;
  }
  std::ranges::sort(held);
  std::ranges::sort(known);
  EXPECT_EQ(known, held);
}

// 64 heads of the indexer score all tokens, 128 heads read 2048 of them.
TEST(KnownModels, CountWhatDeepSeekV32ReadsOfAText) {
  const CostRow row =
      all_rows(with(known_model("deepseek-v3.2").settings), 131'072).at("dsa-absorbed");
  EXPECT_TRUE(row.decodes);
  EXPECT_EQ(row.costs.decode_attention_macs,
            Number{61} * (131'072 * 64 * (128 + 1) + 2048 * 128 * (512 + 64 + 512)));
}

// DeepSeek-V3 as an article's table has it, with wkv_b merged into other matrices.
TEST(KnownModels, CountDeepSeekV3AsItCouldBeMerged) {
  constexpr Number kMerged =
      7168 * 1536 + 1536 * 128 * (512 + 64) + 7168 * (512 + 64) + Number{128} * 512 * 7168;
  static_assert(kMerged == 598'147'072);
  EXPECT_EQ(
      all_rows(with(known_model("deepseek-v3").settings), 1).at("mla-merged").costs.parameters,
      61 * kMerged);
}

TEST(KnownModels, UnknownNameIsAnErrorThatListsThem) {
  const std::string message = message_of<SettingError>([] { known_model("gpt-9"); });
  EXPECT_NE(message.find("'gpt-9'"), std::string::npos) << message;
  for (const ReleasedModel& model : known_models())
    EXPECT_NE(message.find(model.name), std::string::npos) << message;
}

}  // namespace
}  // namespace headcount
