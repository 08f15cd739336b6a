// What the forms of MLA cost: absorbed as it decodes, and merged, which is computed by hand here.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/cost_rows.h"
#include "models/random_layers.h"
#include "nn/random_weights.h"

namespace headcount::costs {
namespace {

// Absorbed MLA as decoding and DeepSeek's inference code compute it: kv_b_proj is applied in every
// step.
TEST(CostsOfAbsorbedMla, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    LayerConfig given = random_layer("mla");
    given.causal = true;
    if (given.bias) set(given, "sinks", false);  // with both there is no absorbed form
    set(given, "qk-norm", false);                // with it neither
    const AttentionPlan config = resolved(given);
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    // One tile of queries and keys: none of its pairs are skipped.
    const Index batch = *rc::gen::inRange<Index>(1, 3), length = *rc::gen::inRange<Index>(2, 65);
    const AttentionCosts costs = attention_costs(config, length).at(1);
    RC_ASSERT(costs.name == "mla-absorbed");
    RC_ASSERT(costs.computed);
    RC_ASSERT(costs.expansion_macs == Count(0));
    LayerCache cache =
        make_cache(config, {.sequences = batch, .capacity = length, .form = "absorbed"});
    Tape tape(std::as_const(store));
    const Values x(static_cast<std::size_t>(batch * length * config.dim), Real{1});
    const Var input = tape.constant({batch, length, config.dim}, x);
    Memory memory(cache, length);
    const MacCounter counter;
    layer->forward(input, memory);
    const Count macs = Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs);
    RC_ASSERT(counter.count() == macs.value());
  }));
}

// MLA with kv_b_proj merged into other matrices, by hand: kv_b_proj and the norms' weights
// multiplied into the projections of queries and output, one "head" of keys that are latents.
class MergedMla {
 public:
  // Merged MLA without biases and rotation, with an output projection.
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
  set(given, "qk-norm", false);
  set(given, "output-projection", true);
  set(given, "latents", 1);
  set(given, "latent-scale", false);
  set(given, "rope-dim", std::max<Index>(1, get(given, "rope-dim")));
  const AttentionPlan config = resolved(given);
  ParameterStore store;
  const auto layer = make_attention(store, "a", config, {});
  draw_weights(store);
  const Index length = *rc::gen::inRange<Index>(1, 100);
  const AttentionCosts costs = attention_costs(config, length).back();
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
            (Count(length) * costs.linear_macs_per_token + costs.prefill_macs).value());
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

}  // namespace
}  // namespace headcount::costs
