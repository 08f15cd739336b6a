#include "models/cost/layer_kinds.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

using Json = nlohmann::json;
using Kinds = std::vector<std::string>;

constexpr const char* kFull = "full_attention";
constexpr const char* kWindowed = "sliding_attention";

bool contains(const Json& list, Index number) {
  return std::ranges::find(list, Json(number)) != list.end();
}

Index layer_count(const Configuration& c) {
  const std::string pairs = c.rule("layer_pairs");  // key of the number of pairs of layers
  const Index layers = pairs.empty() ? c.positive("num_hidden_layers") : 2 * c.positive(pairs);
  constexpr Index kMostLayers = 100'000;
  if (layers > kMostLayers)
    throw DataError("'{}' {} is more than {}", c.name_of("num_hidden_layers"), layers, kMostLayers);
  return layers;
}

// The kind that an entry of a list stands for: a name of a kind, or a letter or number that has a
// meaning in that list ("else": all others).
std::string kind_of(const Configuration& c, const std::string& key, const Json& entry,
                    const Json& meanings) {
  std::string kind = entry.is_string() ? entry.get<std::string>() : entry.dump();
  if (!entry.is_string() || kind.size() == 1) {
    const auto meaning = meanings.find(meanings.contains(kind) ? kind : "else");
    if (meaning == meanings.end())
      throw DataError("'{}' has the entry {}, which stands for no known kind of layer", key,
                      headcount::quoted(kind));
    kind = *meaning;
  }
  kind = model_type_table("names_of_kinds").value(kind, kind);
  return kind == kFull ? c.rule("full", kFull) : kind;
}

// Kinds that the list of `key` stands for; none if there is no list. A text is a list of letters.
std::optional<Kinds> kinds_in(const Configuration& c, const std::string& key,
                              const Json& meanings) {
  const Json* const found = c.find(key);
  if (found == nullptr) return {};
  Kinds kinds;
  if (found->is_string()) {
    for (const char letter : found->get<std::string>())
      kinds.push_back(kind_of(c, key, std::string(1, letter), meanings));
  } else {
    for (const Json& entry : *c.list(key)) kinds.push_back(kind_of(c, key, entry, meanings));
  }
  return kinds.empty() ? std::nullopt : std::optional(kinds);
}

// Kinds that the configuration lists, one a layer, and perhaps more for layers of the draft head.
std::optional<Kinds> listed_kinds(const Configuration& c, Index drafts) {
  const std::string only = c.rule("lists_of_layers");
  for (const Json& row : model_type_table("lists_of_layers")) {  // key, meanings of numbers
    const auto key = row[0].get<std::string>();
    if (!only.empty() && key != only) continue;
    const bool letters = key == "hybrid_override_pattern";
    auto kinds = kinds_in(c, key, letters ? model_type_table("letters_of_kinds") : row[1]);
    if (!kinds) continue;
    if (c.find("num_hidden_layers") == nullptr) return kinds;
    const Index layers = layer_count(c), listed = std::ssize(*kinds);
    const std::string of_layers = c.name_of("num_hidden_layers") + "' " + std::to_string(layers);
    if (!c.gives(key) && listed != layers)
      throw DataError(
          "the configuration has no '{}', and that of its class is for {} layers, not '{}", key,
          listed, of_layers);
    if (listed < layers || listed > layers + drafts)
      throw DataError("'{}' has {} entries for '{}", key, listed, of_layers);
    return kinds;
  }
  return {};
}

// A cycle of kinds, as in "block_types", or groups of [cycle, times] of gpt_neo.
std::optional<Kinds> cycled_kinds(const Configuration& c) {
  Json cycle = Json::array();
  const Index layers = layer_count(c);
  if (const Json* const groups = c.list("attention_types")) {
    for (const Json& group : *groups) {
      if (!group.is_array() || group.size() != 2 || !group[0].is_array() ||
          !group[1].is_number_integer() || group[1] < 0 || group[1] > 1000)
        throw DataError("'attention_types' must be a list of [kinds, times]");
      for (Index i = 0; i < group[1].get<Index>() && std::ssize(cycle) < layers; ++i)
        cycle.insert(cycle.end(), group[0].begin(), group[0].end());
    }
    if (std::ssize(cycle) < layers)
      throw DataError("'attention_types' has {} entries for '{}' {}", cycle.size(),
                      c.name_of("num_hidden_layers"), layers);
  } else if (const Json* const blocks = c.list("block_types")) {
    cycle = *blocks;
  } else if (const std::string key = c.rule("alternates"); !key.empty() && c.on(key)) {
    cycle = {c.rule("every"), "nothing"};
  }
  if (cycle.empty()) return {};
  Kinds kinds;
  for (Index i = 0; i < layers; ++i)
    kinds.push_back(
        kind_of(c, "block_types", cycle[static_cast<std::size_t>(i) % cycle.size()], {}));
  return kinds;
}

// Kinds where the configuration lists the layers of one kind, by number.
std::optional<Kinds> kinds_of_sets(const Configuration& c) {
  const std::string other = c.rule("other");
  if (other.empty()) return {};
  for (const Json& row : model_type_table("sets_of_layers")) {  // key, kind, key of the others
    const auto key = row[0].get<std::string>();
    const Json* const set = c.list(key);
    if (set == nullptr) continue;
    const Json* const others = row.size() > 2 ? c.list(row[2]) : nullptr;
    const auto has = [&](Index layer) {
      return contains(*set, layer) || (others != nullptr && contains(*others, layer));
    };
    const std::string of_set = kind_of(c, key, row[1], Json::object());
    const std::string of_others = of_set == other ? c.rule("full", kFull) : other;
    const Index layers = layer_count(c), first = row.size() > 2 && !has(0) ? 1 : 0;
    for (const Json& layer : *set) {
      if (!layer.is_number_integer() || layer < first || layer >= layers + first)
        throw DataError("'{}' has the entry {} for {} layers", key, layer.dump(), layers);
    }
    Kinds kinds;
    for (Index i = first; i < layers + first; ++i) {
      if (others != nullptr && contains(*set, i) == contains(*others, i))
        throw DataError("layer {} is in {} '{}' {} '{}'", i, has(i) ? "both" : "neither", key,
                        has(i) ? "and" : "nor", row[2].get<std::string>());
      kinds.push_back(contains(*set, i) ? of_set : of_others);
    }
    return kinds;
  }
  return {};
}

// Every so many layers one is of full attention; 0: there is no period.
Index period_of(const Configuration& c) {
  const Index usual = c.number_rule("full_every", 0), more = c.number_rule("full_every_plus", 0);
  const std::string key = c.rule("full_every_key");
  const Json* const found = key.empty() ? nullptr : c.find(key);
  if (found != nullptr && found->is_string())
    return std::ssize(found->get_ref<const std::string&>());
  if (const Json* const states = c.find("mamba_enabled"); states != nullptr && *states == false)
    return 1;
  const bool unused = c.knows("use_sliding_window") && !c.on("use_sliding_window");
  const bool listed = key == "no_rope_layer_interval" && c.list("no_rope_layers") != nullptr;
  if (found == nullptr && usual > 0 && !unused && !listed)
    c.note("the file does not list the kinds of its layers: " + c.rule("at_period", kFull) +
           " in 1 of " + std::to_string(usual) + " is the rule of " + c.type());
  return found == nullptr ? usual : c.whole(key) + more;
}

// Kinds of a type that has one layer of full attention in each period.
Kinds periodic_kinds(const Configuration& c, Index period) {
  const Index layers = layer_count(c);
  const std::string at = c.rule("at_period", c.rule("full", kFull).c_str());
  const std::string place = c.rule("full_place");
  const Index usual = place == "middle" ? period / 2
                      : place == "end"  ? (layers - 1) % period
                                        : period - 1;
  const Index full_at = c.whole("attn_layer_offset", c.number_rule("full_at", usual));
  if (full_at >= period)
    throw DataError("'attn_layer_offset' {} is not less than the period of layers, {}", full_at,
                    period);
  const Json* const given = c.find(c.rule("full_every_key"));
  const bool drawn = given != nullptr && given->is_string();  // "LLLG"
  // Dense layers before the others, which have a period of their own.
  const Index of_prefix = c.positive("prefix_dense_sliding_window_pattern", 1);
  const Index prefix =
      c.knows("prefix_dense_sliding_window_pattern") ? c.whole("first_k_dense_replace") : 0;
  const Json* rotating = nullptr;  // 0: a layer without RoPE
  if (c.rule("full_every_key") == "no_rope_layer_interval") rotating = c.list("no_rope_layers");
  // Layers after the last whole period are of full attention, too.
  const Index whole = c.rule("rest") == "full" ? layers / period * period : layers;
  Kinds kinds;
  for (Index i = 0; i < layers; ++i) {
    const bool listed = rotating != nullptr && i < std::ssize(*rotating);
    const bool is_at =
        drawn    ? given->get_ref<const std::string&>()[static_cast<std::size_t>(i % period)] != 'L'
        : listed ? (*rotating)[static_cast<std::size_t>(i)] == 0
        : i < prefix ? (i + 1) % of_prefix == 0
                     : (i - prefix) % period == full_at;
    kinds.push_back(is_at || i >= whole ? at : c.rule("other"));
  }
  if (drawn) kinds.back() = at;  // whatever its letter
  return kinds;
}

// The first half of Phi-4-mini-flash, then one layer whose rows all later ones read.
Kinds kinds_of_decoder_decoder(const Configuration& c) {
  const Index layers = layer_count(c), half = layers / 2, step = c.positive("mb_per_layer");
  Kinds kinds(static_cast<std::size_t>(layers), "nothing");
  for (Index i = 0; i < std::min(layers, half + 2); ++i)
    kinds[static_cast<std::size_t>(i)] = i % step == 0 ? "linear_attention"
                                         : i < half    ? kWindowed
                                                       : kFull;
  return kinds;
}

// Whether layers have the window of the configuration, where nothing says which ones have it.
bool has_windows(const Configuration& c) {
  if (c.knows("use_sliding_window") && !c.on("use_sliding_window")) return false;
  const Json* const window = c.find("sliding_window");
  if (window == nullptr || *window == 0) return false;
  const bool off = c.find("use_sliding_window") != nullptr && !c.on("use_sliding_window");
  if (!off && c.knows("sliding_window")) return true;
  c.note("sliding_window " + window->dump() + " is not counted: " +
         (off ? "use_sliding_window is false" : "the class of " + c.type() + " does not read it"));
  return false;
}

// Kinds of the layers where the configuration does not list them.
Kinds derived_kinds(const Configuration& c) {
  if (auto kinds = cycled_kinds(c)) return *kinds;
  if (auto kinds = kinds_of_sets(c)) return *kinds;
  if (c.rule("layers") == "decoder_decoder") return kinds_of_decoder_decoder(c);
  if (const Index period = period_of(c); period > 0) return periodic_kinds(c, period);
  const auto layers = static_cast<std::size_t>(layer_count(c));
  const std::string every = c.rule("every"), other = c.rule("other");
  if (!every.empty()) return Kinds(layers, every);
  if (c.rule("state").starts_with("mamba")) return Kinds(layers, other);
  if (!other.empty())
    throw DataError("the configuration does not say which layers are of which kind");
  // A window in the configuration is that of all layers, or of those after the first ones.
  const bool windowed = has_windows(c);
  Kinds kinds(layers, windowed ? kWindowed : kFull);
  if (windowed && c.knows("max_window_layers"))
    std::fill_n(kinds.begin(), std::min(std::ssize(kinds), c.whole("max_window_layers")), kFull);
  if (c.rule("rows") == "v4") {
    c.note("the file gives no compress_ratios: those of the class of " + c.type() + " stand in");
    for (std::size_t i = 0; i < layers; ++i)
      kinds[i] =
          i >= 2 && i % 2 == 1 ? "compressed_sparse_attention" : "heavily_compressed_attention";
  }
  return kinds;
}

// Kinds of a draft head of so many modules, of which `listed` follow the model's in their list.
Kinds draft_kinds(const Configuration& c, Index drafts, Kinds listed) {
  if (drafts == 0 || !listed.empty()) return listed;
  for (const char* key : {"mtp_hybrid_override_pattern", "mtp_layers_block_type"}) {
    const auto module = kinds_in(c, key, model_type_table("letters_of_kinds"));
    if (!module) continue;
    if (module->size() > 100) throw DataError("'{}' has {} entries", key, module->size());
    Kinds kinds;
    for (Index i = 0; i < drafts; ++i) kinds.insert(kinds.end(), module->begin(), module->end());
    return kinds;
  }
  const std::string usual = c.rule("every", c.rule("full", kFull).c_str());
  return Kinds(static_cast<std::size_t>(drafts), c.rule("draft", usual.c_str()));
}

// Looks for keys that say what a list of kinds says, too, so that they are no unread ones.
void look_for_other_ways(const Configuration& c) {
  for (const char* key : {"attention_types", "block_types"})
    if (c.knows(key)) c.find(key);
  if (c.rule("other").empty()) return;
  c.find(c.rule("full_every_key"));
  for (const Json& row : model_type_table("sets_of_layers")) c.find(row[0]);
}

}  // namespace

LayerKinds layer_kinds(const Configuration& c) {
  look_for_other_ways(c);
  constexpr Index kMostDrafts = 100;
  const Index drafts = c.whole("num_nextn_predict_layers", 0);
  if (drafts > kMostDrafts)
    throw DataError("'{}' {} is more than {}", c.name_of("num_nextn_predict_layers"), drafts,
                    kMostDrafts);
  if (const auto listed = listed_kinds(c, drafts)) {
    const Json* const given = c.find("num_hidden_layers");
    const auto end = listed->begin() + (given == nullptr ? std::ssize(*listed) : layer_count(c));
    return {Kinds(listed->begin(), end), draft_kinds(c, drafts, Kinds(end, listed->end()))};
  }
  Kinds kinds = derived_kinds(c);
  if (const std::string first = c.rule("first"); !first.empty()) kinds.front() = first;
  const std::string last = c.rule("last");
  if (last == "full" || (last == "full_if_none" && !std::ranges::count(kinds, kFull)))
    kinds.back() = kFull;
  if (const Json* const full = c.list("full_attention_idx")) {  // those without a window
    for (std::size_t i = 0; i < kinds.size(); ++i)
      if (contains(*full, static_cast<Index>(i)) && kinds[i] == kWindowed) kinds[i] = kFull;
  }
  return {std::move(kinds), draft_kinds(c, drafts, {})};
}

}  // namespace headcount
