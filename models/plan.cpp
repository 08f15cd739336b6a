#include "models/plan.h"

#include <algorithm>

#include "autograd/base/text.h"
#include "nn/attention/attention.h"
#include "nn/attention/costs.h"

namespace headcount {

namespace {

constexpr Named<NormKind> kNorms[] = {{"rms", NormKind::rms}, {"layer", NormKind::layer}};
constexpr Named<Activation> kActivations[] = {{"swiglu", Activation::swiglu},
                                              {"gelu", Activation::gelu}};

}  // namespace

void ModelSettings::visit(const auto& setting) {
  setting(layers, {"layers", "number of transformer blocks", WholeRange{1, 10000}, 4});
  setting(dim, {"dim", "width of the residual stream (d_model)", WholeRange{1, 1 << 20}, 128});
  setting(context,
          {"context", "context length: tokens of the longest sequence", WholeRange{1, 1 << 24}, 256,
           Traits{.never_swept = "losses at two contexts do not compare"}});
  setting(
      ffn_dim,
      {"ffn-dim", "hidden width of the feed-forward layer, 0 for layers without one", WholeRange{0},
       Default("8/3 dim, rounded up to a multiple of 8, or 4 dim with gelu", [](const Given& v) {
         const Index width = v.whole("dim");
         return v.text("activation") == "gelu" ? 4 * width : (8 * width / 3 + 7) / 8 * 8;
       })});
  setting(
      norm,
      {"norm", "normalisation before each attention and feed-forward layer: RMSNorm or LayerNorm",
       kNorms, "rms"},
      kNorms);
  setting(
      norm_epsilon,
      {"norm-epsilon", "epsilon that the norms before layers and the last one add to the variance",
       NumberRange{0}, Default("1e-6, or 1e-5 with LayerNorm", [](const Given& v) {
         return v.text("norm") == "rms" ? 1e-6 : 1e-5;
       })});
  setting(activation,
          {"activation", "activation of the feed-forward layer", kActivations, "swiglu"},
          kActivations);
  setting(tie_embeddings, {"tie-embeddings", "use the embedding table as output head, too [off]",
                           kOnOff, "off", Traits{.bare = true}});
  setting(bias, {"bias", "add biases to linear layers and LayerNorm [off]", kOnOff, "off",
                 Traits{.bare = true}});
  setting(logit_cap, {"logit-cap", "soft cap C of the logits, which become C tanh(l / C); 0: none",
                      NumberRange{0, 1e6}, 0.0});
}

namespace {

const SettingList& own_settings() {
  static const SettingList all = settings_in(Scope::model, settings_of<ModelSettings>());
  return all;
}

// Throws ShapeError unless the layer can be made, and its heads fill `dim` if there is no output
// projection.
void check_layer(const AttentionPlan& a) {
  cache_parts(a);
  ParameterStore parameters;
  const auto [heads, width, projection] = make_attention(parameters, "layer", a, {})->to_output();
  require_setting(
      a.output_projection || heads * width == a.dim,
      "`output-projection` off needs heads that add up to `dim` {}, {} heads of {} do not", a.dim,
      heads, width);
}

// Place of the layer of which the next layer of `cycle` reads something: of the nearest one that
// picks, pools or keeps, or of those that keep with the window that the word names.
Index find_writer(const LayerSpec& part, const std::vector<AttentionPlan>& cycle) {
  const Index window = part.settings.value("window", Index{0});
  const auto fits = [&](const AttentionPlan& a) {
    const auto has = [&](const char* setting) { return a.values().contains(setting); };
    if (!part.shared.rows)
      return !a.shared().picks && (!part.shared.pooled || has("compress")) &&
             (!part.shared.picks || has("index-topk"));
    return !a.shares() && (!part.gives("window") || (a.kind().attends && a.window == window));
  };
  for (Index i = std::ssize(cycle); i-- > 0;) {
    if (fits(cycle[i])) return i;
  }
  require_setting(part.shared.rows, "no earlier layer {} rows; put one before it",
                  part.shared.picks ? "picks" : "pools");
  require_setting(
      false, "no earlier layer keeps rows {}; put one before it",
      window > 0 ? "with a window of " + std::to_string(window) + " tokens" : "without a window");
  return 0;
}

// Throws ShapeError unless the values of `layer` can be mixed with those of the first layer.
void check_values(const AttentionPlan& first, const AttentionPlan& layer) {
  if (layer.value_residual == 0 || layer.shares()) return;
  const std::optional<Shape> v = values_to_mix(first);
  require_setting(v.has_value(),
                  "`value-residual` mixes in values of the first layer, but {} keeps none",
                  first.kind().name);
  const Shape own = *values_to_mix(layer);
  require_setting(*v == own,
                  "`value-residual` mixes values of equal shapes, but those of the first layer are "
                  "{} heads of {}, not {} of {}",
                  (*v)[2], (*v)[3], own[2], own[3]);
}

// Adds the layers of one cycle to `model`. Settings of a word override those of all layers.
void resolve_cycle(ResolvedModel& model, const std::vector<LayerSpec>& pattern, const Given& given,
                   const LayerPlace& place) {
  std::vector<AttentionPlan>& cycle = model.cycle;
  const bool scores = has_scores(pattern);
  for (const LayerSpec& part : pattern) {
    try {
      model.writers.push_back(part.shares() ? find_writer(part, cycle) : std::ssize(cycle));
      if (part.shares()) {
        const AttentionPlan& writer = cycle[model.writers.back()];
        Shared shared = part.shared;
        shared.picks = shared.picks || (shared.rows && writer.shared().picks);
        cycle.push_back(writer.sharing(shared));
      } else {
        Given own = given;
        if (!part.kind->attends && scores) {
          for (const char* name : kLeftToScores) own.erase(name);
        }
        own.put(part.settings);
        cycle.push_back(resolve_attention(*part.kind, own, place));
      }
      check_layer(cycle.back());
      check_values(cycle.front(), cycle.back());
    } catch (const ShapeError& error) {
      if (pattern.size() == 1) throw;
      throw ShapeError("`attention` {}: {}: {}", text_of(pattern), headcount::quoted(part.text),
                       error.what());
    }
  }
}

// Throws ShapeError if layers have a value residual, but none that comes after the first layer.
void check_value_residual(const ResolvedModel& model) {
  const auto mixes = [](const AttentionPlan& layer) {
    return layer.value_residual != 0 && !layer.shares();
  };
  if (std::ranges::none_of(model.cycle, mixes)) return;
  for (Index layer = 1; layer < model.layers; ++layer) {
    if (mixes(model.layer_attention(layer))) return;
  }
  require_setting(false,
                  "`value-residual` mixes values of the first layer into later ones, and no layer "
                  "after the first has it; leave it 0 or add `layers`");
}

// Throws ShapeError if Canon layers are placed in feed-forward layers that the model does not have.
void check_canon(const ResolvedModel& model) {
  if (model.ffn_dim > 0) return;
  for (const AttentionPlan& layer : model.cycle) {
    require_setting(!layer.canon.has('C') && !layer.canon.has('D'),
                    "`canon` C and D are parts of the feed-forward layer, which `ffn-dim` 0 leaves "
                    "out; leave these letters out, too");
  }
}

// Settings of attentions that some layer of the pattern takes, if they have values.
nlohmann::ordered_json common_settings(const std::vector<LayerSpec>& pattern, const Given& given) {
  nlohmann::ordered_json values;
  for (const Setting& setting : attention_settings()) {
    const bool used = std::ranges::any_of(pattern, [&](const LayerSpec& part) {
      return !part.shares() && setting.is_for(part.kind->name) && !part.gives(setting.name);
    });
    const nlohmann::json value =
        given.has(setting.name) ? given.get(setting.name) : setting.standard.value;
    if (used && !value.is_null()) values[setting.name] = value;
  }
  return values;
}

}  // namespace

std::vector<Kept> kept_by_block(const ResolvedModel& model, const AttentionPlan& layer) {
  std::vector<Kept> keeps;
  const auto add = [&](char place, const char* name, Index channels) {
    if (layer.canon.has(place))
      keeps.push_back(
          {.name = name, .heads = layer.canon_taps - 1, .width = channels, .per_sequence = true});
  };
  add('A', "canonA", model.dim);
  add('C', "canonC", model.dim);
  if (model.activation == Activation::swiglu) add('D', "canonD_gate", model.ffn_dim);
  add('D', "canonD_up", model.ffn_dim);
  return keeps;
}

const SettingList& model_settings() {
  static const SettingList list = [] {
    SettingList all = settings_in(
        Scope::attention,
        {{"attention",
          "attention of all layers: " + joined(attention_kinds(), &AttentionKind::name) +
              "; a size may follow, as in gqa2 or mla48+16; in a pattern such as mqa/share, layers "
              "take the parts in turn",
          Text{}, kDefaultAttention,
          Traits{.never_swept = "the attentions are what is compared",
                 .stands_for = settings_in_attention}}});
    add_settings(all, attention_settings());
    add_settings(all, own_settings());
    return all;
  }();
  return list;
}

ModelSettings read_model_settings(const Given& given) { return read<ModelSettings>(given); }

LayerPlace layer_place(const ModelSettings& model, const Unlisted& unlisted) {
  return {unlisted, model.dim, model.context, model.bias, model.layers};
}

ModelPlan resolve_model(const Given& given, const Unlisted& unlisted) {
  ResolvedModel model;
  static_cast<ModelSettings&>(model) = read_model_settings(given);
  model.unlisted = unlisted;
  model.attention = given.text("attention");
  const LayerPlace place = layer_place(model, unlisted);
  const std::vector<LayerSpec> pattern = parse_attention_spec(model.attention).cycle;
  require_setting(
      std::ssize(pattern) <= model.layers,
      "`attention` {} needs {} layers or more, `layers` is {}; raise it or shorten the pattern",
      model.attention, pattern.size(), model.layers);
  resolve_cycle(model, pattern, given, place);
  model.word = pattern.size() > 1 ? model.attention : attention_word(model.cycle.front());
  const auto learned =
      std::ranges::find(model.cycle, Positions::learned, &AttentionPlan::positions);
  model.positions = learned != model.cycle.end() ? Positions::learned : model.cycle[0].positions;
  check_value_residual(model);
  check_canon(model);
  model.settings["attention"] = model.attention;
  model.settings.update(pattern.size() > 1 ? common_settings(pattern, given)
                                           : model.cycle.front().values());
  model.settings.update(given.values_of(own_settings()));
  return ModelPlan(std::move(model));
}

std::vector<std::string> attention_notes(const ModelPlan& plan) {
  std::vector<std::string> all;
  for (const AttentionPlan& attention : plan->cycle) {
    for (std::string& note : attention_notes(attention)) {
      if (std::ranges::find(all, note) == all.end()) all.push_back(std::move(note));
    }
  }
  return all;
}

Given for_another_attention(const Given& given) {
  Given others = given;
  const std::vector<LayerSpec> cycle = parse_attention_spec(given.text("attention")).cycle;
  // A pattern keeps numbers in its words, and its parts may have defaults of their own.
  const AttentionKind* const kind = cycle.size() == 1 ? cycle.front().kind : nullptr;
  const auto is_of_attention = [&](const Setting& setting) {
    if (!setting.for_all) return true;
    if (kind == nullptr) return false;
    if (std::ranges::find(kind->numbers, setting.name) != kind->numbers.end()) return true;
    const Default::Rule& rule = setting.standard_of(kind->name).rule;
    try {
      return rule && rule(given) == given.get(setting.name);
    } catch (const ShapeError&) {  // no value follows
      return false;
    }
  };
  for (const Setting& setting : attention_settings()) {
    if (given.has(setting.name) && is_of_attention(setting)) others.erase(setting.name);
  }
  return others;
}

ModelPlan with_settings(const ModelPlan& plan, const nlohmann::json& settings) {
  Given given(model_settings(), plan->settings);
  given.put(settings);
  return resolve_model(given, plan->unlisted);
}

}  // namespace headcount
