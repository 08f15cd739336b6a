#include "models/cost.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"

namespace headcount {

namespace {

// Number of layers that have the attention at `place` of the cycle.
Index layers_at(const ModelPlan& model, Index place) {
  return (model->layers - 1 - place) / std::ssize(model->cycle) + 1;
}

// Adds one row for each form; layers with fewer forms count with their last form.
void add_rows(std::vector<CostRow>& rows, const ModelPlan& model, Index context,
              const CacheRounding& rounding) {
  const ModelCache cache = cache_of(model);
  cache.require_fit(rounding);
  std::vector<std::vector<AttentionCosts>> cycle;
  std::size_t forms = 0, computed = 0;
  for (const AttentionPlan& attention : model->cycle) {
    cycle.push_back(attention_costs(attention, context));
    forms = std::max(forms, cycle.back().size());
    computed = std::max(computed, attention_forms(attention).size());
  }
  for (std::size_t form = 0; form < forms; ++form) {
    CostRow row{{}, model, cache};
    row.trained = form == 0;
    row.decodes = form + 1 == computed;
    row.layers = model->layers;
    std::string suffix;
    for (Index place = 0; place < std::ssize(cycle); ++place) {
      const AttentionPlan& attention = model->cycle[place];
      const AttentionCosts& one = cycle[place][std::min(form, cycle[place].size() - 1)];
      const std::string own = one.name.substr(attention.kind().name.size());
      if (suffix.find(own) == std::string::npos) suffix += own;
      const Count layers = layers_at(model, place);
      row.parameters += layers * one.parameters;
      row.linear_macs_per_token += layers * one.linear_macs_per_token;
      row.prefill_macs += layers * one.prefill_macs;
      row.decode_macs += layers * one.decode_macs;
      row.expansion_macs += layers * one.expansion_macs;
      for (const Kept& kept : cache.layers[place].parts) {
        if (!kept.per_sequence && kept.block == 0)
          row.cache_elements_per_token += layers * kept.numbers();
      }
      for (const Kept& kept : kept_by_block(*model, attention)) {
        const Count weights = layers * Count(kept.heads + 1) * kept.width;  // of a Canon layer
        row.parameters += weights;
        row.linear_macs_per_token += weights;
      }
    }
    row.cache_elements = cache.numbers(context).total();
    row.attention = model->attention + suffix;
    row.notes = attention_notes(model);
    row.cache_bytes = cache.bytes(context, rounding).total();
    for (const Index tokens : long_contexts())
      row.long_cache_bytes.push_back(cache.bytes(tokens, rounding).total());
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::span<const Index> long_contexts() {
  static constexpr std::array<Index, 3> kContexts = {1 << 12, 1 << 17, 1 << 20};
  return kContexts;
}

nlohmann::json released_latents() { return {{"kv-rank", 512}, {"rope-dim", 64}}; }

std::vector<CostRow> cost_table(const Given& given, const Given& others, Index context,
                                const CacheRounding& rounding, std::vector<std::string>& left_out,
                                const nlohmann::json& latents) {
  std::vector<CostRow> rows;
  const std::vector<LayerSpec> cycle = parse_attention_spec(given.text("attention")).cycle;
  const bool take_turns = cycle.size() > 1;
  for (const AttentionKind* kind : attention_kinds()) {
    const bool chosen = !take_turns && cycle.front().kind == kind;
    Given own = chosen ? given : others;
    if (!chosen && (kind->name == "mla" || kind->name == "dsa")) own.put(latents);
    if (take_turns && has_scores(cycle) && !kind->attends) {  // as in the pattern
      for (const char* name : kLeftToScores) own.erase(name);
    }
    own.put("attention", kind->name);
    std::optional<ModelPlan> model;
    try {
      model = resolve_model(own);
      kv_cache_bytes(*model, 1, rounding);  // refuses rows that do not fit the rounding
    } catch (const Error& error) {
      if (chosen && given.has("attention")) throw;
      left_out.push_back(std::string(kind->name) + ": " + error.what());
      continue;
    }
    add_rows(rows, *model, context, rounding);
  }
  if (take_turns) add_rows(rows, resolve_model(given), context, rounding);
  if (rows.empty()) throw ShapeError("{}", left_out.front());
  return rows;
}

}  // namespace headcount
