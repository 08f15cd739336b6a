#include "models/cost.h"

#include <algorithm>
#include <map>

namespace headcount {

std::string CostRow::label() const {
  const Index layers = std::ssize(cache.layers);
  if (!replaced || *replaced == layers) return name;
  return name + " in " + std::to_string(*replaced) + " of " + std::to_string(layers) + " layers";
}

namespace {

// Number of layers that have the attention at `place` of the cycle.
Index layers_at(const ModelPlan& model, Index place) {
  return (model->layers - 1 - place) / std::ssize(model->cycle) + 1;
}

void add(Costs& all, Count layers, const Costs& one) {
  for (Count Costs::*count : {&Costs::parameters, &Costs::linear_macs_per_token,
                              &Costs::prefill_macs, &Costs::decode_macs, &Costs::expansion_macs})
    all.*count += layers * one.*count;
}

}  // namespace

std::vector<CostRow> cost_rows(const ModelPlan& model, const std::string& name, Index context) {
  std::vector<std::vector<AttentionCosts>> cycle;
  std::size_t forms = 0;
  for (const AttentionPlan& attention : model->cycle) {
    cycle.push_back(attention_costs(attention, context));
    forms = std::max(forms, cycle.back().size());
  }
  const ModelCache cache = cache_of(model);
  std::vector<CostRow> rows;
  for (std::size_t form = 0; form < forms; ++form) {
    Costs costs;
    std::string suffix;
    for (Index place = 0; place < std::ssize(cycle); ++place) {
      const AttentionPlan& attention = model->cycle[place];
      const AttentionCosts& one = cycle[place][std::min(form, cycle[place].size() - 1)];
      const std::string own = one.name.substr(attention.kind().name.size());
      if (suffix.find(own) == std::string::npos) suffix += own;
      const Count layers = layers_at(model, place);
      add(costs, layers, one);
      Costs canon;  // of Canon layers
      for (const Kept& kept : kept_by_block(*model, attention)) {
        const Count weights = Count(kept.heads + 1) * kept.width;
        canon.parameters += weights;
        canon.linear_macs_per_token += weights;
      }
      add(costs, layers, canon);
    }
    rows.push_back({name + suffix, cache, costs, form > 0});
  }
  return rows;
}

namespace {

bool has_rows(const CachedLayer& layer) {
  return std::ranges::any_of(layer.parts, [](const Kept& kept) { return !kept.per_sequence; });
}

bool reads_all_tokens(const CachedLayer& layer) {
  return std::ranges::any_of(layer.parts, [&](const Kept& kept) {
    return !kept.per_sequence && !layer.is_windowed(kept);
  });
}

// Returns true for attentions whose rows are keys and values of KV heads.
bool has_kv_heads(const LayerSpec& part) {
  if (part.shares()) return true;
  const SettingList settings = part.kind->settings();
  return find_setting(settings, "kv-heads") != nullptr ||
         find_setting(settings, "tie-kv") != nullptr;
}

// The other attention in `layers` layers of a model with the sizes of `own`, whose heads are
// `width` wide.
ModelPlan plan_beside(const ModelCache& own, const std::string& attention, Index layers,
                      Index width, Index context, const std::optional<Given>& known) {
  constexpr Index kMostContext = 1 << 24;
  Given given = known ? for_another_attention(*known) : Given(model_settings());
  if (!has_scores(parse_attention_spec(attention).cycle)) {
    for (const char* name : kLeftToScores) given.erase(name);
  }
  given.put({{"layers", layers},
             {"dim", own.width},
             {"heads", own.heads},
             {"context", std::min(context, kMostContext)},
             {"positions", "none"}});  // rows are as wide without RoPE, which refuses odd widths
  given.erase("head-dim");             // others may have another default
  if (own.heads * width != own.width) given.put("head-dim", width);
  given.put("attention", attention);  // last: its word has priority
  return resolve_model(given);
}

// `old` with what `other` keeps in place of its rows.
CachedLayer replaced_layer(const CachedLayer& old, CachedLayer other, bool keeps_others) {
  for (const Kept& kept : old.parts) {
    const bool of_heads = kept.name == "k" || kept.name == "v" || old.kv_heads() == 0;
    if (kept.per_sequence || (keeps_others && !of_heads)) other.parts.push_back(kept);
  }
  if (other.window == 0 && !reads_all_tokens(old)) other.window = old.window;
  return other;
}

}  // namespace

std::vector<CostRow> rows_beside(const ModelCache& own, const std::string& attention, Index context,
                                 const std::optional<Given>& known) {
  const bool with_heads = std::ranges::all_of(parse_attention_spec(attention).cycle, has_kv_heads);
  const bool any_full = std::ranges::any_of(own.layers, reads_all_tokens);
  std::vector<Index> replaced;
  for (Index i = 0; i < std::ssize(own.layers); ++i) {
    if (with_heads || !any_full ? has_rows(own.layers[i]) : reads_all_tokens(own.layers[i]))
      replaced.push_back(i);
  }
  const Index count = std::ssize(replaced);
  if (count == 0 || own.width == 0 || own.heads == 0)
    throw SettingError("`attention` {}: {} has no heads that it could replace", attention,
                       own.type);
  CostRow row{attention, own};
  row.cache.notes.clear();
  row.replaced = count;
  std::map<Index, std::pair<ModelPlan, ModelCache>> plans;  // by the width of heads
  bool whole = count == std::ssize(own.layers);             // layers are those of a plan
  try {
    for (Index i = 0; i < count; ++i) {
      CachedLayer& layer = row.cache.layers[replaced[i]];
      const auto k = std::ranges::find(layer.parts, "k", &Kept::name);
      const Index width = k == layer.parts.end() ? own.head_dim : k->width;
      auto plan = plans.find(width);
      if (plan == plans.end()) {
        const ModelPlan made = plan_beside(own, attention, count, width, context, known);
        plan = plans.emplace(width, std::pair(made, cache_of(made))).first;
        row.cache.notes = plan->second.second.notes;
      }
      const CachedLayer& other = plan->second.second.layers[i];
      layer = replaced_layer(layer, other, with_heads);
      whole = whole && layer.window == other.window && layer.parts.size() == other.parts.size();
    }
  } catch (const Error& error) {
    throw SettingError("`attention` {}: {}", attention, error.what());
  }
  if (!known || !whole || plans.size() > 1) return {row};
  std::vector<CostRow> rows = cost_rows(plans.begin()->second.first, attention, context);
  for (CostRow& form : rows) form.cache = row.cache;
  return rows;
}

}  // namespace headcount
