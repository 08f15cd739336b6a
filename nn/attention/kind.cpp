#include "nn/attention/kind.h"

#include <algorithm>
#include <stdexcept>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

constexpr Traits kOnlyRotary = {.only_where = OnlyWhere{"positions", "rope", "rotates nothing"}};

constexpr Named<RotaryLayout> kRotaryLayouts[] = {{"half", RotaryLayout::half},
                                                  {"interleaved", RotaryLayout::interleaved}};

nlohmann::json width_of_head(const Given& values, Index factor) {
  const Index heads = values.whole("heads"), dim = values.whole("dim");
  require_setting(dim % heads == 0, "`heads` ", heads, " does not divide `dim` ", dim,
                  "; change one of them or give `head-dim`");
  return factor * (dim / heads);
}

// Settings of all kinds.
const SettingList& layer_settings() {
  static const SettingList rows = {
      {"heads", "query heads of each layer", WholeRange{1}, 4},
      {"head-dim",
       "dimensions per head",
       WholeRange{1},
       {"dim / heads", [](const Given& v) { return width_of_head(v, 1); }}},
      {"gate", "multiply the heads' outputs elementwise by sigmoid(gate_proj(x))", kOnOff, "off"},
      {"output-projection",
       "multiply the concatenated heads by o_proj; off: they are the layer's output", kOnOff, "on"},
      {"qk-norm", "apply RMSNorm with weights to each head of q and k, before RoPE", kOnOff, "off"},
      {"score-scale",
       "factor of the scores q.k before softmax: inv-sqrt (1 / sqrt(width of q and k)), none (1), "
       "qk-norm (q and k normalised to unit length), row-norm (each row of scores divided by its "
       "norm), length (inv-sqrt / sqrt(number of keys that are seen)) or a number",
       parsed<ScoreScale>(), ScoreScale().text()},
      {"score-cap", "soft cap C of the scaled scores, which become C tanh(s / C); 0: none",
       NumberRange{0, 1e6}, 0.0},
      {"sinks",
       "add a learned score per head to each softmax that no value answers, so that a head may "
       "read nothing",
       kOnOff, "off"},
      {"window",
       "sliding window: latest tokens that each token attends to, itself included; 0: all",
       tokens(0), 0},
      {"canon",
       "Canon layers, short causal convolutions that are added to their input: letters of A (the "
       "normed input of attention), B (its q, k and v), C (the normed input of the feed-forward "
       "layer) and D (its gate and up), or off",
       parsed<CanonPlaces>(), "off"},
      {"canon-taps",
       "length in tokens of the convolutions of canon, the token itself included",
       WholeRange{1},
       4,
       {.only_where = OnlyWhere{"canon", "off", "convolves nothing", true}}},
      {"value-residual",
       "share of the first layer's values in the values of each later layer; 0.5: their mean",
       kFraction, 0.0},
      {"rope-layout",
       "dimensions that RoPE rotates as a pair: i and i + rope-dim / 2 (half) or 2 i and 2 i + 1 "
       "(interleaved)",
       kRotaryLayouts, of_owner("half"), kOnlyRotary},
      {"rope-theta", "base of the RoPE frequencies, theta", NumberRange{1}, 10000.0, kOnlyRotary}};
  return rows;
}

LayerSettings read_layer(const Given& given) {
  return {.heads = given.whole("heads"),
          .head_dim = given.whole("head-dim"),
          .gate = given.on("gate"),
          .output_projection = given.on("output-projection"),
          .qk_norm = given.on("qk-norm"),
          .score_scale = ScoreScale::parse(given.text("score-scale")),
          .score_cap = given.number("score-cap"),
          .sinks = given.on("sinks"),
          .window = given.whole("window"),
          .canon = CanonPlaces::parse(given.text("canon")),
          .canon_taps = given.whole("canon-taps"),
          .value_residual = given.number("value-residual"),
          .rotary_layout = given.chosen("rope-layout", kRotaryLayouts),
          .rope_theta = given.number("rope-theta")};
}

// Settings of a layer of `kind`, all with values.
Given settled(const AttentionKind& kind, const Given& given, const LayerPlace& place) {
  Given layer = given.of(attention_settings(), kind.name, {{"dim", place.dim}});
  if (!kind.attends) {  // given for other layers of a pattern
    for (const char* name : {"score-scale", "score-cap"}) layer.erase(name);
  }
  nlohmann::ordered_json values = layer.values_of(layer_settings());
  values.update(layer.values_of(kind.settings()));
  return Given(attention_settings()).of(attention_settings(), kind.name, values);
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
  const Given settings = settled(kind, given, place);
  AttentionPlan plan(kind, read_layer(settings), place, settings);
  plan.rotary = plan.rotary && kind.rotates;
  if (plan.norm_epsilon == 0) plan.norm_epsilon = kind.norm_epsilon;
  require_setting(kind.attends || !plan.sinks, "`sinks` are scores of a softmax, and ", kind.name,
                  " has none; leave `sinks` off");
  require_setting(kind.no_qk_norm.empty() || !plan.qk_norm, "`qk-norm` is not for ", kind.name,
                  ": ", kind.no_qk_norm, "; leave `qk-norm` off");
  require_setting(plan.score_cap == 0 || plan.score_scale.kind != ScoreScale::Kind::row_norm,
                  "`score-cap` limits scores that `score-scale` row-norm keeps below 1; leave "
                  "`score-cap` 0");
  if (kind.check != nullptr) kind.check(plan);
  require_setting(plan.value_residual == 0 || find_values(plan, kind.describe(plan)) != nullptr,
                  "`value-residual` mixes values of heads, which ", kind.name,
                  " with these settings does not keep; leave `value-residual` 0");
  require_setting(plan.causal || plan.canon == CanonPlaces{}, "`canon` layers are causal");
  return plan;
}

void declare_qk_norm(const AttentionPlan& plan, AttentionForm& form, const QkNorms& widths) {
  const auto add = [&](const char* name, Index width, Projection::Role role) {
    if (plan.qk_norm && width > 0) form.projections.push_back(Projection::norm(name, width, role));
  };
  add(kQNorm, widths.q, Projection::Role::of_token);
  add(kKNorm, widths.k, widths.of_k);
  add(kRopeKeyNorm, widths.rope_key, Projection::Role::to_cache);
}

void require_rotary_heads(const AttentionPlan& layer) {
  require_setting(
      !layer.rotary || layer.head_dim % 2 == 0,
      "`positions` rope rotates pairs of dimensions and needs an even `head-dim`, which is ",
      layer.head_dim);
}

void require_rotary_part(const AttentionPlan& layer, Index rope_dim) {
  require_setting(rope_dim <= layer.head_dim, "`rope-dim` ", rope_dim,
                  " is more than a head's width, `head-dim` ", layer.head_dim);
  require_setting(!layer.rotary || rope_dim % 2 == 0, "`rope-dim` must be even, is ", rope_dim);
}

void require_divisor(std::string_view name, Index count, std::string_view whole_name, Index whole) {
  Index divisor = std::min(count, whole);
  while (whole % divisor != 0) --divisor;
  require_setting(divisor == count, "`", name, "` ", count, " does not divide `", whole_name, "` ",
                  whole, "; ", divisor, " does");
}

void require_kv_heads(const AttentionPlan& layer) {
  require_divisor("kv-heads", layer.whole("kv-heads"), "heads", layer.heads);
}

Setting shared_setting(std::string_view name, Default standard) {
  static const SettingList rows = together(
      {layer_settings(),
       {{"kv-heads", "KV heads; each serves heads / kv-heads query heads", WholeRange{1}},
        {"q-rank", "width of the latent between x and the queries; 0: none", WholeRange{0}},
        {"rope-dim", "dimensions per head that RoPE rotates", WholeRange{0}}}});
  const auto row = std::ranges::find(rows, name, &Setting::name);
  if (row == rows.end()) throw std::logic_error("several kinds do not have this setting");
  Setting setting = *row;
  setting.standard = std::move(standard);
  return setting;
}

Default twice_the_width() {
  return {"2 dim / heads", [](const Given& v) { return width_of_head(v, 2); }};
}

Default half_of_heads() {
  return {"heads / 2", [](const Given& values) {
            const Index heads = values.whole("heads");
            require_setting(heads % 2 == 0, "`attention` ", values.owner(),
                            " has by default half as many KV heads as query heads, but `heads` ",
                            heads, " is odd; give `kv-heads`");
            return heads / 2;
          }};
}

Default half_of_head() {
  return {"half of head-dim", [](const Given& v) { return v.whole("head-dim") / 4 * 2; }};
}

Default half_of_dim() {
  return {"half of dim", [](const Given& v) { return std::max<Index>(1, v.whole("dim") / 2); }};
}

namespace {

template <class Body>
void for_forms(AttentionDescription& description, const Body& body) {
  for (AttentionForm& form : description.forms) body(form);
  for (AttentionForm& form : description.counted_forms) body(form);
}

// Removes the cache and the projections that compute its rows.
void make_sharing(AttentionDescription& description, std::string_view kind) {
  description.keeps.clear();
  for_forms(description, [&](AttentionForm& form) {
    form.macs_to_cache = 0;
    const auto removed = std::erase_if(
        form.projections, [](const Projection& p) { return p.role == Projection::Role::to_cache; });
    require_setting(removed > 0, "a layer of ", kind, " cannot share the cache of another layer");
  });
}

// Adds Canon layer B, which goes over the outputs of the projections that are marked for it.
void add_canon(AttentionDescription& description, const AttentionPlan& plan) {
  for_forms(description, [&](AttentionForm& form) {
    Index channels = 0;
    for (const Projection& p : form.projections) channels += p.convolved.empty() ? 0 : p.out;
    require_setting(channels > 0, "`canon` B convolves queries, keys and values, and ",
                    plan.kind().name, " has none for it; leave B out");
    form.projections.push_back({.name = "canonB",
                                .in = plan.canon_taps,
                                .out = channels,
                                .form = Projection::Form::canon});
  });
  for (const Projection& p : description.forms.front().projections) {
    if (!p.convolved.empty())
      description.keeps.push_back({.name = "canonB_" + p.convolved,
                                   .heads = plan.canon_taps - 1,
                                   .width = p.out,
                                   .per_sequence = true});
  }
}

}  // namespace

AttentionDescription describe(const AttentionPlan& plan) {
  AttentionDescription description = plan.kind().describe(plan);
  if (plan.shares()) make_sharing(description, plan.kind().name);
  if (plan.canon.has('B')) add_canon(description, plan);
  for_forms(description, [&](AttentionForm& form) {
    const Index width = form.heads_of_output(plan.heads) * form.head_output();
    if (plan.sinks)  // as gpt-oss starts them
      form.projections.push_back(
          Projection::vector("sinks", plan.heads, Initializer::normal(0.02)));
    if (plan.gate) form.projections.push_back({"gate_proj", plan.dim, width});
    if (plan.output_projection) form.projections.push_back({form.output, width, plan.dim});
  });
  return description;
}

namespace {

AttentionCosts costs_of_form(const AttentionPlan& plan, const AttentionForm& form,
                             std::span<const Kept> keeps) {
  AttentionCosts costs;
  costs.linear_macs_per_token = form.macs_per_token + form.macs_to_cache + form.macs_per_kept;
  costs.expansion_macs_per_key = form.macs_per_kept;
  for (const Projection& p : form.projections) {
    const Count macs = Count(p.in) * p.out;
    if (p.form != Projection::Form::table) costs.linear_macs_per_token += macs;
    const bool biased = p.form == Projection::Form::layer_norm ||
                        (p.form == Projection::Form::matrix && p.has_bias(plan.bias));
    costs.parameters += (p.in == 0 ? Count(p.out) : macs) + (biased ? p.out : 0);
    if (p.role == Projection::Role::of_cache) costs.expansion_macs_per_key += macs;
  }
  costs.state_macs = form.state_macs;
  costs.index_macs_per_pair = form.index_macs_per_pair;
  costs.picks = form.picks;
  costs.block = form.block;
  if (!form.state_macs)
    costs.macs_per_pair = Count(plan.heads) * (Count(form.key_width) + form.value_width);
  for (const Kept& kept : keeps) {
    const Count elements = Count(kept.heads) * kept.width;
    if (kept.per_sequence) {
      costs.state_elements += elements;
      if (kept.block > 0) costs.open_block_elements += elements;
      continue;
    }
    if (kept.block > 0) {
      costs.cache_elements_per_block += elements;
      costs.cache_rows_per_block += kept.heads;
      continue;
    }
    costs.cache_elements_per_token += elements;
    (kept.exact ? costs.exact_elements_per_token : costs.cache_rows_per_token) +=
        kept.exact ? elements : kept.heads;
  }
  return costs;
}

}  // namespace

const Kept* find_values(const AttentionPlan& plan, const AttentionDescription& description) {
  const auto found = std::ranges::find(description.keeps, "v", &Kept::name);
  return plan.kind().mixes_values && found != description.keeps.end() ? &*found : nullptr;
}

std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan) {
  return attention_costs(plan, describe(plan));
}

std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan,
                                            const AttentionDescription& description) {
  std::vector<AttentionCosts> all;
  const auto add = [&](const AttentionForm& form) -> AttentionCosts& {
    AttentionCosts& costs = all.emplace_back(costs_of_form(plan, form, description.keeps));
    costs.name = std::string(plan.kind().name) + (all.size() == 1 ? "" : "-" + form.name);
    return costs;
  };
  for (const AttentionForm& form : description.forms) add(form);
  for (const AttentionForm& form : description.counted_forms) add(form).computed = false;
  return all;
}

namespace {

// Rows of `rows` that a query reads.
Count picked(Count rows, std::optional<Index> picks) {
  return picks && rows.value() > *picks ? Count(*picks) : rows;
}

}  // namespace

Count AttentionCosts::tokens_read(Count held) const { return pools() ? held : picked(held, picks); }

// Where a query reads all rows, they need no scores of an indexer.
Count AttentionCosts::index_macs(Count held, Count context) const {
  const Count rows = pools() ? blocks(context) : held;
  return picks && rows.value() > *picks ? index_macs_per_pair * rows : 0;
}

Count AttentionCosts::prefill_macs(Count context, Count held) const {
  if (state_macs) return *state_macs * context;
  return macs_per_pair * context * (held + blocks(context)) + context * index_macs(held, context);
}

Count AttentionCosts::decode_macs(Count held, Count context) const {
  if (state_macs) return *state_macs;
  return macs_per_pair * (tokens_read(held) + picked(blocks(context), picks)) +
         index_macs(held, context);
}

KeptNumbers kept_numbers(const AttentionPlan& plan, Index context) {
  const AttentionCosts costs = attention_costs(plan).front();
  const Count held = plan.cached_tokens(context), blocks = costs.blocks(context);
  const Count exact = costs.exact_elements_per_token * held;
  const Index all = costs.cache_elements_per_token.value();
  const Count rounded = all - costs.exact_elements_per_token.value();
  return {rounded * held + costs.cache_elements_per_block * blocks,
          costs.cache_rows_per_token * held + costs.cache_rows_per_block * blocks,
          costs.state_elements + exact};
}

std::vector<std::string> attention_notes(const AttentionPlan& plan) {
  std::vector<std::string> notes;
  if (plan.kind().notes != nullptr) notes = plan.kind().notes(plan);
  const AttentionCosts costs = attention_costs(plan).front();
  if (!costs.pools() || plan.shares()) return notes;
  const auto numbers = [](Count count) { return std::to_string(count.value()) + " numbers"; };
  const std::string block = std::to_string(costs.block), window = std::to_string(plan.window);
  std::string keeps = "each layer of " + std::string(plan.kind().name) + " keeps 1/" + block +
                      " of a row of " + numbers(costs.cache_elements_per_block) + " per token, ";
  keeps += plan.window > 0
               ? "in its window at most " + numbers(costs.cache_elements_per_token * plan.window)
               : numbers(costs.cache_elements_per_token) + " more without a window";
  notes.insert(notes.begin(),
               std::move(keeps) + ", and for an open block " + numbers(costs.open_block_elements));
  if (plan.max_positions > 0 && costs.block > plan.max_positions) {
    notes.push_back("a block of " + block + " tokens is longer than the context of " +
                    std::to_string(plan.max_positions) +
                    ", so that no row is ever pooled; lower `compress` or raise `context`");
    return notes;
  }
  // The last token of a block completes it, and the others are in such a window until then.
  const Index enough = costs.block - 1;
  if (plan.window > 0 && plan.window < enough) {
    notes.push_back("a `window` of " + window + " is shorter than an open block of " + block +
                    " tokens: those that have left the window are read by nobody until their "
                    "block is complete; a window of " +
                    std::to_string(enough) + " or more reads them");
  }
  return notes;
}

}  // namespace headcount
