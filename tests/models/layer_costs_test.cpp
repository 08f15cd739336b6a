// What a dry pass counts, against a count taken inside the matrix products of real passes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

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

TEST_P(CostsOfALayer, AreItsParametersAndItsMultiplyAccumulates) {
  EXPECT_TRUE(rc::check([] {
    const AttentionPlan config = resolved(random_layer(GetParam()->name));
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    // Up to three tiles of 64 queries and keys; one, of the queries of all heads, where causality
    // would skip some.
    const Index batch = *rc::gen::inRange<Index>(1, 3),
                longest = sees_all_before(*GetParam()) ? 64 / config.heads : 150,
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
    LayerConfig given = random_layer(GetParam()->name);
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
      count(before);
      RC_ASSERT(count(1) + first[i].expansion_macs ==
                all[i].linear_macs_per_token + all[i].expansion_macs + all[i].decode_macs);
    }
  }));
}

}  // namespace
}  // namespace headcount::costs
