// What layers cost, against real parameters, and against a count taken inside the matrix products
// of real forward passes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "models/cost_rows.h"
#include "models/language_model.h"
#include "models/random_layers.h"

namespace headcount::costs {
namespace {

std::string name_of(const testing::TestParamInfo<const AttentionKind*>& kind) {
  std::string name(kind.param->name);
  std::ranges::replace(name, '-', '_');
  return name;
}

class CostsOfALayer : public testing::TestWithParam<const AttentionKind*> {};
INSTANTIATE_TEST_SUITE_P(Registry, CostsOfALayer, testing::ValuesIn(attention_kinds()), name_of);

std::vector<const AttentionKind*> kinds_that_convolve() {
  std::vector<const AttentionKind*> kinds;
  for (const AttentionKind* kind : attention_kinds()) {
    if (convolves(*kind)) kinds.push_back(kind);
  }
  return kinds;
}

class CostsOfACanonLayer : public CostsOfALayer {};
INSTANTIATE_TEST_SUITE_P(Registry, CostsOfACanonLayer, testing::ValuesIn(kinds_that_convolve()),
                         name_of);

TEST_P(CostsOfALayer, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    const AttentionPlan config = resolved(random_layer(GetParam()->name));
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    const AttentionCosts costs = attention_costs(config).front();
    RC_ASSERT(costs.name == GetParam()->name);
    RC_ASSERT(costs.parameters.value() == store.element_count());
    // Up to three tiles of 64 queries and keys; one, of the queries of all heads, where causality
    // would skip some.
    const Index batch = *rc::gen::inRange<Index>(1, 3),
                longest = sees_all_before(*GetParam()) ? 64 / config.heads : 150,
                length = *rc::gen::inRange<Index>(1, longest + 1);
    const Count macs =
        Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs(length, length));
    RC_ASSERT(counted_macs(*layer, store, config.dim, batch, length) == macs.value());
  }));
}

// Canon layer B has a weight per tap and channel, of which a token needs each once.
TEST_P(CostsOfACanonLayer, CountItsWeightsAndItsState) {
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

// R products of factors, d wide, for each of H heads.
TEST(CostsOfTpa, AreThoseOfProducts) {
  const CostRows rows = all_rows(
      with({{"layers", 1}, {"dim", 64}, {"heads", 4}, {"kv-factors", 2}, {"q-factors", 3}}), 10);
  const Index width = 16, product = 4 * width;
  const Index parameters = (3 + 2 + 2) * 64 * (4 + width) + 64 * product;
  const CostRow& expanded = rows.at("tpa");
  EXPECT_EQ(expanded.costs.parameters, parameters);
  EXPECT_EQ(expanded.costs.cache_elements_per_token, (2 + 2) * (4 + width));
  EXPECT_EQ(expanded.costs.linear_macs_per_token, parameters + (3 + 2 + 2) * product);
  EXPECT_EQ(expanded.costs.decode_expansion_macs, 10 * (2 + 2) * product);
  EXPECT_EQ(expanded.costs.decode_attention_macs, 10 * 2 * product);
}

// A whole model with a context of its own; even sizes, so that every kind fits.
Given random_model() {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  Given config(model_settings());
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

// What a row says of a model, at its own context and so many bytes for a cached number.
void expect_costs_of_model(const ModelPlan& plan, const CostRow& row, Index bytes) {
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
}

TEST(CostsOfLayers, AreThoseOfTheModelInTheTable) {
  EXPECT_TRUE(rc::check([] {
    Given config = random_model();
    const Index bytes = *rc::gen::element<Index>(1, 2, 4);
    const CostRows rows = all_rows(config, resolve_model(config)->context, bytes);
    for (const AttentionKind* kind : attention_kinds()) {
      set(config, "attention", kind->name);
      const ModelPlan plan = resolve_model(config);
      RC_LOG() << kind->name << '\n';
      expect_costs_of_model(plan, rows.at(plan->attention), bytes);
    }
  }));
}

}  // namespace
}  // namespace headcount::costs
