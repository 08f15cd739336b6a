#include "models/cost/cost.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

namespace headcount {

std::string CostRow::label() const {
  constexpr std::size_t kBegin = 12, kEnd = 18;
  const Index layers = std::ssize(cache.layers);
  std::string text = name;
  if (name.size() > kBegin + kEnd + 3 && name.find('/') != name.npos)
    text.replace(kBegin, name.size() - kBegin - kEnd, "...");
  if (!replaced || *replaced == layers) return text;
  return text + " in " + std::to_string(*replaced) + " of " + std::to_string(layers) + " layers";
}

std::vector<CostRow> cost_rows(const ModelPlan& model, const std::string& name, Index context) {
  std::vector<std::vector<AttentionCosts>> cycle;  // forms of each layer
  std::size_t forms = 0;
  for (const AttentionPlan& attention : model->cycle) {
    cycle.push_back(attention_costs(attention, context));
    forms = std::max(forms, cycle.back().size());
    Count canon;  // weights of Canon layers
    for (const Kept& kept : kept_by_block(*model, attention))
      canon += Count(kept.heads + 1) * kept.width;
    for (AttentionCosts& form : cycle.back()) {
      form.name.erase(0, attention.kind().name.size());
      form.parameters += canon;
      form.linear_macs_per_token += canon;
    }
  }
  std::vector<CostRow> rows;
  for (std::size_t form = 0; form < forms; ++form) {
    CostRow& row = rows.emplace_back(CostRow{name, cache_of(model), Costs(), form > 0});
    for (Index i = 0; i < model->layers; ++i) {
      const std::vector<AttentionCosts>& layer = cycle[model->cycle_index(i)];
      const AttentionCosts& one = layer[std::min(form, layer.size() - 1)];
      if (row.name.find(one.name, name.size()) == row.name.npos) row.name += one.name;
      for (Count Costs::*count :
           {&Costs::parameters, &Costs::linear_macs_per_token, &Costs::prefill_macs,
            &Costs::decode_macs, &Costs::expansion_macs})
        (*row.costs).*count += one.*count;
    }
  }
  return rows;
}

std::vector<CostRow> cost_rows(const ModelCache& own, const std::string& name, Index context,
                               const std::optional<Given>& known) {
  std::vector<CostRow> rows = {{name, own}};
  if (known && known->whole("layers") == std::ssize(own.layers)) {  // without a draft head
    rows = cost_rows(resolve_model(*known), name, context);
    for (CostRow& row : rows) row.cache = own;
  }
  if (own.has_latents()) rows.push_back({name + ", expanded", own.expanded()});
  return rows;
}

namespace {

// Returns true if the layers are all of one attention of latents.
bool is_latent(std::span<const LayerSpec> cycle) {
  return cycle.size() == 1 && cycle[0].kind->numbers[0] == "kv-rank";
}

}  // namespace

Given settings_beside(const Given& known, const std::string& attention) {
  const std::vector<LayerSpec> cycle = parse_attention_spec(attention).cycle;
  const bool latents =
      is_latent(cycle) && is_latent(parse_attention_spec(known.text("attention")).cycle);
  Given given = latents ? known : for_another_attention(known);
  if (!has_scores(cycle))
    for (const char* name : kLeftToScores) given.erase(name);
  return given;
}

namespace {

bool reads_all_tokens(const CachedLayer& layer) {
  return std::ranges::any_of(layer.parts, [&](const Kept& kept) {
    return !kept.per_sequence && !layer.is_windowed(kept);
  });
}

// Returns true if the attention has a default width of heads of its own, as mfa and v4 have.
bool has_own_width(const LayerSpec& part) {
  return !part.shares() && find_setting(part.kind->settings(), "head-dim") != nullptr;
}

// Returns true for attentions whose rows are keys and values of KV heads.
bool has_kv_heads(const LayerSpec& part) {
  if (part.shares()) return true;
  const SettingList settings = part.kind->settings();
  return find_setting(settings, "kv-heads") != nullptr ||
         find_setting(settings, "tie-kv") != nullptr;
}

bool has_key_width(const LayerSpec& part) {
  return part.shares() || find_setting(part.kind->settings(), "key-dim") != nullptr;
}

// Widths of keys and of values, window and heads of layers that are alike.
using Alike = std::tuple<Index, Index, Index, Index>;

// Puts the sizes of the model's own latents, if it has any. Returns true if it did.
bool put_latents(const ModelCache& own, Given& given) {
  const auto layer = std::ranges::find_if(
      own.layers, [](const CachedLayer& one) { return one.part("latent") != nullptr; });
  if (layer == own.layers.end()) return false;
  const Kept *const rope = layer->part("rope_key"), *const index = layer->part("index_key");
  given.put("kv-rank", layer->part("latent")->width);
  given.put("rope-dim", rope == nullptr ? 0 : rope->width);
  if (index != nullptr) given.put("index-head-dim", index->width);
  return true;
}

// The other attention in `layers` layers of a model with the sizes of `own`, and of layers that are
// alike. A row that has its numbers from the latents of `own` is named so; one that has this
// program's says which.
ModelPlan plan_beside(const ModelCache& own, CostRow& row, const std::string& attention,
                      Index layers, const Alike& sizes, Index context,
                      const std::optional<Given>& known) {
  constexpr Index kMostContext = 1 << 24;
  const auto& [width, values_width, window, heads] = sizes;
  const std::vector<LayerSpec> cycle = parse_attention_spec(attention).cycle;
  Given given = known ? settings_beside(*known, attention) : Given(model_settings());
  given.put({{"layers", layers},
             {"dim", own.width},
             {"heads", heads},
             {"context", std::min(context, kMostContext)},
             {"positions", "none"}});  // rows are as wide without RoPE, which refuses odd widths
  given.erase("head-dim");
  const bool is_wide = std::ranges::any_of(cycle, has_own_width);
  if (heads * width != own.width && !(is_wide && own.width % heads == 0))
    given.put("head-dim", is_wide ? 2 * width : width);
  if (values_width != width && !is_wide && std::ranges::all_of(cycle, has_key_width))
    given.put({{"head-dim", values_width}, {"key-dim", width}});
  const bool has_own = is_latent(cycle) && put_latents(own, given);
  given.put("attention", attention);  // last: its word has priority
  const ModelPlan plan = resolve_model(given);
  if (cycle.size() == 1 && cycle[0].settings.empty()) {
    const nlohmann::ordered_json& values = plan->cycle[0].values();
    std::string before, text = attention;
    for (const std::string_view name : cycle[0].kind->numbers) {
      if (name.empty()) break;
      text += before + setting_text(values.at(std::string(name)));
      before = "+";
    }
    if (is_wide && cycle[0].kind->numbers[0] != "head-dim")
      text += "x" + std::to_string(plan->cycle[0].head_dim);
    if (has_own) row.name = text;
    if (values.contains("index-head-dim") && !given.has("index-head-dim"))
      text += ":index-head-dim=" + setting_text(values.at("index-head-dim"));
    if (text != row.name) row.defaults = text;
  }
  return plan;
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
  const bool any_rows = with_heads || !std::ranges::any_of(own.layers, reads_all_tokens);
  const auto is_replaced = [&](const CachedLayer& layer) {
    return any_rows ? layer.has_rows() : reads_all_tokens(layer);
  };
  const Index count = std::ranges::count_if(own.layers, is_replaced);
  if (count == 0 || own.width == 0 || own.heads == 0)
    throw SettingError("`attention` {}: {} has no heads that it could replace", attention,
                       own.type);
  CostRow row{.name = attention, .cache = own, .replaced = count};
  row.cache.notes.clear();
  // In layers that are alike parts take turns: a layer shares the rows of one with its window.
  std::map<Alike, std::vector<CachedLayer*>> groups;
  for (CachedLayer& layer : row.cache.layers) {
    const Kept *const k = layer.part("k"), *const v = layer.part("v");
    if (is_replaced(layer))
      groups[{k == nullptr ? own.head_dim : k->width, v == nullptr ? own.head_dim : v->width,
              layer.window, layer.heads > 0 ? layer.heads : own.heads}]
          .push_back(&layer);
  }
  std::optional<ModelPlan> plan;
  bool whole = count == std::ssize(own.layers) && groups.size() == 1;  // layers are those of a plan
  try {
    for (const auto& [alike, layers] : groups) {
      plan = plan_beside(own, row, attention, count, alike, context, known);
      const ModelCache other = cache_of(*plan);
      row.cache.notes = other.notes;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        CachedLayer& layer = *layers[i];
        layer = replaced_layer(layer, other.layers[i], with_heads);
        whole = whole && layer.window == other.layers[i].window &&
                layer.parts.size() == other.layers[i].parts.size();
      }
    }
  } catch (const Error& error) {
    throw SettingError("`attention` {}: {} (sizes stand in the word, such as gqa2 or mla256+32)",
                       attention, error.what());
  }
  if (!known || !whole) return {row};
  std::vector<CostRow> rows = cost_rows(*plan, row.name, context);
  for (CostRow& form : rows) {
    form.cache = row.cache;
    form.defaults = row.defaults;
  }
  return rows;
}

}  // namespace headcount
