#include "nn/attention/kind.h"

#include <cstdint>
#include <functional>
#include <stdexcept>

#include "autograd/base/registry.h"
#include "autograd/base/text.h"
#include "nn/attention/costs.h"

namespace headcount {

extern const AttentionKind kMha, kMqa, kGqa, kMfa, kGta, kMla, kTpa, kLatentBias, kFox, kV4, kHca,
    kCsa, kDelta, kKda, kSsd, kLightning, kDsa, kBsa;

namespace {

Registry<AttentionKind>& registry() {
  static Registry<AttentionKind> all = {&kMha, &kMqa, &kGqa,   &kMfa,        &kGta, &kMla,
                                        &kDsa, &kBsa, &kTpa,   &kLatentBias, &kFox, &kV4,
                                        &kHca, &kCsa, &kDelta, &kKda,        &kSsd, &kLightning};
  return all;
}

}  // namespace

std::span<const AttentionKind* const> attention_kinds() { return registry().all(); }

void register_attention(const AttentionKind& kind) { registry().add(kind); }

const AttentionKind& attention_kind(std::string_view name) {
  if (const AttentionKind* const kind = registry().find(name)) return *kind;
  throw ShapeError("unknown attention '{}'; known are {}", name,
                   joined(attention_kinds(), &AttentionKind::name));
}

namespace {

constexpr Named<ScoreScale::Kind> kScaleNames[] = {{"inv-sqrt", ScoreScale::Kind::inverse_sqrt},
                                                   {"none", ScoreScale::Kind::none},
                                                   {"qk-norm", ScoreScale::Kind::qk_norm},
                                                   {"row-norm", ScoreScale::Kind::row_norm},
                                                   {"length", ScoreScale::Kind::length}};

}  // namespace

ScoreScale ScoreScale::parse(std::string_view text) {
  for (const auto& [name, kind] : kScaleNames) {
    if (text == name) return {kind, 1};
  }
  double value = 0;
  if (parse_number(text, value) != std::errc{} || static_cast<float>(value) <= 0) {
    throw ShapeError("'{}' is not inv-sqrt, none, qk-norm, row-norm, length or a positive number",
                     text);
  }
  return {Kind::number, value};
}

CanonPlaces CanonPlaces::parse(std::string_view text) {
  if (text == "off") return {};
  CanonPlaces places;
  for (const char place : std::string_view("ABCD")) {
    if (text.find(place) != std::string_view::npos) places.letters += place;
  }
  // A letter that is no place, or that is there twice, makes the text longer.
  if (text.empty() || text.size() != places.letters.size())
    throw ShapeError("'{}' is not off or letters of A, B, C and D, each once", text);
  return places;
}

std::string ScoreScale::text() const {
  for (const auto& [name, name_kind] : kScaleNames) {
    if (kind == name_kind) return std::string(name);
  }
  return shortest_text(value);
}

AttentionPlan AttentionPlan::sharing(const Shared& shared) const {
  AttentionPlan plan = *this;
  plan.shared_ = shared;
  return plan;
}

namespace {

constexpr Traits kOnlyRotary = {.only_where = OnlyWhere{"positions", "rope", "rotates nothing"}};

constexpr Named<RotaryLayout> kRotaryLayouts[] = {{"half", RotaryLayout::half},
                                                  {"interleaved", RotaryLayout::interleaved}};

nlohmann::json width_of_head(const Given& values, Index factor) {
  const Index heads = values.whole("heads"), dim = values.whole("dim");
  require_setting(dim % heads == 0,
                  "`heads` {} does not divide `dim` {}; change one of them or give `head-dim`",
                  heads, dim);
  return factor * (dim / heads);
}

}  // namespace

void LayerSettings::visit(const auto& setting) {
  setting(heads, {"heads", "query heads of each layer", WholeRange{1}, 4});
  setting(head_dim, {"head-dim", "dimensions per head", WholeRange{1},
                     Default("dim / heads", [](const Given& v) { return width_of_head(v, 1); })});
  setting(gate,
          {"gate",
           "multiply the heads' outputs elementwise by sigmoid(gate_proj(x)), before o_proj (of "
           "v4, hca and csa before o_b_proj); arXiv 2505.06708",
           kOnOff, "off"});
  setting(output_projection,
          {"output-projection",
           "multiply the concatenated heads by o_proj; off: they are the layer's output", kOnOff,
           "on"});
  setting(qk_norm, {"qk-norm",
                    "apply RMSNorm with weights to each head of q and k (before RoPE, if there is "
                    "any), as Qwen3 does",
                    kOnOff, "off"});
  setting(score_scale,
          {"score-scale",
           "factor of the scores q.k before softmax: inv-sqrt (1 / sqrt(width of q and k)), none "
           "(1), qk-norm (q and k normalised to unit length; Henry et al. 2020), row-norm (each "
           "row of scores divided "
           "by its norm), length (inv-sqrt / sqrt(number of keys that are seen)) or a number",
           parsed<ScoreScale>(), ScoreScale().text()});
  setting(score_cap, {"score-cap",
                      "soft cap C of the scaled scores, which become C tanh(s / C), as in Gemma 2, "
                      "with 50; 0: none",
                      NumberRange{0, 1e6}, 0.0});
  setting(sinks,
          {"sinks",
           "add a learned score per head to each softmax that no value answers, so that a head may "
           "read nothing, as in gpt-oss",
           kOnOff, "off"});
  setting(window,
          {"window",
           "sliding window: latest tokens that each token attends to, itself included; 0: all",
           WholeRange{0}, 0});
  setting(
      canon,
      {"canon",
       "Canon layers, short causal convolutions that are added to their input: letters of A (the "
       "normed input of attention), B (its q, k and v), C (the normed input of the feed-forward "
       "layer) and D (its gate and up), or off; B of mla and dsa is q and the latent, of tpa its "
       "factors. PhysicsLM4, part 4.1",
       parsed<CanonPlaces>(), "off"});
  setting(canon_taps,
          {"canon-taps", "length in tokens of the convolutions of canon, the token itself included",
           WholeRange{1}, 4,
           Traits{.only_where = OnlyWhere{"canon", "off", "convolves nothing", true}}});
  setting(value_residual,
          {"value-residual",
           "share of the first layer's values in the values of each later layer; 0.5, as in arXiv "
           "2410.17897: their mean",
           kFraction, 0.0});
  setting(positions,
          {"positions", "position encoding; none in a part of a pattern is that of its layers",
           kPositions, "rope", Traits{.scope = Scope::model}},
          kPositions);
  setting(
      rotary_layout,
      {"rope-layout",
       "dimensions that RoPE rotates as a pair: i and i + rope-dim / 2 (half) or 2 i and 2 i + 1 "
       "(interleaved)",
       kRotaryLayouts, of_owner("half"), kOnlyRotary},
      kRotaryLayouts);
  setting(rope_theta, {"rope-theta", "base of the RoPE frequencies, theta", NumberRange{1}, 10000.0,
                       kOnlyRotary});
}

namespace {

// Settings of all kinds.
const SettingList& layer_settings() {
  static const SettingList all = settings_of<LayerSettings>();
  return all;
}

// Throws ShapeError unless the product of any two sizes is an Index: layers are made of such.
void require_products(const nlohmann::ordered_json& settings) {
  std::vector<std::int64_t> sizes = {1, 1};
  for (const auto& [name, value] : settings.items())
    if (value.is_number_integer() && name != "window") sizes.push_back(value);
  std::ranges::partial_sort(sizes, sizes.begin() + 2, std::greater());
  static_cast<void>((Count(sizes[0]) * sizes[1]).index());
}

}  // namespace

const SettingList& attention_settings() {
  static const SettingList list = [] {
    SettingList all = settings_in(Scope::attention, layer_settings());
    for (const AttentionKind* kind : attention_kinds())
      add_settings(all, settings_in(Scope::attention, kind->settings()), kind->name);
    return all;
  }();
  return list;
}

AttentionPlan resolve_attention(const AttentionKind& kind, const Given& given,
                                const LayerPlace& place) {
  Given layer = given.of(attention_settings(), kind.name, {{"dim", place.dim}});
  if (!kind.attends) {  // given for other layers of a pattern
    for (const char* name : {"score-scale", "score-cap"}) layer.erase(name);
  }
  nlohmann::ordered_json values = layer.values_of(layer_settings());
  values.update(layer.values_of(kind.settings()));
  require_products(values);
  const Given settings = Given(attention_settings()).of(attention_settings(), kind.name, values);
  AttentionPlan plan(kind, read<LayerSettings>(settings), place, settings);
  plan.rotary = plan.positions == Positions::rope && kind.rotates;
  if (plan.norm_epsilon == 0) plan.norm_epsilon = kind.norm_epsilon;
  require_setting(kind.attends || !plan.sinks,
                  "`sinks` are scores of a softmax, and {} has none; leave `sinks` off", kind.name);
  require_setting(kind.attends || plan.window == 0,
                  "{} has no `window`: it keeps a state instead of keys and values of tokens",
                  kind.name);
  require_setting(kind.no_qk_norm.empty() || !plan.qk_norm,
                  "`qk-norm` is not for {}: {}; leave `qk-norm` off", kind.name, kind.no_qk_norm);
  require_setting(plan.causal || !kind.needs_causal, "{} must be causal", kind.name);
  require_setting(
      plan.score_cap == 0 || plan.score_scale.kind != ScoreScale::Kind::row_norm,
      "`score-cap` limits scores that `score-scale` row-norm keeps below 1; leave `score-cap` 0");
  if (kind.check != nullptr) kind.check(plan);
  require_setting(plan.value_residual == 0 || values_to_mix(plan).has_value(),
                  "`value-residual` mixes values of heads, which {} with these settings does not "
                  "keep; leave `value-residual` 0",
                  kind.name);
  require_setting(plan.causal || plan.canon == CanonPlaces{}, "`canon` layers are causal");
  return plan;
}

std::vector<std::string_view> attention_forms(const AttentionPlan& plan) {
  return plan.kind().forms == nullptr ? std::vector<std::string_view>{""} : plan.kind().forms(plan);
}

void require_rotary_heads(const AttentionPlan& layer) {
  require_setting(
      !layer.rotary || layer.head_dim % 2 == 0,
      "`positions` rope rotates pairs of dimensions and needs an even `head-dim`, which is {}",
      layer.head_dim);
}

void require_rotary_part(const AttentionPlan& layer, Index rope_dim, Index width) {
  require_setting(rope_dim <= width, "`rope-dim` {} is more than the width of a key, {}", rope_dim,
                  width);
  require_setting(!layer.rotary || rope_dim % 2 == 0, "`rope-dim` must be even, is {}", rope_dim);
}

void require_divisor(std::string_view name, Index count, std::string_view whole_name, Index whole) {
  Index divisor = std::min(count, whole);
  while (whole % divisor != 0) --divisor;
  require_setting(divisor == count, "`{}` {} does not divide `{}` {}; {} does", name, count,
                  whole_name, whole, divisor);
}

void require_kv_heads(const AttentionPlan& layer, Index kv_heads) {
  require_divisor("kv-heads", kv_heads, "heads", layer.heads);
}

Setting shared_setting(std::string_view name, Default standard) {
  static const SettingList all = together(
      {layer_settings(),
       {{"kv-heads", "KV heads; each serves heads / kv-heads query heads", WholeRange{1}},
        {"q-rank", "width of the latent between x and the queries; 0: none", WholeRange{0}},
        {"rope-dim", "dimensions per head that RoPE rotates", WholeRange{0}},
        {"v-dim", "dimensions of v per head", WholeRange{1}}}});
  const Setting* const found = find_setting(all, name);
  if (found == nullptr) throw std::logic_error("several kinds do not have this setting");
  Setting setting = *found;
  setting.standard = std::move(standard);
  return setting;
}

Default twice_the_width() {
  return {"2 dim / heads", [](const Given& v) { return width_of_head(v, 2); }};
}

Default half_of_heads() {
  return {"heads / 2", [](const Given& values) {
            const Index heads = values.whole("heads");
            require_setting(heads % 2 == 0,
                            "`attention` {} has by default half as many KV heads as query heads, "
                            "but `heads` {} is odd; give `kv-heads`",
                            values.owner(), heads);
            return heads / 2;
          }};
}

Default half_of_head() {
  return {"half of head-dim", [](const Given& v) { return v.whole("head-dim") / 4 * 2; }};
}

Default half_of_dim() {
  return {"half of dim", [](const Given& v) { return std::max<Index>(1, v.whole("dim") / 2); }};
}

}  // namespace headcount
