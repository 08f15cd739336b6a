// What the cost model says, against published tables, against real parameters, and against a count
// taken inside the matrix products of real forward passes.
#include "models/cost.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/products.h"
#include "models/language_model.h"
#include "nn/own_settings.h"
#include "nn/random_weights.h"

namespace headcount {
namespace {

using CostRows = std::map<std::string, CostRow>;
using Values = std::vector<Real>;

constexpr std::int64_t kMega = 1 << 20, kGiga = kMega << 10, kTera = kGiga << 10;

ModelConfig with(const nlohmann::json& settings) {
  ModelConfig config;
  config.settings().read(settings);
  return config;
}

// The table by name; no kind may be left out and no name may come twice.
CostRows all_rows(const ModelConfig& config, Index context, Index bytes_per_element = 4) {
  std::vector<std::string> left_out;
  CostRows rows;
  for (const CostRow& row : cost_table(config, context, {bytes_per_element, 0}, left_out)) {
    EXPECT_TRUE(rows.emplace(row.attention, row).second) << row.attention;
  }
  EXPECT_EQ(left_out, std::vector<std::string>{});
  return rows;
}

TEST(CostTable, IsTheArticlesForWidth256) {
  const ModelConfig config = with({{"layers", 1},
                                   {"dim", 256},
                                   {"heads", 8},
                                   {"kv-heads", 4},
                                   {"bias", "on"},
                                   {"kv-rank", 64},
                                   {"q-rank", 64},
                                   {"nope-dim", 16},
                                   {"v-dim", 16},
                                   {"rope-dim", 26},
                                   {"latent-norm", "off"}});
  const CostRows rows = all_rows(config, 10);
  struct Published {
    std::string attention;
    std::int64_t parameters, macs;
  };
  for (const auto& [attention, parameters, macs] : {Published{"mha", 263'168, 2'621'440},
                                                    {"mqa", 148'032, 1'474'560},
                                                    {"gqa", 197'376, 1'966'080},
                                                    {"mla", 111'082, 1'100'800}}) {
    EXPECT_EQ(rows.at(attention).costs.parameters, parameters) << attention;
    EXPECT_EQ(rows.at(attention).costs.linear_macs_per_token * 10, macs) << attention;
  }
}

// Norms of latents, on by default, are absorbed too and add nothing.
TEST(CostTable, IsTheBlogsForWidth8192) {
  const ModelConfig config = with({{"layers", 1},
                                   {"dim", 8192},
                                   {"heads", 64},
                                   {"head-dim", 128},
                                   {"kv-heads", 8},
                                   {"kv-rank", 512},
                                   {"rope-dim", 0}});
  const CostRows rows = all_rows(config, 131'072);
  struct Published {
    std::string attention;
    std::int64_t parameters, cache, prefill, decode;
  };
  for (const auto& [attention, parameters, cache, prefill, decode] :
       {Published{"mha", 256 * kMega, 2 * kGiga, 256 * kTera, 2 * kGiga},
        {"mqa", 130 * kMega, 32 * kMega, 256 * kTera, 2 * kGiga},
        {"gqa", 144 * kMega, 256 * kMega, 256 * kTera, 2 * kGiga},
        {"mla-absorbed", 516 * kMega, 64 * kMega, 1024 * kTera, 8 * kGiga}}) {
    const CostRow& row = rows.at(attention);
    EXPECT_EQ(row.costs.parameters, parameters) << attention;
    EXPECT_EQ(row.costs.cache_elements, cache) << attention;
    EXPECT_EQ(row.costs.prefill_attention_macs, prefill) << attention;
    EXPECT_EQ(row.costs.decode_attention_macs, decode) << attention;
  }
}

TEST(CostTable, HasEveryAttentionInTheRegistrysOrderAndMlaAndTpaTwice) {
  std::vector<std::string> left_out, expected, names;
  for (const AttentionKind* kind : attention_kinds()) {
    expected.emplace_back(kind->name);
    if (kind->name == "mla") expected.emplace_back("mla-absorbed");
    if (kind->name == "tpa") expected.emplace_back("tpa-factored");
  }
  for (const CostRow& row : cost_table(ModelConfig(), 1, {}, left_out))
    names.push_back(row.attention);
  EXPECT_EQ(names, expected);
}

TEST(CostTable, LeavesOutKindsThatDoNotFitAndSaysWhy) {
  const ModelConfig config = with({{"dim", 7}, {"heads", 7}, {"head-dim", 4}});
  std::vector<std::string> left_out;
  const std::vector<CostRow> rows = cost_table(config, 8, {}, left_out);
  ASSERT_EQ(left_out.size(), 2u);
  EXPECT_TRUE(left_out[0].starts_with("gqa: ")) << left_out[0];
  EXPECT_TRUE(left_out[1].starts_with("gta: ")) << left_out[1];
  for (const std::string& why : left_out) EXPECT_NE(why.find("`kv-heads`"), std::string::npos);
  for (const CostRow& row : rows) {
    EXPECT_NE(row.attention, "gqa");
    EXPECT_NE(row.attention, "gta");
  }
  EXPECT_EQ(rows.size(), attention_kinds().size());  // two kinds less, MLA and TPA twice
}

TEST(CostTable, WithoutAnyKindThatFitsIsAnError) {
  std::vector<std::string> left_out;
  EXPECT_THROW(cost_table(with({{"dim", 256}, {"heads", 3}}), 8, {}, left_out), ShapeError);
}

bool fits(AttentionConfig config) {
  try {
    resolve(config);
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

// A layer with sizes as they come; odd ones only where nothing is rotated.
AttentionConfig random_layer(std::string_view kind) {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  AttentionConfig c;
  c.kind = kind;
  c.positions = 150;
  c.rotary = *rc::gen::arbitrary<bool>();
  const Index even = c.rotary ? 2 : 1;
  c.heads = size(1, 7);
  c.head_dim = even * size(1, 9);
  c.dim = size(1, 40);
  set(c, "kv-heads", *rc::gen::suchThat(rc::gen::inRange<Index>(1, c.heads + 1), [&](Index g) {
        return c.heads % g == 0;
      }));
  set(c, "latents", *rc::gen::element<Index>(1, c.heads));
  set(c, "kv-rank", get(c, "latents") * size(1, 20));
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
  set(c, "latent-norm", *rc::gen::arbitrary<bool>());
  set(c, "latent-dim", size(1, 12));
  set(c, "key-heads", get(c, "kv-heads"));
  set(c, "conv-taps", size(2, 6));
  c.bias = *rc::gen::arbitrary<bool>();
  c.output_projection = *rc::gen::arbitrary<bool>();
  c.gate = *rc::gen::arbitrary<bool>();
  c.causal = !attention_kind(kind).attends;
  resolve(c);
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
    const AttentionConfig config = random_layer(GetParam()->name);
    ParameterStore store;
    const auto layer = make_attention(store, "a", config, {});
    store.allocate();
    const AttentionCosts costs = attention_costs(config).front();
    RC_ASSERT(costs.name == GetParam()->name);
    RC_ASSERT(costs.parameters.value() == store.element_count());
    // Up to three tiles of 64 queries and keys.
    const Index batch = *rc::gen::inRange<Index>(1, 3), length = *rc::gen::inRange<Index>(1, 151);
    const Count macs =
        Count(batch) * (costs.linear_macs_per_token * length + costs.prefill_macs(length, length));
    RC_ASSERT(counted_macs(*layer, store, config.dim, batch, length) == macs.value());
  }));
}

TEST_P(CostsOfALayer, ToExpandAKeyAreTheMatrixThatDoesIt) {
  EXPECT_TRUE(rc::check([] {
    const AttentionConfig config = random_layer(GetParam()->name);
    ParameterStore store;
    make_attention(store, "a", config, {});
    Index expected = 0;
    const AttentionDescription description = describe(config);
    for (const Projection& p : description.forms.front().projections) {
      if (p.of_kept) expected += store.shape(store.find("a." + p.name + ".weight")).size();
    }
    expected += description.forms.front().macs_per_kept.value();
    RC_ASSERT(attention_costs(config).front().expansion_macs_per_key.value() == expected);
  }));
}

// MLA as it is decoded, by hand: kv_b_proj and the norms' weights multiplied into the projections
// of queries and output, one "head" of keys that are latents.
class AbsorbedMla {
 public:
  // No biases, no rotation, an output projection.
  AbsorbedMla(Tape& tape, const ParameterStore& store, const AttentionConfig& c)
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
  const AttentionConfig& c_;
  Var q_, o_;
};

RC_GTEST_PROP(CostsOfAbsorbedMla, AreThoseOfAFormThatComputesTheSame, ()) {
  AttentionConfig config = random_layer("mla");
  config.rotary = config.bias = config.gate = false;
  config.output_projection = true;
  set(config, "latents", 1);
  set(config, "latent-scale", false);
  set(config, "rope-dim", std::max<Index>(1, get(config, "rope-dim")));
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
  const AbsorbedMla absorbed(tape, store, config);
  RC_ASSERT(absorbed.parameters() == costs.parameters.value());
  Memory memory;
  const Var expected = layer->forward(x, memory);
  const MacCounter counter;
  const Var y = absorbed.forward(x);
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
TEST(CostsOfAGate, AreItsMatrixAndInAbsorbedMlaTheOneThatExpandsValues) {
  const nlohmann::json sizes = {{"layers", 1},   {"dim", 64},     {"heads", 4}, {"kv-rank", 32},
                                {"rope-dim", 8}, {"nope-dim", 8}, {"v-dim", 8}};
  nlohmann::json gated = sizes;
  gated["gate"] = "on";
  const CostRows plain_rows = all_rows(with(sizes), 1), gated_rows = all_rows(with(gated), 1);
  const Index gate = 64 * 4 * 8, o_proj = 64 * 4 * 8, merged_o_proj = 64 * 4 * 32;
  for (const std::string kind : {"mla", "mla-absorbed"}) {
    const Index more = kind == "mla" ? gate : gate + 32 * 4 * 8 + o_proj - merged_o_proj;
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
ModelConfig random_model(std::string_view kind) {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  ModelConfig config;
  config.attention.kind = kind;
  config.layers = size(1, 4);
  config.dim = size(1, 30);
  config.context = size(1, 40);
  config.bias = *rc::gen::arbitrary<bool>();
  config.attention.heads = 2 * size(1, 5);
  config.attention.head_dim = 2 * size(1, 9);
  set(config.attention, "kv-rank", *rc::gen::element(Index{kUnset}, size(1, 20)));
  set(config.attention, "q-rank", *rc::gen::element(Index{kUnset}, size(1, 20)));
  set(config.attention, "latent-norm", *rc::gen::arbitrary<bool>());
  return config;
}

TEST_P(CostsOfALayer, AreThoseOfTheModelInTheTable) {
  EXPECT_TRUE(rc::check([] {
    const ModelConfig config = random_model(GetParam()->name);
    const Index bytes = *rc::gen::element<Index>(1, 2, 4);
    const CostRows rows = all_rows(config, config.context, bytes);
    const CostRow& row = rows.at(config.attention.kind);
    const LanguageModel model(config, 3);
    Index parameters = 0;
    for (std::size_t i = 0; i < model.parameters().size(); ++i) {
      if (model.parameters().name({i}).starts_with("model.layers.0.self_attn."))
        parameters += model.parameters().shape({i}).size();
    }
    RC_ASSERT(row.costs.parameters.value() == parameters * config.layers);
    const Count elements = row.costs.cache_elements_per_token * config.context;
    const Count states = kept_numbers(model.config(), config.context).states;
    RC_ASSERT(row.costs.cache_elements == elements + states);
    RC_ASSERT(row.cache_bytes == elements * bytes + states * Index{4});
    RC_ASSERT(row.cache_bytes == kv_cache_bytes(model.config(), config.context, {bytes, 0}));
  }));
}

// What the layers of a pattern cost, against real layers: their parameters, the products of their
// forward pass, and the cache that is allocated.
TEST(CostsOfAPattern, AreThoseOfItsLayers) {
  constexpr Index kBatch = 2, kLength = 40;
  for (const std::string spec :
       {"mqa/share", "gqa2x4/2*share/mha", "mla/share/gqa", "mlax6/latent-bias"}) {
    ModelConfig config = with({{"layers", 7}, {"dim", 24}, {"heads", 4}, {"context", kLength}});
    parse_attention_spec(spec).apply(config);
    config.attention.causal = false;
    std::vector<std::string> left_out;
    const std::vector<CostRow> rows = cost_table(config, kLength, {}, left_out);
    const auto row = std::ranges::find(rows, spec, &CostRow::attention);
    ASSERT_NE(row, rows.end()) << spec;
    config.resolve();
    ParameterStore store;
    std::vector<std::unique_ptr<Attention>> layers;
    for (Index layer = 0; layer < config.layers; ++layer) {
      layers.push_back(make_attention(store, std::to_string(layer), config.layer_attention(layer),
                                      WeightInit()));
    }
    store.allocate();
    EXPECT_EQ(row->costs.parameters, static_cast<Index>(store.element_count())) << spec;
    Tape tape(std::as_const(store));
    const Var x = tape.constant({kBatch, kLength, config.dim},
                                Values(static_cast<std::size_t>(kBatch * kLength * config.dim), 1));
    const MacCounter counter;
    Memory memory;
    for (Index layer = 0; layer < config.layers; ++layer) {
      memory = config.layer_attention(layer).shares ? Memory::sharing(memory) : Memory();
      layers[static_cast<std::size_t>(layer)]->forward(x, memory);
    }
    EXPECT_EQ(counter.count(), (Count(kBatch) * (row->costs.linear_macs_per_token * kLength +
                                                 row->costs.prefill_attention_macs))
                                   .value())
        << spec;
    config.attention.causal = true;
    Index allocated = 0;
    for (const LayerCache& cache :
         LanguageModel(config, 3).make_caches({.capacity = kLength, .type = CacheType::f16}))
      allocated += cache.bytes();
    EXPECT_EQ(kv_cache_bytes(config, kLength, {2, 0}), allocated) << spec;
  }
}

TEST(CostsOfAPattern, CountWindowsAndSharedLayersAtEachContext) {
  // Of 12 layers 4 are global, 4 keep 16 tokens, 4 share. A token is 2 x 8 numbers in one layer.
  ModelConfig config = with({{"layers", 12}, {"dim", 32}, {"heads", 4}});
  parse_attention_spec("mqa@16/share/mqa").apply(config);
  config.resolve();
  for (const Index context : {1, 15, 16, 17, 1000}) {
    EXPECT_EQ(kv_cache_bytes(config, context, {2, 1}),
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
  ModelConfig config = with({{"layers", 4}, {"heads", 4}});
  parse_attention_spec("mqa/gqa3").apply(config);
  std::vector<std::string> left_out;
  EXPECT_THROW(cost_table(config, 8, {}, left_out), ShapeError);
}

TEST(Counts, ThatFitAreExact) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Count(kMost - 1) + 1, kMost);
  EXPECT_EQ(Count(kMost / 7) * 7, kMost);  // 2^63 - 1 is a multiple of 7
}

TEST(Counts, ThatDoNotFitAreErrors) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Count(kMost) + 1, ShapeError);
  EXPECT_THROW(Count(kMost / 7 + 1) * 7, ShapeError);
  EXPECT_THROW(Count(std::int64_t{1} << 32) * (std::int64_t{1} << 32), ShapeError);  // wraps to 0
  Count sum = kMost;
  EXPECT_THROW(sum += 1, ShapeError);
}

// Each figure alone, by sizes at which those before it still fit.
TEST(CostTable, RefusesWhatOverflowsInsteadOfWrapping) {
  const nlohmann::json wide = {{"layers", 1}, {"dim", 2}, {"heads", kMega}, {"head-dim", 2}};
  EXPECT_EQ(all_rows(with(wide), kMega / 2).at("mha").costs.prefill_attention_macs,
            std::int64_t{1} << 60);  // 2^22 a pair, 2^19 tokens
  struct TooLarge {
    std::string figure;
    nlohmann::json settings;
    Index layers, context;
  };
  constexpr Index kHuge = (Index{1} << 31) - 2;
  for (const auto& [figure, settings, layers, context] :
       {TooLarge{"prefill", wide, 1, 1 << 24},
        {"parameters", {{"dim", kMega}, {"heads", kHuge}, {"head-dim", 4096}}, 1, 1},
        {"head widths", {{"dim", 2}, {"heads", kHuge}, {"head-dim", kHuge}}, 1, 1},
        {"mla", {{"dim", 2}, {"heads", 2}, {"kv-rank", kHuge}, {"v-dim", kHuge}}, 1, 1},
        {"bytes of all layers", {{"dim", 128}, {"heads", 4}}, Index{1} << 55, 1}}) {
    ModelConfig config = with(settings);
    config.layers = layers;
    std::vector<std::string> left_out;
    try {
      cost_table(config, context, {}, left_out);
      ADD_FAILURE() << figure << " overflows";
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find("overflow"), std::string::npos) << error.what();
    }
  }
}

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
  ModelConfig config = with(known_model("gemma-3-27b").settings);
  std::vector<std::string> left_out;
  const CostRow row = cost_table(config, 131'072, {2, 0}, left_out).back();
  EXPECT_EQ(row.attention, "5*gqa@1024/gqa");
  constexpr std::int64_t kPerToken = 2 * 16 * 128 * 2;
  EXPECT_EQ(row.cache_bytes, kPerToken * (52 * 1024 + 10 * 131'072));
  EXPECT_EQ(row.costs.parameters, std::int64_t{62} * (2 * 5376 * 32 * 128 + 2 * 5376 * 16 * 128));
  config.resolve();
  EXPECT_EQ(kv_cache_bytes(config, 1024, {2, 0}), kPerToken * 62 * 1024);
}

// 20 layers with states of 32 heads of 128 x 128, and the last three inputs of their convolutions,
// in float32; 7 layers with MLA, of latents of 512 and one rotary key of 64.
TEST(KnownModels, HaveKimiLinearsStatesAndLatents) {
  ModelConfig config = with(known_model("kimi-linear-48b").settings);
  config.resolve();
  constexpr std::int64_t kStates = 32 * 128 * 128 + 3 * 3 * 32 * 128;
  for (const Index context : {4096, 131'072}) {
    EXPECT_EQ(kv_cache_bytes(config, context, {2, 0}),
              20 * kStates * 4 + std::int64_t{7} * (512 + 64) * 2 * context);
  }
  for (const Index mla : {4, 8, 12, 16, 20, 24, 27})  // as its configuration counts layers
    EXPECT_EQ(config.layer_attention(mla - 1).kind, "mla") << mla;
}

TEST(KnownModels, HaveStep3sOneWideHead) {
  const ModelConfig config = with(known_model("step-3").settings);
  const CostRow row = all_rows(config, 1, 2).at("mfa");
  EXPECT_EQ(row.cache_bytes, 61 * 2 * 256 * 2);
  constexpr std::int64_t kWidth = 64 * 256, kRank = 2048, kDim = 7168;
  EXPECT_EQ(row.costs.parameters,
            61 * (kDim * kRank + kRank + kRank * kWidth + 2 * kDim * 256 + kWidth * kDim));
}

TEST(KnownModels, HaveThePublishedSizes) {
  for (const PublishedModel& published : kPublished) {
    ModelConfig config = with(known_model(published.name).settings);
    config.resolve();
    EXPECT_EQ(config.attention.kind, published.attention) << published.name;
    EXPECT_EQ(config.attention.heads, published.heads) << published.name;
    if (published.attention != "mla") {
      EXPECT_EQ(get(config.attention, "kv-heads"), published.kv_heads) << published.name;
    }
    const CostRows rows = all_rows(with(known_model(published.name).settings), 1, 2);
    const CostRow& row = rows.at(published.attention);
    EXPECT_EQ(row.layers, config.layers);
    EXPECT_EQ(row.cache_bytes, published.cache_per_token) << published.name;
    EXPECT_EQ(row.costs.parameters, Count(row.layers) * published.attention_parameters)
        << published.name;
  }
}

TEST(KnownModels, AreAllHeldAgainstTheirPublication) {
  std::vector<std::string> known, held;
  for (const KnownModel& model : known_models()) {
    known.push_back(model.name);
    EXPECT_FALSE(model.source.empty()) << model.name;
  }
  for (const PublishedModel& published : kPublished) held.push_back(published.name);
  for (const char* const name : {"gemma-3-27b", "kimi-linear-48b", "step-3"})
    held.emplace_back(name);
  EXPECT_EQ(known, held);
}

TEST(KnownModels, UnknownNameIsAnErrorThatListsThem) {
  try {
    known_model("gpt-9");
    ADD_FAILURE() << "gpt-9 is not known";
  } catch (const SettingError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("'gpt-9'"), std::string::npos) << message;
    for (const KnownModel& model : known_models())
      EXPECT_NE(message.find(model.name), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace headcount
