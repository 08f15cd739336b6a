// What blocks and patterns of layers cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cost_rows.h"
#include "models/language_model.h"
#include "models/random_layers.h"

namespace headcount::costs {
namespace {

// Multi-query attention of 4 heads of 8 in a block of 32 with a feed-forward layer of 88:
// convolutions of 32 at A and C, 4 x 8 + 2 x 8 at B and 2 x 88 at D, each with 4 taps, of which
// the last 3 inputs are kept.
TEST(CostsOfABlock, WithCanonLayersAreThoseOfAllItsConvolutions) {
  Given config = with({{"layers", 3}, {"dim", 32}, {"heads", 4}, {"ffn-dim", 88}});
  set(config, "attention", "mqa");
  const auto row = [&] {
    std::vector<std::string> left_out;
    const std::vector<CostRow> rows = cost_table(config, 100, {}, left_out);
    return *std::ranges::find(rows, "mqa", &CostRow::attention);
  };
  const CostRow before = row();
  config.put("canon", "ABCD");
  const CostRow after = row();
  constexpr Index kChannels = 32 + 48 + 32 + 176;
  EXPECT_EQ(after.costs.parameters, before.costs.parameters + 3 * 4 * kChannels);
  EXPECT_EQ(after.costs.linear_macs_per_token,
            before.costs.linear_macs_per_token + 3 * 4 * kChannels);
  EXPECT_EQ(after.costs.cache_elements, before.costs.cache_elements + 3 * 3 * kChannels);
  EXPECT_EQ(after.costs.cache_elements_per_token, before.costs.cache_elements_per_token);
  EXPECT_EQ(after.cache_bytes, before.cache_bytes + 3 * 3 * kChannels * kStateBytes);
  const LanguageModel with_canon(resolve_model(config), 7);
  config.put("canon", "off");
  EXPECT_EQ(with_canon.parameters().element_count() -
                LanguageModel(resolve_model(config), 7).parameters().element_count(),
            3 * 4 * kChannels);
}

// What the layers of a pattern cost, against real layers: their parameters, the products of their
// forward pass, and the cache that is allocated.
TEST(CostsOfAPattern, AreThoseOfItsLayers) {
  constexpr Index kBatch = 2, kLength = 40;
  for (const std::string spec :
       {"mqa/share", "gqa2x4/2*share/mha", "mla/share/gqa", "mlax6/latent-bias"}) {
    Given config = with({{"layers", 7}, {"dim", 24}, {"heads", 4}, {"context", kLength}});
    set(config, "attention", spec);
    std::vector<std::string> left_out;
    const std::vector<CostRow> rows = cost_table(config, kLength, {}, left_out);
    const auto row = std::ranges::find(rows, spec, &CostRow::attention);
    ASSERT_NE(row, rows.end()) << spec;
    const ModelPlan model = resolve_model(config, {.causal = false});
    ParameterStore store;
    std::vector<std::unique_ptr<Attention>> layers;
    for (Index layer = 0; layer < model->layers; ++layer) {
      layers.push_back(make_attention(store, std::to_string(layer), model->layer_attention(layer),
                                      WeightInit()));
    }
    store.allocate();
    EXPECT_EQ(row->costs.parameters, static_cast<Index>(store.element_count())) << spec;
    Tape tape(std::as_const(store));
    const Var x = tape.constant({kBatch, kLength, model->dim},
                                Values(static_cast<std::size_t>(kBatch * kLength * model->dim), 1));
    const MacCounter counter;
    Memory memory;
    for (Index layer = 0; layer < model->layers; ++layer) {
      memory = model->layer_attention(layer).shares() ? Memory::sharing(memory, memory) : Memory();
      layers[static_cast<std::size_t>(layer)]->forward(x, memory);
    }
    EXPECT_EQ(counter.count(), (Count(kBatch) * (row->costs.linear_macs_per_token * kLength +
                                                 row->costs.prefill_attention_macs))
                                   .value())
        << spec;
    Index allocated = 0;
    for (const LayerCache& cache :
         LanguageModel(resolve_model(config), 3)
             .make_caches({.capacity = kLength, .rounding = CacheType::f16}))
      allocated += cache.bytes();
    EXPECT_EQ(kv_cache_bytes(model, kLength, CacheType::f16), allocated) << spec;
  }
}

// A layer that shares reads the pooled rows of another layer and does not pool. Projections of x
// [32] make rows of 16 numbers; csa pools two blocks with channels for each, also of an indexer's
// rows of 8 numbers.
TEST(CostsOfAPattern, CountThePooledRowsOfLayersThatShareThem) {
  constexpr Index kHca = 32 * 16 + 2 * 32 * 16 + 16;
  constexpr Index kCsa = 32 * 16 + 2 * 32 * 32 + 32 + 2 * 32 * 16 + 16;
  for (const auto& [spec, to_cache] :
       {std::pair("hca8@16/share", kHca), {"csa4+4@16/share", kCsa}}) {
    const ModelPlan model =
        resolve_model(with({{"layers", 2}, {"dim", 32}, {"heads", 4}, {"attention", spec}}));
    const AttentionCosts own = attention_costs(model->cycle[0], 256).front();
    const AttentionCosts shared = attention_costs(model->cycle[1], 256).front();
    EXPECT_EQ(shared.prefill_macs, own.prefill_macs) << spec;
    EXPECT_EQ(shared.decode_macs, own.decode_macs) << spec;
    EXPECT_EQ(own.linear_macs_per_token, shared.linear_macs_per_token + to_cache) << spec;
    EXPECT_EQ(std::ranges::count(cache_parts(model->cycle[1]), false, &Kept::per_sequence), 0)
        << spec;
  }
}

TEST(CostsOfAPattern, CountWindowsAndSharedLayersAtEachContext) {
  // In 12 layers 4 are global, 4 keep 16 tokens and 4 share. A token is 2 x 8 numbers in a layer.
  Given config = with({{"layers", 12}, {"dim", 32}, {"heads", 4}});
  set(config, "attention", "mqa@16/share/mqa");
  const ModelPlan model = resolve_model(config);
  for (const Index context : {1, 15, 16, 17, 1000}) {
    EXPECT_EQ(kv_cache_bytes(model, context, CacheType::int8),
              4 * (std::min<Index>(context, 16) + context) * (16 + 2 * 2));
  }
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 100, {}, left_out).back();
  EXPECT_EQ(row.attention, "mqa@16/share/mqa");
  ASSERT_EQ(row.long_cache_bytes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Index context = std::array<Index, 3>{4096, 131'072, 1'048'576}[i];
    EXPECT_EQ(row.long_cache_bytes[i], 4 * (16 + context) * 16 * 4);
  }
  // Pairs of the 8 layers with the window, and of the 4 without.
  EXPECT_EQ(row.costs.decode_attention_macs, 2 * 4 * 8 * (8 * 16 + 4 * 100));
}

}  // namespace
}  // namespace headcount::costs
