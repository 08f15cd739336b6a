#include "models/cost.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"

namespace headcount {

namespace {

// Number of layers that have the attention at `place` of the cycle.
Index layers_at(const ModelPlan& model, std::size_t place) {
  const auto length = std::ssize(model->cycle), first = static_cast<std::ptrdiff_t>(place);
  return first < model->layers ? (model->layers - 1 - first) / length + 1 : 0;
}

// Adds what `layers` equal layers keep.
void add_kept(Costs& sum, const AttentionPlan& plan, Count layers) {
  for (const Kept& kept : cache_parts(plan)) {
    const Count numbers = layers * kept.numbers();
    if (kept.per_sequence) {
      if (kept.block > 0) sum.open_block_elements += numbers;
    } else if (kept.block > 0) {
      sum.pooled_elements_per_token +=
          static_cast<double>(numbers.value()) / static_cast<double>(kept.block);
    } else {
      sum.cache_elements_per_token += numbers;
      if (plan.window > 0) sum.window_elements += numbers * plan.window;
    }
  }
}

// Adds one row for each form; layers with fewer forms count with their last form.
void add_rows(std::vector<CostRow>& rows, const ModelPlan& model, Index context,
              const CacheNumbers& numbers) {
  std::vector<std::vector<AttentionCosts>> cycle;
  std::size_t forms = 0, computed = 0;
  for (const AttentionPlan& attention : model->cycle) {
    cycle.push_back(attention_costs(attention, context));
    forms = std::max(forms, cycle.back().size());
    computed = std::max(computed, attention_forms(attention).size());
  }
  for (std::size_t form = 0; form < forms; ++form) {
    CostRow row;
    row.trained = form == 0;
    row.decodes = form + 1 == computed;
    row.layers = model->layers;
    std::string suffix;
    for (std::size_t place = 0; place < cycle.size(); ++place) {
      const AttentionPlan& attention = model->cycle[place];
      const AttentionCosts& one = cycle[place][std::min(form, cycle[place].size() - 1)];
      const std::string own = one.name.substr(attention.kind().name.size());
      if (suffix.find(own) == std::string::npos) suffix += own;
      const Count layers = layers_at(model, place);
      row.costs.parameters += layers * one.parameters;
      row.costs.linear_macs_per_token += layers * one.linear_macs_per_token;
      row.costs.prefill_attention_macs += layers * one.prefill_macs;
      row.costs.decode_attention_macs += layers * one.decode_macs;
      row.costs.decode_expansion_macs += layers * one.expansion_macs;
      add_kept(row.costs, attention, layers);
      for (const CanonPart& part : canon_parts(*model, attention)) {
        const Count weights = layers * part.channels * part.taps;
        row.costs.parameters += weights;
        row.costs.linear_macs_per_token += weights;
      }
    }
    const KeptNumbers kept = kept_numbers(model, context);
    row.costs.cache_elements = kept.elements + kept.states;
    row.attention = model->attention + suffix;
    row.notes = attention_notes(model);
    row.cache_bytes = kv_cache_bytes(model, context, numbers);
    for (const Index tokens : long_contexts())
      row.long_cache_bytes.push_back(kv_cache_bytes(model, tokens, numbers));
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::span<const Index> long_contexts() {
  static constexpr std::array<Index, 3> kContexts = {1 << 12, 1 << 17, 1 << 20};
  return kContexts;
}

KeptNumbers kept_numbers(const ModelPlan& model, Index context) {
  KeptNumbers all;
  for (std::size_t place = 0; place < model->cycle.size(); ++place) {
    const KeptNumbers one = kept_numbers(model->cycle[place], context);
    const Count layers = layers_at(model, place);
    all.elements += layers * one.elements;
    all.rows += layers * one.rows;
    all.states += layers * one.states;
    for (const CanonPart& part : canon_parts(*model, model->cycle[place]))
      all.states += layers * part.channels * (part.taps - 1);
  }
  return all;
}

Count kv_cache_bytes(const ModelPlan& model, Index context, const CacheNumbers& numbers) {
  const KeptNumbers kept = kept_numbers(model, context);
  return kept.elements * numbers.bytes_per_element + kept.rows * numbers.bytes_per_row +
         kept.states * kStateBytes;
}

CacheNumbers cache_numbers(CacheType type) {
  return {cache_bytes(type, 1, 0), cache_bytes(type, 0, 1)};
}

double kv_cache_bytes_per_token(const ModelPlan& model, const CacheNumbers& numbers) {
  return static_cast<double>(kv_cache_bytes(model, model->context, numbers).value()) /
         static_cast<double>(model->context);
}

std::vector<CostRow> cost_table(const Given& given, const Given& others, Index context,
                                const CacheNumbers& numbers, std::vector<std::string>& left_out) {
  std::vector<CostRow> rows;
  const std::vector<LayerSpec> cycle = parse_attention_spec(given.text("attention")).cycle;
  const bool take_turns = cycle.size() > 1;
  for (const AttentionKind* kind : attention_kinds()) {
    Given own = !take_turns && cycle.front().kind == kind ? given : others;
    if (take_turns && has_scores(cycle) && !kind->attends) {  // as in the pattern
      for (const char* name : kLeftToScores) own.erase(name);
    }
    own.put("attention", kind->name);
    std::optional<ModelPlan> model;
    try {
      model = resolve_model(own);
    } catch (const ShapeError& error) {
      if (!take_turns && cycle.front().kind == kind && given.has("attention")) throw;
      left_out.push_back(std::string(kind->name) + ": " + error.what());
    }
    if (model) add_rows(rows, *model, context, numbers);
  }
  if (take_turns) add_rows(rows, resolve_model(given), context, numbers);
  if (rows.empty()) throw ShapeError(left_out.front());
  return rows;
}

namespace {

// Layers of DeepSeek-V4: two of hca, then hca and csa in turn.
nlohmann::json deepseek_v4() {
  using namespace nlohmann::literals;
  nlohmann::json settings = R"({"layers": 43, "dim": 4096, "heads": 64, "head-dim": 512,
      "rope-dim": 64, "q-rank": 1024, "o-groups": 8, "o-rank": 1024, "index-heads": 64,
      "index-head-dim": 128, "sinks": "on"})"_json;
  const std::string hca = "hca128@128", csa = "csa4+512@128";
  std::string layers = "2*" + hca;
  for (int turn = 0; turn < 20; ++turn) layers += "/" + hca + "/" + csa;
  settings["attention"] = layers + "/" + hca;
  return settings;
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  using namespace nlohmann::literals;
  static const std::vector<KnownModel> all = {
      {"gpt-2", "Radford et al. (2019); config.json of openai-community/gpt2",
       R"({"attention": "mha", "layers": 12, "dim": 768, "heads": 12, "bias": "on"})"_json},
      {"llama-2-7b", "Touvron et al. (2023); config.json of meta-llama/Llama-2-7b-hf",
       R"({"attention": "mha", "layers": 32, "dim": 4096, "heads": 32})"_json},
      {"llama-3-8b", "Grattafiori et al. (2024), table 3",
       R"({"attention": "gqa8", "layers": 32, "dim": 4096, "heads": 32})"_json},
      {"llama-3-70b", "Grattafiori et al. (2024), table 3",
       R"({"attention": "gqa8", "layers": 80, "dim": 8192, "heads": 64})"_json},
      {"mistral-7b",
       "Jiang et al. (2023), table 1, without its window: config.json of mistralai/Mistral-7B-v0.3",
       R"({"attention": "gqa8", "layers": 32, "dim": 4096, "heads": 32})"_json},
      {"qwen3-8b", "Yang et al. (2025), table 1; config.json of Qwen/Qwen3-8B",
       R"({"attention": "gqa8", "layers": 36, "dim": 4096, "heads": 32, "head-dim": 128})"_json},
      {"deepseek-v2", "DeepSeek-AI (2024), section 3.1.2",
       R"({"attention": "mla512+64", "layers": 60, "dim": 5120, "heads": 128, "head-dim": 128,
           "q-rank": 1536, "nope-dim": 128, "v-dim": 128})"_json},
      {"deepseek-v3", "DeepSeek-AI (2024), section 4.2",
       R"({"attention": "mla512+64", "layers": 61, "dim": 7168, "heads": 128, "head-dim": 128,
           "q-rank": 1536, "nope-dim": 128, "v-dim": 128})"_json},
      {"deepseek-v3.2",
       "DeepSeek-AI (2025), arXiv 2512.02556; config.json of deepseek-ai/DeepSeek-V3.2-Exp",
       R"({"attention": "dsa512+64", "layers": 61, "dim": 7168, "heads": 128, "head-dim": 128,
           "q-rank": 1536, "nope-dim": 128, "v-dim": 128, "index-heads": 64,
           "index-head-dim": 128, "index-topk": 2048})"_json},
      {"gemma-3-27b", "Gemma Team (2025), section 2.1; config.json of google/gemma-3-27b-it",
       R"({"attention": "5*gqa@1024/gqa", "layers": 62, "dim": 5376, "heads": 32,
           "head-dim": 128, "kv-heads": 16})"_json},
      {"qwen3-next-80b",
       "Qwen Team (2025); configuration of Qwen/Qwen3-Next-80B-A3B-Instruct as transformers has it",
       R"({"attention": "3*deltax128/gqa", "layers": 48, "dim": 2048, "heads": 16,
           "head-dim": 256, "kv-heads": 2, "gate": "on", "value-heads": 32, "key-heads": 16,
           "v-dim": 128})"_json},
      {"kimi-linear-48b",
       "Kimi Team (2025), arXiv 2510.26692; config.json of "
       "moonshotai/Kimi-Linear-48B-A3B-Instruct",
       R"({"attention": "3*kda/mla/3*kda/mla/3*kda/mla/3*kda/mla/)"
       R"(3*kda/mla/3*kda/mla/2*kda/mla", "layers": 27, "dim": 2304, "heads": 32,
           "head-dim": 128, "kv-rank": 512, "q-rank": 0, "nope-dim": 128, "rope-dim": 64,
           "v-dim": 128, "gate-bias": "off"})"_json},
      {"gpt-oss-20b", "OpenAI (2025), arXiv 2508.10925; config.json of openai/gpt-oss-20b",
       R"({"attention": "gqa8@128/gqa8", "layers": 24, "dim": 2880, "heads": 64, "head-dim": 64,
           "sinks": "on", "bias": "on"})"_json},
      {"gpt-oss-120b", "OpenAI (2025), arXiv 2508.10925; config.json of openai/gpt-oss-120b",
       R"({"attention": "gqa8@128/gqa8", "layers": 36, "dim": 2880, "heads": 64, "head-dim": 64,
           "sinks": "on", "bias": "on"})"_json},
      {"gemma-3n-e4b", "Google (2025); configuration of google/gemma-3n-E4B as transformers has it",
       R"({"attention": "4*gqa2@512/gqa2/4*gqa2@512/gqa2/4*gqa2@512/gqa2/4*gqa2@512/gqa2/)"
       R"(4*share@512/share@0/4*share@512/share@0/4*share@512/share@0", "layers": 35,
           "dim": 2048, "heads": 8, "head-dim": 256})"_json},
      {"deepseek-v4", "DeepSeek-AI (2026); configuration of DeepseekV4 as transformers has it",
       deepseek_v4()},
      {"step-3", "StepFun (2025), arXiv 2507.19427; model card of stepfun-ai/step3",
       R"({"attention": "mfa", "layers": 61, "dim": 7168, "heads": 64, "head-dim": 256,
           "q-rank": 2048})"_json},
  };
  return all;
}

const KnownModel& known_model(std::string_view name) {
  for (const KnownModel& model : known_models()) {
    if (model.name == name) return model;
  }
  throw SettingError("`preset` must be one of ", joined(known_models(), &KnownModel::name),
                     ", is '", name, "'");
}

}  // namespace headcount
