#include "models/cost/cost.h"

#include <algorithm>
#include <map>

#include "autograd/base/text.h"

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

// Layers that are alike: parts of an attention take turns in them, so that a layer shares the rows
// of one with its window.
struct Alike {
  Index width, window, heads;  // width of heads
  auto operator<=>(const Alike&) const = default;
};
Alike alike(const ModelCache& own, const CachedLayer& layer) {
  const Kept* const k = layer.part("k");
  return {k == nullptr ? own.head_dim : k->width, layer.window,
          layer.heads > 0 ? layer.heads : own.heads};
}
struct Replacement {
  ModelPlan plan;
  ModelCache cache;
  std::size_t next = 0;  // layer that comes next
};

// `attention`, or the only part in it without numbers with those of the model's own latents.
std::string with_own_latents(const ModelCache& own, const std::string& attention) {
  const std::vector<LayerSpec> cycle = parse_attention_spec(attention).cycle;
  const LayerSpec& only = cycle.front();
  if (cycle.size() > 1 || !only.settings.empty() || only.kind->numbers.front() != "kv-rank")
    return attention;
  for (const CachedLayer& layer : own.layers) {
    const Kept *const latent = layer.part("latent"), *const rope = layer.part("rope_key");
    if (latent == nullptr) continue;
    std::string word = attention + std::to_string(latent->width) + "+" +
                       std::to_string(rope == nullptr ? 0 : rope->width);
    const Kept* const index = layer.part("index_key");
    if (index != nullptr && find_setting(only.kind->settings(), "index-head-dim") != nullptr)
      word += ":index-head-dim=" + std::to_string(index->width);
    return word;
  }
  return attention;
}

// A sentence on sizes that an attention without numbers has by default; none if it has numbers.
std::vector<std::string> default_notes(const std::string& attention, const ModelPlan& plan) {
  const LayerSpec only = parse_attention_spec(attention).cycle.front();
  if (plan->cycle.size() > 1 || !only.settings.empty() || only.kind->numbers.front().empty())
    return {};
  std::string word = attention, before;
  for (const std::string_view name : only.kind->numbers) {
    if (name.empty()) break;
    word += before + setting_text(plan->cycle.front().values().at(std::string(name)));
    before = "+";
  }
  return {word + ", this program's default; other numbers are written in this way"};
}

// The other attention in `layers` layers of a model with the sizes of `own`, and of layers that are
// alike.
ModelPlan plan_beside(const ModelCache& own, const std::string& attention, Index layers,
                      const Alike& sizes, Index context, const std::optional<Given>& known) {
  constexpr Index kMostContext = 1 << 24;
  Given given = known ? for_another_attention(*known) : Given(model_settings());
  if (!has_scores(parse_attention_spec(attention).cycle)) {
    for (const char* name : kLeftToScores) given.erase(name);
  }
  given.put({{"layers", layers},
             {"dim", own.width},
             {"heads", sizes.heads},
             {"context", std::min(context, kMostContext)},
             {"positions", "none"}});  // rows are as wide without RoPE, which refuses odd widths
  given.erase("head-dim");             // others may have another default
  if (sizes.heads * sizes.width != own.width) given.put("head-dim", sizes.width);
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
  const Kept *const keys = old.part("k"), *const values = old.part("v");
  for (Kept& kept : other.parts) {
    const bool of_keys = values != nullptr && other.part("k") != nullptr &&
                         other.part("k")->width == keys->width && kept.width == keys->width;
    if (kept.name == "v" && of_keys) kept.width = values->width;
  }
  return other;
}

}  // namespace

std::vector<CostRow> rows_beside(const ModelCache& own, const std::string& word, Index context,
                                 const std::optional<Given>& known) {
  const std::string attention = with_own_latents(own, word);
  const bool with_heads = std::ranges::all_of(parse_attention_spec(attention).cycle, has_kv_heads);
  const bool any_full = std::ranges::any_of(own.layers, reads_all_tokens);
  std::vector<Index> replaced;
  for (Index i = 0; i < std::ssize(own.layers); ++i) {
    if (with_heads || !any_full ? own.layers[i].has_rows() : reads_all_tokens(own.layers[i]))
      replaced.push_back(i);
  }
  const Index count = std::ssize(replaced);
  if (count == 0 || own.width == 0 || own.heads == 0)
    throw SettingError("`attention` {}: {} has no heads that it could replace", attention,
                       own.type);
  CostRow row{attention, own};
  row.cache.notes.clear();
  row.replaced = count;
  std::map<Alike, Replacement> all;
  bool whole = count == std::ssize(own.layers);  // layers are those of a plan
  try {
    for (const Index i : replaced) {
      CachedLayer& layer = row.cache.layers[i];
      const Alike key = alike(own, layer);
      auto found = all.find(key);
      if (found == all.end()) {
        const ModelPlan made = plan_beside(own, attention, count, key, context, known);
        found = all.emplace(key, Replacement{made, cache_of(made)}).first;
        row.cache.notes = default_notes(attention, made);
        for (const std::string& note : found->second.cache.notes) row.cache.notes.push_back(note);
      }
      const CachedLayer& other = found->second.cache.layers[found->second.next++];
      layer = replaced_layer(layer, other, with_heads);
      whole = whole && layer.window == other.window && layer.parts.size() == other.parts.size();
    }
  } catch (const Error& error) {
    throw SettingError("`attention` {}: {}", attention, error.what());
  }
  if (!known || !whole || all.size() > 1) return {row};
  std::vector<CostRow> rows = cost_rows(all.begin()->second.plan, attention, context);
  for (CostRow& form : rows) form.cache = row.cache;
  return rows;
}

}  // namespace headcount
