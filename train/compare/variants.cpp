#include "train/compare/variants.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/cost/cost.h"
#include "models/language_model.h"

namespace headcount {

namespace {

constexpr std::string_view kCacheBudget = "kv=";

// Bytes of the KV cache for the whole context, in float32.
Index cache_bytes(const ModelPlan& model) { return kv_cache_bytes(model, model->context).value(); }

std::string per_token_text(Index bytes, Index context) {
  return bytes % context == 0
             ? std::to_string(bytes / context)
             : formatted("%.2f", static_cast<double>(bytes) / static_cast<double>(context));
}

Index parameter_count(const ModelPlan& model, Index vocabulary) {
  return static_cast<Index>(LanguageModel(model, vocabulary).parameters().element_count());
}

// Gives `model` the feed-forward width with which it has as many parameters as `wanted`, within
// half a percent. Every unit of that width costs the same.
std::string match_parameters(ModelPlan& model, Index wanted, Index vocabulary,
                             const std::string& spec) {
  const auto with_width = [&](Index width) { return with_settings(model, {{"ffn-dim", width}}); };
  const Index width = model->ffn_dim, has = parameter_count(model, vocabulary);
  if (has == wanted) return "";
  require_setting(width > 0,
                  "`match` params changes `ffn-dim`, and with 0 there are no feed-forward layers; "
                  "leave `match` out or raise `ffn-dim`");
  const Index per_unit = parameter_count(with_width(width + 1), vocabulary) - has;
  model = with_width(std::max<Index>(
      1, width + std::lround(static_cast<double>(wanted - has) / static_cast<double>(per_unit))));
  const Index got = parameter_count(model, vocabulary);
  require_setting(
      std::abs(got - wanted) * 200 <= wanted,
      "`match` params: no `ffn-dim` gives {} {} parameters within 0.5 %; the nearest, {}, gives {}",
      spec, wanted, model->ffn_dim, got);
  if (model->ffn_dim == width) return "";
  return "ffn-dim " + std::to_string(model->ffn_dim);
}

// Settings that determine the size of the cache and that the spec leaves open.
std::set<std::string> open_numbers(const AttentionSpec& spec) {
  std::set<std::string> open;
  for (const LayerSpec& part : spec.cycle) {
    if (part.shares() || part.kind->numbers.front().empty()) continue;
    const std::string name(part.kind->numbers.front());
    if (!part.gives(name)) open.insert(name);
  }
  return open;
}

// Adds to `given` the setting that the spec leaves open, such that a token of the context costs
// `per_token` bytes. Returns the setting as text, empty if the spec leaves none open.
std::string match_cache(Given& given, Index per_token, const AttentionSpec& spec) {
  const ModelSettings sizes = read_model_settings(given);
  const Index context = sizes.context;
  const Index wanted = (Count(per_token) * context).value();
  const auto refuse = [&](Index nearest, const std::string& how) {
    throw SettingError("`match` kv={}: {} {}{}", per_token, spec.text, how,
                       nearest % context == 0
                           ? "; the nearest possible is kv=" + std::to_string(nearest / context)
                           : ", no whole number; leave " + spec.text + " out");
  };
  const std::set<std::string> open = open_numbers(spec);
  if (open.empty()) {
    const Index bytes = cache_bytes(resolve_model(given));
    if (bytes != wanted)
      refuse(bytes, "keeps " + per_token_text(bytes, context) + " bytes per token");
    return "";
  }
  const std::string name = *open.begin();
  if (open.size() > 1)
    throw SettingError(
        "`match` kv={}: {} leaves `{}` and `{}` open; `match` can choose one of them, give the "
        "others",
        per_token, spec.text, name, *std::next(open.begin()));
  Index nearest = -1;
  std::string reason;  // why there is no nearest budget
  // The cost grows with the number, so none above `wanted` fits; with the number of tokens to a
  // pooled row it mostly falls. A latent of more than 4 dim, the width of a feed-forward layer, is
  // not tried.
  const bool grows = name != "compress";
  for (Index number = 1; number <= std::min(wanted, 4 * sizes.dim); ++number) {
    Given attempt = given;
    attempt.put(name, number);
    Index bytes = 0;
    try {
      bytes = cache_bytes(resolve_model(attempt));
    } catch (const ShapeError& error) {
      if (reason.empty()) reason = error.what();  // otherwise KV heads may not divide the heads
      continue;
    }
    // A budget is a whole number of bytes per token, so it cannot name the others.
    if (nearest < 0 && bytes % context != 0)
      reason = "no `" + name + "` near this budget keeps whole bytes per token; leave it out";
    const bool closer = nearest < 0 || std::abs(bytes - wanted) < std::abs(nearest - wanted);
    if (closer && bytes % context == 0) nearest = bytes;
    if (bytes == wanted) {
      given = attempt;
      return name + " " + std::to_string(number);
    }
    if (grows && bytes > wanted) break;
  }
  if (nearest < 0) throw SettingError("`match` kv={}: {}: {}", per_token, spec.text, reason);
  refuse(nearest, "has no " + name + " with this many bytes per token");
  return "";
}

// Reason why a sweep cannot vary `setting` (null: there is none of that name); empty if it can.
std::string why_not_swept(const Setting* setting) {
  if (setting == nullptr) return "there is no such setting";
  if (setting->traits.scope == Scope::data) return "all variants are trained on one text";
  if (!setting->traits.never_swept.empty()) return std::string(setting->traits.never_swept);
  if (setting->traits.scope == Scope::run || setting->traits.scope == Scope::single)
    return "it changes no result";
  return "";
}

// Throws SettingError if two values of the sweep give the same settings of a variant, or if another
// optimizer has the setting.
void require_difference(const PlannedVariant& variant, const AttentionSpec& spec,
                        const Match& match, const Sweep& sweep) {
  const Setting* const setting = find_setting(training_settings(), sweep.setting);
  const std::string optimizer(variant.candidates.front().options.optimizer.kind->name);
  require_setting(setting->traits.scope != Scope::optimizer || setting->is_for(optimizer),
                  "`sweep` {} changes nothing with `optimizer` {}; it is for {}", sweep.setting,
                  optimizer, joined(setting->only_for()));
  std::vector<nlohmann::json> seen;
  for (const Candidate& candidate : variant.candidates) {
    nlohmann::json settings = to_json(candidate.options);
    if (std::ranges::find(seen, settings) == seen.end()) {
      seen.push_back(std::move(settings));
      continue;
    }
    const auto in_name = [&](const LayerSpec& part) { return part.gives(sweep.setting); };
    std::string why = "which has no such setting";
    if (std::ranges::any_of(spec.cycle, in_name)) {
      why = "whose name sets it";
    } else if (seen.front().contains(sweep.setting)) {
      why = "for which `match` " + match.text() + " sets it";
    }
    throw SettingError(
        "`sweep` {} changes nothing for {}, {}; leave {} out or sweep another setting",
        sweep.setting, spec.text, why, spec.text);
  }
}

}  // namespace

Match Match::parse(std::string_view text) {
  if (text == "none") return {};
  if (text == "params") return {Kind::parameters, 0};
  if (text.starts_with(kCacheBudget)) {
    const WholeRange bytes = {1};
    try {
      return {Kind::cache_bytes, parse_value("match", bytes, text.substr(kCacheBudget.size()))};
    } catch (const SettingError&) {
      throw SettingError("`match` kv=BYTES takes whole bytes from {} to {}; it is {}", bytes.low,
                         bytes.high, quoted(text));
    }
  }
  throw SettingError("`match` must be none, params or kv=BYTES; it is {}", quoted(text));
}

std::string Match::text() const {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::parameters:
      return "params";
    case Kind::cache_bytes:
      return std::string(kCacheBudget) + std::to_string(bytes);
  }
  return "";
}

Sweep Sweep::parse(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw SettingError("`sweep` must be a setting with values, for example lr=3e-4,1e-3; it is {}",
                       quoted(text));
  }
  Sweep sweep{std::string(text.substr(0, equals)), {}};
  const std::string& name = sweep.setting;
  const Setting* const setting = find_setting(training_settings(), name);
  const std::string why = why_not_swept(setting);
  if (!why.empty()) {
    throw SettingError(
        "`sweep` cannot vary '{}': {}; take a setting of the model or the optimizer, such as lr",
        name, why);
  }
  std::vector<nlohmann::json> values;
  for (const std::string_view value : split_text(text.substr(equals + 1), ',')) {
    const nlohmann::json number =
        named_error<SettingError>("`sweep`", [&] { return setting->value(value); });
    const auto same = std::ranges::find(values, number);
    if (same != values.end()) {
      throw SettingError("`sweep` {} has one value twice: {} and {}", name,
                         sweep.values[static_cast<std::size_t>(same - values.begin())], value);
    }
    values.push_back(number);
    sweep.values.emplace_back(value);
  }
  if (sweep.values.size() < 2)
    throw SettingError("`sweep` {} has one value; give two or more", name);
  return sweep;
}

std::string Sweep::text() const {
  std::string text = setting + "=";
  for (const std::string& value : values) text += (&value == &values.front() ? "" : ",") + value;
  return text;
}

std::vector<PlannedVariant> plan_comparison(const Given& common,
                                            const std::vector<AttentionSpec>& specs,
                                            const Match& match, const std::optional<Sweep>& sweep,
                                            Index vocabulary) {
  std::vector<PlannedVariant> variants;
  for (const AttentionSpec& spec : specs) variants.push_back({spec.text, {}});
  // Without a sweep, one round with the empty value.
  for (const std::string& value : sweep ? sweep->values : std::vector<std::string>{""}) {
    Index wanted_parameters = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Given given = common;
      if (sweep) given.put(sweep->setting, value);
      given.put("attention", specs[i].text);
      std::string adjusted;
      if (match.kind == Match::Kind::cache_bytes)
        adjusted = match_cache(given, match.bytes, specs[i]);
      TrainOptions options = resolve_training(given);
      if (match.kind == Match::Kind::parameters) {
        if (i == 0) wanted_parameters = parameter_count(options.model, vocabulary);
        adjusted = match_parameters(options.model, wanted_parameters, vocabulary, specs[i].text);
      }
      std::string suffix;
      if (sweep) {
        adjusted += (adjusted.empty() ? "" : ", ") + sweep->setting + " " + value;
        suffix = "/" + sweep->setting + "=" + value;
      }
      variants[i].candidates.push_back({specs[i].text + suffix,
                                        file_name_of(specs[i].text) + suffix, adjusted,
                                        std::move(options)});
    }
  }
  for (std::size_t i = 0; sweep && i < specs.size(); ++i)
    require_difference(variants[i], specs[i], match, *sweep);
  return variants;
}

}  // namespace headcount
