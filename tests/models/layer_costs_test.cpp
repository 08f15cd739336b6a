// What layers cost, against real parameters, and against a count taken inside the matrix products
// of real forward passes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/products.h"
#include "models/cost_rows.h"
#include "models/language_model.h"
#include "nn/kinds_with_scores.h"
#include "nn/layer_config.h"
#include "nn/random_weights.h"

namespace headcount {
namespace {

using Values = std::vector<Real>;

bool fits(const LayerConfig& config) {
  try {
    resolved(config);
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

// A layer with sizes as they come; odd ones only where nothing is rotated.
LayerConfig random_layer(std::string_view kind) {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  LayerConfig c;
  c.kind = kind;
  c.max_positions = 150;
  c.rotary = *rc::gen::arbitrary<bool>();
  const Index even = c.rotary ? 2 : 1;
  const Index heads = size(1, 7);
  set(c, "heads", heads);
  set(c, "head-dim", even * size(1, 9));
  c.dim = size(1, 40);
  const Index kv_heads = *rc::gen::suchThat(rc::gen::inRange<Index>(1, heads + 1),
                                            [&](Index g) { return heads % g == 0; });
  const Index latents = *rc::gen::element<Index>(1, heads);
  set(c, "kv-heads", kv_heads);
  set(c, "latents", latents);
  set(c, "kv-rank", latents * size(1, 20));
  set(c, "latent-scale", *rc::gen::arbitrary<bool>());
  set(c, "kv-factors", size(1, 4));
  set(c, "q-factors", size(1, 4));
  set(c, "tie-kv", *rc::gen::arbitrary<bool>());
  set(c, "q-rank", *rc::gen::element<Index>(0, size(1, 20)));
  set(c, "nope-dim", size(1, 12));
  do {  // heads that are rotated in part may be too narrow
    set(c, "rope-dim", even * size(0, 6));
  } while (!fits(c));
  set(c, "v-dim", size(1, 12));
  set(c, "o-groups", *rc::gen::element<Index>(1, heads));
  set(c, "o-rank", size(1, 12));
  set(c, "compress", size(1, 9));
  set(c, "index-heads", size(1, 5));
  set(c, "index-head-dim", 12 + even * size(0, 3));
  set(c, "index-topk", size(1, 12));
  set(c, "latent-norm", *rc::gen::arbitrary<bool>());
  set(c, "latent-dim", size(1, 12));
  set(c, "value-heads", heads * size(1, 3));
  set(c, "key-heads", kv_heads);
  set(c, "conv-taps", size(1, 6));
  c.bias = *rc::gen::arbitrary<bool>();
  set(c, "output-projection", *rc::gen::arbitrary<bool>());
  set(c, "gate", *rc::gen::arbitrary<bool>());
  set(c, "sinks", attention_kind(kind).attends && *rc::gen::arbitrary<bool>());
  c.causal = !attention_kind(kind).attends || pools(attention_kind(kind));
  return c;
}

// Multiply-accumulates of a forward pass over `batch` sequences of `length`.
std::int64_t counted_macs(const Attention& layer, const ParameterStore& store, Index dim,
                          Index batch, Index length) {
  Tape tape(store);
  const Values x(static_cast<std::size_t>(batch * length * dim), Real{1});
  const Var input = tape.constant({batch, length, dim}, x);
  Memory memory;
  const MacCounter counter;
  layer.forward(input, memory);
  return counter.count();
}

class CostsOfALayer : public testing::TestWithParam<const AttentionKind*> {};
INSTANTIATE_TEST_SUITE_P(Registry, CostsOfALayer, testing::ValuesIn(attention_kinds()),
                         [](const auto& kind) {
                           std::string name(kind.param->name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(CostsOfALayer, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    const AttentionPlan config = resolved(random_layer(GetParam()->name));
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    const AttentionCosts costs = attention_costs(config).front();
    RC_ASSERT(costs.name == GetParam()->name);
    RC_ASSERT(costs.parameters.value() == store.element_count());
    // Up to three tiles of 64 queries and keys; one where causality would skip some.
    const Index batch = *rc::gen::inRange<Index>(1, 3),
                length = *rc::gen::inRange<Index>(1, pools(*GetParam()) ? 65 : 151);
    const Count macs =
        Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs(length, length));
    RC_ASSERT(counted_macs(*layer, store, config.dim, batch, length) == macs.value());
  }));
}

// Canon layer B has a weight per tap and channel, of which a token needs each once.
TEST_P(CostsOfALayer, WithACanonLayerCountItsWeightsAndItsState) {
  if (!convolves(*GetParam())) return;
  EXPECT_TRUE(rc::check([] {
    LayerConfig given = random_layer(GetParam()->name);
    given.causal = true;
    const AttentionPlan without = resolved(given);
    const Index taps = *rc::gen::inRange<Index>(1, 7);
    set(given, "canon", "BD");
    set(given, "canon-taps", taps);
    const AttentionPlan config = resolved(given);
    ParameterStore store;
    make_attention(store, "a", config, {});
    const Index weights = store.shape(store.find("a.canonB.weight")).size();
    const AttentionCosts costs = attention_costs(config).front(),
                         before = attention_costs(without).front();
    RC_ASSERT(costs.parameters.value() == store.element_count());
    RC_ASSERT(costs.linear_macs_per_token == before.linear_macs_per_token + weights);
    RC_ASSERT(costs.state_elements == before.state_elements + weights / taps * (taps - 1));
    RC_ASSERT(costs.cache_elements_per_token == before.cache_elements_per_token);
  }));
}

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
  EXPECT_EQ(after.cache_bytes, before.cache_bytes + 3 * 3 * kChannels * 4);
  const LanguageModel with_canon(resolve_model(config), 7);
  config.put("canon", "off");
  EXPECT_EQ(with_canon.parameters().element_count() -
                LanguageModel(resolve_model(config), 7).parameters().element_count(),
            3 * 4 * kChannels);
}

TEST_P(CostsOfALayer, ToExpandAKeyAreTheMatrixThatDoesIt) {
  EXPECT_TRUE(rc::check([] {
    const AttentionPlan config = resolved(random_layer(GetParam()->name));
    ParameterStore store;
    make_attention(store, "a", config, {});
    Index expected = 0;
    const AttentionDescription description = describe(config);
    for (const Projection& p : description.forms.front().projections) {
      if (p.role == Projection::Role::of_cache)
        expected += store.shape(store.find("a." + p.name + ".weight")).size();
    }
    expected += description.forms.front().macs_per_kept.value();
    RC_ASSERT(attention_costs(config).front().expansion_macs_per_key.value() == expected);
  }));
}

// As decoding and DeepSeek's inference code compute it, with kv_b_proj applied in every step.
TEST(CostsOfAbsorbedMla, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    LayerConfig given = random_layer("mla");
    given.causal = true;
    if (given.bias) set(given, "sinks", false);  // with both there is no absorbed form
    const AttentionPlan config = resolved(given);
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    const AttentionCosts costs = attention_costs(config).at(1);
    RC_ASSERT(costs.name == "mla-absorbed");
    RC_ASSERT(costs.computed);
    RC_ASSERT(costs.parameters.value() == store.element_count());
    RC_ASSERT(costs.expansion_macs_per_key == Count(0));
    // One tile of queries and keys: none of its pairs are skipped.
    const Index batch = *rc::gen::inRange<Index>(1, 3), length = *rc::gen::inRange<Index>(2, 65);
    LayerCache cache =
        make_cache(config, {.sequences = batch, .capacity = length, .form = "absorbed"});
    Tape tape(std::as_const(store));
    const Values x(static_cast<std::size_t>(batch * length * config.dim), Real{1});
    const Var input = tape.constant({batch, length, config.dim}, x);
    Memory memory(cache, length);
    const MacCounter counter;
    layer->forward(input, memory);
    const Count macs =
        Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs(length, length));
    RC_ASSERT(counter.count() == macs.value());
  }));
}

// MLA with kv_b_proj merged into other matrices, by hand: kv_b_proj and the norms' weights
// multiplied into the projections of queries and output, one "head" of keys that are latents.
class MergedMla {
 public:
  // No biases, no rotation, an output projection.
  MergedMla(Tape& tape, const ParameterStore& store, const AttentionPlan& c)
      : tape_(tape), store_(store), c_(c) {
    const Var kv_b = reshape(parameter("kv_b_proj.weight"),
                             {c.heads, get(c, "nope-dim") + get(c, "v-dim"), rank()});
    const Var normed = transpose(with_norm(kv_b, "kv_a_layernorm"), 1, 2);
    const std::vector<Var> halves = split(normed, std::array{get(c, "nope-dim"), get(c, "v-dim")});

    const Var q = with_norm(parameter(get(c, "q-rank") > 0 ? "q_b_proj.weight" : "q_proj.weight"),
                            "q_a_layernorm");
    const Index q_in = get(c, "q-rank") > 0 ? get(c, "q-rank") : c.dim;
    const Var q_heads =
        transpose(reshape(q, {c.heads, get(c, "nope-dim") + get(c, "rope-dim"), q_in}), 1, 2);
    const std::vector<Var> q_parts =
        split(q_heads, std::array{get(c, "nope-dim"), get(c, "rope-dim")});
    const Var latent_q = matrix_product(q_parts[0], transpose(halves[0], 1, 2));
    q_ = reshape(transpose(concat(latent_q, q_parts[1]), 1, 2),
                 {c.heads * (rank() + get(c, "rope-dim")), q_in});

    const Var o = reshape(parameter("o_proj.weight"), {c.dim, c.heads, get(c, "v-dim")});
    const Var latent_o = matrix_product(transpose(o, 0, 1), transpose(halves[1], 1, 2));
    o_ = reshape(transpose(latent_o, 0, 1), {c.dim, c.heads * rank()});
  }

  Index parameters() const {
    const Index q_a = get(c_, "q-rank") > 0 ? parameter("q_a_proj.weight").shape().size() : 0;
    return q_a + parameter("kv_a_proj_with_mqa.weight").shape().size() + q_.shape().size() +
           o_.shape().size();
  }

  Var forward(Var x) const {
    const Index batch = x.shape()[0], length = x.shape()[1];
    const Var q_in = get(c_, "q-rank") > 0 ? unit(linear(x, parameter("q_a_proj.weight"))) : x;
    const Var q =
        reshape(linear(q_in, q_), {batch, length, c_.heads, rank() + get(c_, "rope-dim")});
    const std::vector<Var> kv = split(linear(x, parameter("kv_a_proj_with_mqa.weight")),
                                      std::array{rank(), get(c_, "rope-dim")});
    const Var latent = unit(kv[0]);
    const Var k = reshape(concat(latent, kv[1]), {batch, length, 1, rank() + get(c_, "rope-dim")});
    const double scale =
        1 / std::sqrt(static_cast<double>(get(c_, "nope-dim") + get(c_, "rope-dim")));
    const Var sums = attention(q, k, reshape(latent, {batch, length, 1, rank()}),
                               {.scale = static_cast<Real>(scale), .causal = false});
    return linear(reshape(sums, {batch, length, c_.heads * rank()}), o_);
  }

 private:
  Index rank() const { return get(c_, "kv-rank"); }
  Var parameter(const std::string& name) const { return tape_.parameter(store_.find("a." + name)); }
  // A matrix whose input is normed, as one whose input is normed without weights.
  Var with_norm(Var matrix, const std::string& norm) const {
    const bool has_norm =
        get(c_, "latent-norm") && (norm == "kv_a_layernorm" || get(c_, "q-rank") > 0);
    return has_norm ? multiply(matrix, parameter(norm + ".weight")) : matrix;
  }
  Var unit(Var x) const {
    return get(c_, "latent-norm") ? rms_norm(x, std::nullopt, static_cast<Real>(c_.norm_epsilon))
                                  : x;
  }

  Tape& tape_;
  const ParameterStore& store_;
  const AttentionPlan& c_;
  Var q_, o_;
};

RC_GTEST_PROP(CostsOfMergedMla, AreThoseOfAFormThatComputesTheSame, ()) {
  LayerConfig given = random_layer("mla");
  given.rotary = given.bias = false;
  set(given, "gate", false);
  set(given, "sinks", false);
  set(given, "output-projection", true);
  set(given, "latents", 1);
  set(given, "latent-scale", false);
  set(given, "rope-dim", std::max<Index>(1, get(given, "rope-dim")));
  const AttentionPlan config = resolved(given);
  ParameterStore store;
  const auto layer = make_attention(store, "a", config, {});
  draw_weights(store);
  const AttentionCosts costs = attention_costs(config).back();

  const Index length = *rc::gen::inRange<Index>(1, 100);
  Values values;
  for (Index i = 0; i < length * config.dim; ++i) {
    const double deviate = random_normal({5, 0, 0}, static_cast<std::uint64_t>(i));
    values.push_back(static_cast<Real>(deviate));
  }
  Tape tape(store);
  const Var x = tape.constant({1, length, config.dim}, values);
  const MergedMla merged(tape, store, config);
  RC_ASSERT(merged.parameters() == costs.parameters.value());
  Memory memory;
  const Var expected = layer->forward(x, memory);
  const MacCounter counter;
  const Var y = merged.forward(x);
  RC_ASSERT(counter.count() ==
            (Count(length) * (costs.linear_macs_per_token + costs.macs_per_pair * length)).value());
  double most = 0, error = 0;
  for (std::size_t i = 0; i < y.value().size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(expected.value()[i])));
    error = std::max(error, std::abs(static_cast<double>(y.value()[i] - expected.value()[i])));
  }
  RC_ASSERT(error <= 1e-4 * most);
}

// A latent serves half of the heads: half as wide for scores and sums, and for what expands it.
TEST(CostsOfTwoLatents, AreHalfAPair) {
  const nlohmann::json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                                {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  nlohmann::json two = sizes;
  two["latents"] = 2;
  const CostRows one_rows = all_rows(with(sizes), 1), two_rows = all_rows(with(two), 1);
  const auto pair = [](const CostRow& row) { return row.costs.decode_attention_macs; };
  EXPECT_EQ(pair(one_rows.at("mla-absorbed")), 4 * (32 + 8 + 32));
  EXPECT_EQ(pair(two_rows.at("mla-absorbed")), 4 * (16 + 8 + 16));
  EXPECT_EQ(one_rows.at("mla").costs.decode_expansion_macs, 32 * 4 * (8 + 8));
  EXPECT_EQ(two_rows.at("mla").costs.decode_expansion_macs, 16 * 4 * (8 + 8));
  EXPECT_EQ(two_rows.at("mla").costs.cache_elements_per_token, 32 + 8);
}

// With a gate before o_proj, what expands the values cannot be multiplied into it.
TEST(CostsOfAGate, AreItsMatrixAndInMergedMlaTheOneThatExpandsValues) {
  const nlohmann::json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                                {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  nlohmann::json gated = sizes;
  gated["gate"] = "on";
  const CostRows plain_rows = all_rows(with(sizes), 1), gated_rows = all_rows(with(gated), 1);
  const Index gate = 64 * 4 * 8, o_proj = 64 * 4 * 8, merged_o_proj = 64 * 4 * 32;
  for (const std::string kind : {"mla", "mla-absorbed", "mla-merged"}) {
    const Index more = kind != "mla-merged" ? gate : gate + 32 * 4 * 8 + o_proj - merged_o_proj;
    EXPECT_EQ(gated_rows.at(kind).costs.parameters, plain_rows.at(kind).costs.parameters + more)
        << kind;
    EXPECT_EQ(gated_rows.at(kind).costs.linear_macs_per_token,
              plain_rows.at(kind).costs.linear_macs_per_token + more)
        << kind;
  }
}

// R products of factors, d wide, for each of H heads: computed, or as their factors.
TEST(CostsOfTpa, AreThoseOfProductsOrOfFactors) {
  const CostRows rows = all_rows(
      with({{"layers", 1}, {"dim", 64}, {"heads", 4}, {"kv-factors", 2}, {"q-factors", 3}}), 10);
  const Index width = 16, product = 4 * width;
  const Index parameters = (3 + 2 + 2) * 64 * (4 + width) + 64 * product;
  const CostRow &expanded = rows.at("tpa"), &factored = rows.at("tpa-factored");
  for (const CostRow& row : {expanded, factored}) {
    EXPECT_EQ(row.costs.parameters, parameters);
    EXPECT_EQ(row.costs.cache_elements_per_token, (2 + 2) * (4 + width));
  }
  EXPECT_EQ(expanded.costs.linear_macs_per_token, parameters + (3 + 2 + 2) * product);
  EXPECT_EQ(expanded.costs.decode_expansion_macs, 10 * (2 + 2) * product);
  EXPECT_EQ(expanded.costs.decode_attention_macs, 10 * 2 * product);
  EXPECT_EQ(factored.costs.linear_macs_per_token, parameters + 3 * product);
  EXPECT_EQ(factored.costs.decode_expansion_macs, 0);
  EXPECT_EQ(factored.costs.decode_attention_macs, 10 * 4 * (2 + 2) * (width + 1));
}

// A whole model with a context of its own; even sizes, so that every kind fits.
Given random_model(std::string_view kind) {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  Given config(model_settings());
  set(config, "attention", kind);
  set(config, "layers", size(1, 4));
  set(config, "dim", size(1, 30));
  set(config, "context", size(1, 40));
  set(config, "bias", *rc::gen::arbitrary<bool>());
  set(config, "heads", 2 * size(1, 5));
  set(config, "head-dim", 2 * size(1, 9));
  for (const char* rank : {"kv-rank", "q-rank"})
    if (*rc::gen::arbitrary<bool>()) set(config, rank, size(1, 20));
  set(config, "latent-norm", *rc::gen::arbitrary<bool>());
  return config;
}

TEST_P(CostsOfALayer, AreThoseOfTheModelInTheTable) {
  EXPECT_TRUE(rc::check([] {
    const Given config = random_model(GetParam()->name);
    const Index bytes = *rc::gen::element<Index>(1, 2, 4);
    const ModelPlan plan = resolve_model(config);
    const CostRows rows = all_rows(config, plan->context, bytes);
    const CostRow& row = rows.at(plan->attention);
    const LanguageModel model(plan, 3);
    Index parameters = 0;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      if (model.parameters().name({i}).starts_with("model.layers.0.self_attn."))
        parameters += model.parameters().shape({i}).size();
    }
    RC_ASSERT(row.costs.parameters.value() == parameters * plan->layers);
    const AttentionCosts one = attention_costs(plan->cycle.front()).front();
    const Count elements = row.costs.cache_elements_per_token * plan->context +
                           one.cache_elements_per_block * one.blocks(plan->context) * plan->layers;
    const KeptNumbers kept = kept_numbers(plan, plan->context), first = kept_numbers(plan, 0);
    RC_ASSERT(row.costs.cache_elements == elements + first.states);
    RC_ASSERT(row.costs.cache_elements == kept.elements + kept.states);
    RC_ASSERT(row.cache_bytes == kept.elements * bytes + kept.states * Index{4});
    RC_ASSERT(row.cache_bytes == kv_cache_bytes(plan, plan->context, {bytes, 0}));
  }));
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
      memory = model->layer_attention(layer).shares() ? Memory::sharing(memory) : Memory();
      layers[static_cast<std::size_t>(layer)]->forward(x, memory);
    }
    EXPECT_EQ(counter.count(), (Count(kBatch) * (row->costs.linear_macs_per_token * kLength +
                                                 row->costs.prefill_attention_macs))
                                   .value())
        << spec;
    Index allocated = 0;
    for (const LayerCache& cache : LanguageModel(resolve_model(config), 3)
                                       .make_caches({.capacity = kLength, .type = CacheType::f16}))
      allocated += cache.bytes();
    EXPECT_EQ(kv_cache_bytes(model, kLength, {2, 0}), allocated) << spec;
  }
}

TEST(CostsOfAPattern, CountWindowsAndSharedLayersAtEachContext) {
  // In 12 layers 4 are global, 4 keep 16 tokens and 4 share. A token is 2 x 8 numbers in a layer.
  Given config = with({{"layers", 12}, {"dim", 32}, {"heads", 4}});
  set(config, "attention", "mqa@16/share/mqa");
  const ModelPlan model = resolve_model(config);
  for (const Index context : {1, 15, 16, 17, 1000}) {
    EXPECT_EQ(kv_cache_bytes(model, context, {2, 1}),
              4 * (std::min<Index>(context, 16) + context) * (16 * 2 + 2 * 1));
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

TEST(CostsOfAPattern, ThatDoesNotFitAreAnError) {
  Given config = with({{"layers", 4}, {"heads", 4}});
  set(config, "attention", "mqa/gqa3");
  std::vector<std::string> left_out;
  EXPECT_THROW(cost_table(config, 8, {}, left_out), ShapeError);
}

}  // namespace
}  // namespace headcount
