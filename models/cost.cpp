#include "models/cost.h"

#include <nlohmann/json.hpp>

namespace headcount {

namespace {

// `held`: keys that a query sees and the cache holds.
CostRow row_of(const AttentionCosts& costs, Count layers, Count context, Count held,
               Count bytes_per_element, Count bytes_per_row) {
  CostRow row;
  row.attention = costs.name;
  row.params_per_layer = costs.parameters;
  row.linear_macs_per_token_per_layer = costs.linear_macs_per_token;
  row.prefill_attention_macs_per_layer = costs.prefill_macs(context, held);
  row.decode_attention_macs_per_layer = costs.decode_macs(held);
  row.decode_expansion_macs_per_layer = costs.expansion_macs_per_key * held;
  row.cache_elements_per_token_per_layer = costs.cache_elements_per_token;
  row.cache_elements_per_layer = costs.cache_elements_per_token * held + costs.state_elements;
  row.cache_bytes = layers * (held * (costs.cache_elements_per_token * bytes_per_element +
                                      costs.cache_rows_per_token * bytes_per_row) +
                              costs.state_elements * Index{sizeof(float)});
  return row;
}

}  // namespace

std::vector<CostRow> cost_table(const ModelConfig& config, Index context, Index bytes_per_element,
                                std::vector<std::string>& left_out, Index bytes_per_row) {
  const Index held = config.attention.cached_tokens(context);
  std::vector<CostRow> rows;
  for (const AttentionKind* kind : attention_kinds()) {
    ModelConfig own = config;
    own.attention.kind = kind->name;
    try {
      own.resolve();
    } catch (const ShapeError& error) {
      left_out.push_back(std::string(kind->name) + ": " + error.what());
      continue;
    }
    for (const AttentionCosts& costs : attention_costs(own.attention)) {
      rows.push_back(row_of(costs, config.layers, context, held, bytes_per_element, bytes_per_row));
    }
  }
  if (rows.empty()) throw ShapeError(left_out.front());
  return rows;
}

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> all = {
      {"gpt-2",
       "Radford et al. (2019); config.json of openai-community/gpt2",
       {{"attention", "mha"}, {"layers", 12}, {"dim", 768}, {"heads", 12}, {"bias", "on"}}},
      {"llama-2-7b",
       "Touvron et al. (2023); config.json of meta-llama/Llama-2-7b-hf",
       {{"attention", "mha"}, {"layers", 32}, {"dim", 4096}, {"heads", 32}}},
      {"llama-3-8b",
       "Grattafiori et al. (2024), table 3",
       {{"attention", "gqa"}, {"layers", 32}, {"dim", 4096}, {"heads", 32}, {"kv-heads", 8}}},
      {"llama-3-70b",
       "Grattafiori et al. (2024), table 3",
       {{"attention", "gqa"}, {"layers", 80}, {"dim", 8192}, {"heads", 64}, {"kv-heads", 8}}},
      {"mistral-7b",
       "Jiang et al. (2023), table 1",
       {{"attention", "gqa"}, {"layers", 32}, {"dim", 4096}, {"heads", 32}, {"kv-heads", 8}}},
      {"qwen3-8b",
       "Yang et al. (2025), table 1; config.json of Qwen/Qwen3-8B",
       {{"attention", "gqa"},
        {"layers", 36},
        {"dim", 4096},
        {"heads", 32},
        {"head-dim", 128},
        {"kv-heads", 8}}},
      {"deepseek-v2",
       "DeepSeek-AI (2024), section 3.1.2",
       {{"attention", "mla"},
        {"layers", 60},
        {"dim", 5120},
        {"heads", 128},
        {"head-dim", 128},
        {"kv-rank", 512},
        {"q-rank", 1536},
        {"nope-dim", 128},
        {"rope-dim", 64},
        {"v-dim", 128}}},
      {"deepseek-v3",
       "DeepSeek-AI (2024), section 4.2",
       {{"attention", "mla"},
        {"layers", 61},
        {"dim", 7168},
        {"heads", 128},
        {"head-dim", 128},
        {"kv-rank", 512},
        {"q-rank", 1536},
        {"nope-dim", 128},
        {"rope-dim", 64},
        {"v-dim", 128}}},
  };
  return all;
}

const KnownModel& known_model(std::string_view name) {
  std::string known;
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  throw SettingError("`preset` must be one of " + known + ", is '" + std::string(name) + "'");
}

}  // namespace headcount
