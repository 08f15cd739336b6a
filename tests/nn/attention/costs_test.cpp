// label: unsanitized
// What a dry pass counts, against a count taken inside the matrix products of real passes, in every
// form of MLA too, and the memory of a step.
#include "nn/attention/costs.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/products/mac_counter.h"
#include "nn/attention/random_layer.h"

namespace headcount::costs {
namespace {

// A layer without what changes no count, windows and Canon layers, which other tests count, and
// what needs other layers.
LayerConfig counted_layer(const AttentionKind& kind) {
  LayerConfig c = random_layer(
      kind, {"window", "canon", "canon-taps", "score-scale", "score-cap", "value-residual"});
  c.causal = kind.needs_causal;
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
INSTANTIATE_TEST_SUITE_P(Registry, CostsOfALayer, testing::ValuesIn(attention_kinds()), name_of);

TEST_P(CostsOfALayer, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    const AttentionPlan config = resolved(counted_layer(*GetParam()));
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    // Up to three tiles of 64 queries and keys; one, of the queries of all heads, where causality
    // would skip some.
    const Index batch = *rc::gen::inRange<Index>(1, 3),
                longest = GetParam()->attends && config.causal ? 64 / config.heads : 150,
                length = *rc::gen::inRange<Index>(1, longest + 1);
    const AttentionCosts costs = attention_costs(config, length).front();
    RC_ASSERT(costs.name == GetParam()->name);
    RC_ASSERT(costs.parameters.value() == store.element_count());
    const Count macs = Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs);
    RC_ASSERT(counted_macs(*layer, store, config.dim, batch, length) == macs.value());
  }));
}

// The last token of a text, in every form: its projections, the rows that it reads, and the keys
// and values that are rebuilt from the cache, its own among them.
TEST_P(CostsOfALayer, AreTheMultiplyAccumulatesOfADecodedToken) {
  EXPECT_TRUE(rc::check([] {
    LayerConfig given = counted_layer(*GetParam());
    given.causal = true;
    if (convolves(*GetParam()) && *rc::gen::arbitrary<bool>()) set(given, "canon", "B");
    const AttentionPlan config = resolved(given);
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    const Index before = *rc::gen::inRange<Index>(1, 40);
    const std::vector<AttentionCosts> all = attention_costs(config, before + 1),
                                      first = attention_costs(config, 1);
    const std::vector<std::string_view> forms = attention_forms(config);
    for (std::size_t i = 0; i < forms.size(); ++i) {
      LayerCache cache =
          make_cache(config, {.capacity = before + 1, .form = std::string(forms[i])});
      Tape tape(std::as_const(store));
      const auto count = [&](Index tokens) {
        const Values x(static_cast<std::size_t>(tokens * config.dim), Real{1});
        Memory memory(cache, tokens);
        const MacCounter counter;
        layer->forward(tape.constant({1, tokens, config.dim}, x), memory);
        cache.set_length(cache.length() + tokens);
        return Count(counter.count());
      };
      const Count prefill = count(before);
      // kv_b_proj is applied in every step, to no cached row.
      if (config.kind().name == "mla" && forms[i] == "absorbed" && before > 1) {
        const AttentionCosts costs = attention_costs(config, before).at(i);
        RC_ASSERT(costs.name == "mla-absorbed");
        RC_ASSERT(costs.expansion_macs == Count(0));
        RC_ASSERT(prefill == costs.linear_macs_per_token * before + costs.prefill_macs);
      }
      RC_ASSERT(count(1) + first[i].expansion_macs ==
                all[i].linear_macs_per_token + all[i].expansion_macs + all[i].decode_macs);
    }
  }));
}

// Bytes of a forward and a backward pass, with the losses of the layer's own.
std::size_t step_memory(Layer& layer, Index length) {
  Tape tape(&layer.store);
  layer.store.clear_gradients();
  const Index dim = layer.config.dim;
  const Var x = tape.leaf({1, length, dim}, normal_values(0, length * dim));
  std::vector<Var> losses;
  Memory memory;
  memory.collect_losses_in(losses);
  Var loss = sum(layer.attention->forward(x, memory));
  for (const Var own : losses) loss = loss + own;
  tape.backward(loss);
  return tape.memory_capacity();
}

// Tapes take memory in blocks, of which the last may be half empty. Numbers for each pair of tokens
// would make it 16 times as much.
TEST_P(CostsOfALayer, OfMemoryGrowLinearlyWithTheText) {
  LayerConfig config = small_config(GetParam()->name);
  config.causal = true;
  config.max_positions = 2048;
  Layer layer(config);
  const double growth =
      static_cast<double>(step_memory(layer, 2048)) / static_cast<double>(step_memory(layer, 512));
  EXPECT_GT(growth, 2);
  EXPECT_LT(growth, 7);
}

}  // namespace
}  // namespace headcount::costs
