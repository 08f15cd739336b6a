#include "models/conversion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/base/error.h"

namespace headcount {

namespace {

using Values = nlohmann::ordered_json;

// Weights of attention that a conversion copies.
bool is_carried_over(const std::string& name) { return name == "gate_proj" || name == "sinks"; }

std::string attention_prefix(Index layer) {
  return "model.layers." + std::to_string(layer) + ".self_attn";
}

LayerMatrices matrices(const LanguageModel& model, Index layer) {
  return {model.parameters(), attention_prefix(layer),
          "model.layers." + std::to_string(layer) + ".input_layernorm"};
}

// Calls `body`; adds the layer and `direction`, "from" or "to", to what it throws.
template <class Body>
auto of_layer(Index layer, const std::string& direction, const AttentionKind& kind,
              const Body& body) {
  try {
    return body();
  } catch (const ShapeError& error) {
    throw ShapeError("layer ", layer + 1, " cannot be converted ", direction, " ", kind.name, ": ",
                     error.what());
  }
}

// Throws ShapeError if a setting that conversions of the kind do not know is not at its default.
void require_known(const ModelPlan& model, const AttentionPlan& layer) {
  const AttentionKind& kind = layer.kind();
  Values settings = {{"attention", kind.name}};
  std::vector<std::string_view> known;
  const SettingList own = kind.own.settings(Scope::attention);
  for (const SettingList* list : {&model_settings(), &own}) {
    for (const Setting& setting : *list) {
      if (list != &own && !setting.only_for.empty()) continue;
      if (setting.traits.conversion != InConversion::unknown) known.push_back(setting.name);
      if (setting.scope == Scope::model) settings[setting.name] = model->settings[setting.name];
    }
  }
  settings.update(layer.values());
  const std::vector<std::string> beyond = settings_beyond(settings, known);
  if (beyond.empty()) return;
  require_setting(false, "conversion does not support `", beyond.front(), "`, which is ",
                  setting_text(settings[beyond.front()]));
}

void require_weights(bool known, const std::string& name) {
  require_setting(known, "conversion does not support the weights '", name, "'");
}

std::vector<AttentionHeads> heads_of(const LanguageModel& model) {
  std::vector<AttentionHeads> all;
  for (Index layer = 0; layer < model.plan()->layers; ++layer) {
    const AttentionPlan& attention = model.plan()->layer_attention(layer);
    const AttentionKind& kind = attention.kind();
    all.push_back(of_layer(layer, "from", kind, [&] {
      require_setting(kind.to_heads != nullptr, kind.no_heads);
      require_known(model.plan(), attention);
      const LayerMatrices weights = matrices(model, layer);
      AttentionHeads heads = kind.to_heads(attention, weights);
      for (const std::string& name : weights.unread()) require_weights(is_carried_over(name), name);
      return heads;
    }));
  }
  return all;
}

void require_same_rest(const Values& from, const Values& to, const std::string& where) {
  for (const auto& [name, value] : to.items()) {
    const Setting& setting = *find_setting(model_settings(), name);
    if (setting.traits.conversion != InConversion::same || !from.contains(name)) continue;
    require_setting(value == from[name], "`", name, "`", where, " is ", value.dump(),
                    ", in the model it is ", from[name].dump(),
                    "; a conversion changes the attention only");
  }
}

constexpr const char* kWindow = "window";

bool names_its_window(const LayerSpec& part) {
  return part.gives(kWindow) || part.shared_window.has_value();
}

// Throws ShapeError if the window of a layer would change.
void require_same_windows(const ModelPlan& from, const ModelPlan& to) {
  for (Index layer = 0; layer < to->layers; ++layer) {
    const Index before = from->layer_attention(layer).window,
                after = to->layer_attention(layer).window;
    require_setting(before == after, "the window of layer ", layer + 1, " is ", before,
                    ", `attention` ", to->attention, " would make it ", after,
                    "; name the windows, as gqa2@32/gqa2 and gqa2@0 do");
  }
}

void require_same_rest(const ModelPlan& from, const ModelPlan& to) {
  require_same_rest(from->settings, to->settings, "");
  // Parts of a pattern have settings of their own.
  for (Index layer = 0; layer < to->layers; ++layer) {
    require_same_rest(from->layer_attention(layer).values(), to->layer_attention(layer).values(),
                      " of layer " + std::to_string(layer + 1));
  }
}

// Gives the heads of `layer` the mean of its keys and values and of those of the layers that will
// share them.
void share_mean(AttentionHeads& heads, const std::vector<AttentionHeads>& all, Index layer,
                const ModelPlan& to) {
  double count = 1;
  for (Index reader = layer + 1; reader < to->layers; ++reader) {
    if (to->writer(reader) != layer) continue;
    const AttentionHeads& other = all[static_cast<std::size_t>(reader)];
    if (other.k.rows == 0) continue;
    require_setting(other.k.rows == heads.k.rows && other.v.rows == heads.v.rows, "layer ",
                    reader + 1, ", which would share its cache, has heads of another width");
    heads.k += other.k;
    heads.v += other.v;
    ++count;
  }
  heads.k *= 1 / count;
  heads.v *= 1 / count;
}

void require_made_of_heads(const AttentionKind& kind) {
  require_setting(kind.of_heads != nullptr, "heads cannot be converted to ", kind.name, ": ",
                  kind.no_heads);
}

// Writes a weight or a bias; a matrix with a bias has it as last column.
void write(const DoubleMatrix& matrix, const Shape& shape, bool bias, std::span<Real> values) {
  const Index width = bias ? 1 : shape.size() / shape[0];
  require_setting(matrix.rows == shape[0] && matrix.columns >= width, "a matrix of ", matrix.rows,
                  " rows for ", shape.text());
  auto to = values.begin();
  for (Index r = 0; r < matrix.rows; ++r) {
    const std::span<const double> row = matrix.row(r);
    for (const double x : bias ? row.last(1) : row.first(static_cast<std::size_t>(width)))
      *to++ = static_cast<Real>(x);
  }
}

// Writes the attention of one layer.
void write(const MadeLayer& made, const LanguageModel& from, Index layer, ParameterStore& store) {
  const LayerMatrices before = matrices(from, layer);
  std::map<std::string, DoubleMatrix> all = made.others;
  for (const auto& [name, matrix] : made.of_z) all[name] = before.undone(matrix);
  const std::string prefix = attention_prefix(layer) + ".";
  for (std::size_t i = 0; i < store.size(); ++i) {
    const std::string& name = store.name({i});
    if (!name.starts_with(prefix)) continue;
    const std::string module = module_of(name.substr(prefix.size()));
    if (is_carried_over(module)) all[module] = before.get(module);
    require_weights(all.contains(module), module);
    write(all.at(module), store.shape({i}), name.ends_with(".bias"), store.value({i}));
  }
}

// Copies everything outside of attentions.
void write_rest(const LanguageModel& from, ParameterStore& store) {
  for (std::size_t i = 0; i < store.size(); ++i) {
    const std::string& name = store.name({i});
    if (name.find(".self_attn.") == std::string::npos)
      std::ranges::copy(from.parameters().value(from.parameters().find(name)),
                        store.value({i}).begin());
  }
}

}  // namespace

Given without_attention(const ModelPlan& model) {
  Given rest(model_settings());
  for (const Setting& setting : model_settings()) {
    const bool chosen = setting.traits.conversion == InConversion::open || setting.name == kWindow;
    if (!chosen && model->settings.contains(setting.name))
      rest.put(setting.name, model->settings[setting.name]);
  }
  return rest;
}

ModelPlan fitted(const LanguageModel& from, Given to, const ConversionOptions& options) {
  const std::vector<AttentionHeads> heads = heads_of(from);
  const LayerPlace place = layer_place(read_model_settings(to));
  const auto attention = to.get<std::string>("attention", kDefaultAttention);
  std::vector<LayerSpec> parts = parse_attention_spec(attention).cycle;
  const bool alone = std::ranges::count_if(parts, std::not_fn(&LayerSpec::shares)) == 1;
  const bool new_windows = to.has(kWindow) || std::ranges::any_of(parts, names_its_window);
  const Values& old = from.plan()->settings;
  if (!to.has(kWindow) && old.contains(kWindow)) to.put(kWindow, old[kWindow]);
  const Given before = to;
  bool fits = false;
  for (LayerSpec& part : parts) {
    if (!part.shares()) require_made_of_heads(*part.kind);
    if (!part.shares() && part.kind->fit != nullptr) {
      Given own = before;
      for (const auto& [name, value] : part.settings) own.put(name, value);
      const Given asked = own;
      part.kind->fit(resolve_layer(*part.kind, own, place), place, own, heads, options);
      for (const auto& [name, value] : own.values().items()) {
        if (asked.has(name)) continue;
        // What fits one part of a pattern is for its layers only.
        if (alone) {
          to.put(name, value);
        } else {
          part.add(name, setting_text(value));
        }
      }
      fits = true;
    }
  }
  to.put("attention", text_of(parts));
  require_setting(fits || !options.energy, "`energy` sets the width of latents, but `attention` ",
                  spec_of(to), " has none");
  ModelPlan plan = resolve_model(to);
  if (!new_windows) require_same_windows(from.plan(), plan);
  return plan;
}

Conversion convert(const LanguageModel& from, const ModelPlan& to,
                   const ConversionOptions& options) {
  require_same_rest(from.plan(), to);
  const std::vector<AttentionHeads> all = heads_of(from);
  Conversion result{std::make_unique<LanguageModel>(to, from.vocabulary()), {}};
  ParameterStore& store = result.model->parameters();
  store.allocate();
  std::map<Index, AttentionHeads> kept;  // of the result's layers with keys and values
  for (Index layer = 0; layer < to->layers; ++layer) {
    const AttentionPlan& attention = to->layer_attention(layer);
    const AttentionKind& kind = attention.kind();
    require_made_of_heads(kind);
    AttentionHeads heads = all[static_cast<std::size_t>(layer)];
    const AttentionHeads before = all[static_cast<std::size_t>(from.plan()->writer(layer))];
    of_layer(layer, "to", kind, [&] {
      if (attention.shares()) {
        heads.k = kept.at(to->writer(layer)).k;
        heads.v = kept.at(to->writer(layer)).v;
      } else {
        require_setting(
            heads.k.rows > 0,
            "it shares the cache of another layer and has no keys and values of its own");
        share_mean(heads, all, layer, to);
      }
      require_known(to, attention);
      const MadeLayer made = kind.of_heads(attention, heads, options);
      if (!attention.shares()) kept[layer] = made.heads;
      result.errors.push_back(head_errors(before, kept.at(to->writer(layer)), to->context));
      write(made, from, layer, store);
    });
  }
  write_rest(from, store);
  return result;
}

}  // namespace headcount
