#include "train/compare/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "models/cost.h"
#include "models/language_model.h"
#include "train/formatted.h"

namespace headcount {

namespace {

constexpr std::string_view kCacheBudget = "kv=";

// In float32, of the whole context.
Index cache_bytes(const TrainOptions& options) {
  return kv_cache_bytes(options.model, options.model.context).value();
}

std::string per_token_text(Index bytes, Index context) {
  return bytes % context == 0
             ? std::to_string(bytes / context)
             : formatted("%.2f", static_cast<double>(bytes) / static_cast<double>(context));
}

Index parameter_count(const TrainOptions& options, Index vocabulary) {
  return static_cast<Index>(LanguageModel(options.model, vocabulary).parameters().element_count());
}

TrainOptions with(TrainOptions options, const AttentionSpec& spec) {
  spec.apply(options.model);
  return options;
}

TrainOptions resolved(TrainOptions options) {
  options.resolve();
  return options;
}

// Gives `options` the feed-forward width with which it has as many parameters as `wanted`, within
// half a percent. Every unit of that width costs the same.
std::string match_parameters(TrainOptions& options, Index wanted, Index vocabulary,
                             const std::string& spec) {
  const Index width = options.model.ffn_dim, has = parameter_count(options, vocabulary);
  if (has == wanted) return "";
  ++options.model.ffn_dim;
  const Index per_unit = parameter_count(options, vocabulary) - has;
  options.model.ffn_dim = std::max<Index>(
      1, width + std::lround(static_cast<double>(wanted - has) / static_cast<double>(per_unit)));
  const Index got = parameter_count(options, vocabulary);
  require_setting(std::abs(got - wanted) * 200 <= wanted,
                  "`match` params: no `ffn-dim` gives " + spec + " " + std::to_string(wanted) +
                      " parameters within 0.5 %; the nearest, " +
                      std::to_string(options.model.ffn_dim) + ", gives " + std::to_string(got));
  if (options.model.ffn_dim == width) return "";
  return "ffn-dim " + std::to_string(options.model.ffn_dim);
}

// The settings that set the size of the cache and that the spec leaves open.
std::set<std::string> open_numbers(const AttentionSpec& spec) {
  std::set<std::string> open;
  for (const LayerSpec& part : spec.cycle) {
    if (part.shares() || part.kind->spec_numbers == 0) continue;
    const std::string name = own_settings(*part.kind).front();
    if (!part.gives(name)) open.insert(name);
  }
  return open;
}

// Gives `options`, not resolved, the number that the spec leaves open, so that a token of the
// context costs `per_token` bytes.
std::string match_cache(TrainOptions& options, Index per_token, const AttentionSpec& spec) {
  const Index context = options.model.context;
  const Index wanted = (Count(per_token) * context).value();
  const auto refuse = [&](Index nearest, const std::string& how) {
    throw SettingError("`match` kv=" + std::to_string(per_token) + ": " + spec.text + how +
                       "; the nearest that it can is kv=" + per_token_text(nearest, context));
  };
  const std::set<std::string> open = open_numbers(spec);
  if (open.empty()) {
    const Index bytes = cache_bytes(resolved(options));
    if (bytes != wanted)
      refuse(bytes, " keeps " + per_token_text(bytes, context) + " bytes per token");
    return "";
  }
  const std::string name = *open.begin();
  if (open.size() > 1)
    throw SettingError("`match` kv=" + std::to_string(per_token) + ": " + spec.text + " leaves `" +
                       name + "` and `" + *std::next(open.begin()) +
                       "` open; give all of them but one");
  Index nearest = -1;
  std::string reason;  // why the first one cannot be
  // The cost grows with the number, so none above `wanted` fits. A latent of more than 4 dim, the
  // width of a feed-forward layer, is not tried.
  for (Index number = 1; number <= std::min(wanted, 4 * options.model.dim); ++number) {
    TrainOptions attempt = options;
    attempt.model.settings().find(name)->parse(std::to_string(number));
    try {
      attempt.resolve();
    } catch (const ShapeError& error) {
      if (reason.empty()) reason = error.what();  // otherwise KV heads may not divide the heads
      continue;
    }
    const Index bytes = cache_bytes(attempt);
    if (nearest < 0 || std::abs(bytes - wanted) < std::abs(nearest - wanted)) nearest = bytes;
    if (bytes == wanted) {
      options = attempt;
      return name + " " + std::to_string(number);
    }
    if (bytes > wanted) break;
  }
  if (nearest < 0)
    throw SettingError("`match` kv=" + std::to_string(per_token) + ": " + spec.text + ": " +
                       reason);
  refuse(nearest, " has no " + name + " that keeps so many bytes per token");
  return "";
}

// Why a sweep cannot vary `setting` (null: there is none of that name); empty if it can.
std::string why_not_swept(const std::string& name, const Setting* setting) {
  if (setting == nullptr) return "there is no such setting";
  if (setting->group == "Data") return "all variants are trained on one text";
  if (name == "attention") return "the attentions are what is compared";
  if (name == "context") return "losses at two contexts do not compare";
  if (name == "seed") return "every variant is trained with all seeds";
  if (name == "init") return "all models start from random weights";
  if (setting->group == "Run") return "it changes no result";
  return "";
}

// Refuses a sweep whose values leave a variant as it is.
void require_difference(const PlannedVariant& variant, const AttentionSpec& spec,
                        const Match& match, const Sweep& sweep) {
  std::vector<nlohmann::json> seen;
  for (const Candidate& candidate : variant.candidates) {
    nlohmann::json settings = to_json(candidate.options);
    if (std::ranges::find(seen, settings) == seen.end()) {
      seen.push_back(std::move(settings));
      continue;
    }
    const auto in_name = [&](const LayerSpec& part) { return part.gives(sweep.setting); };
    std::string why = "which has none";
    if (std::ranges::any_of(spec.cycle, in_name)) {
      why = "whose name says it";
    } else if (seen.front().contains(sweep.setting)) {
      why = "for which `match` " + match.text() + " sets it";
    }
    throw SettingError("`sweep` " + sweep.setting + " changes nothing for " + spec.text + ", " +
                       why + "; leave " + spec.text + " out or sweep another setting");
  }
}

std::string joined(const std::string& first, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : ", ") + second;
}

}  // namespace

Match Match::parse(std::string_view text) {
  if (text == "none") return {};
  if (text == "params") return {Kind::parameters, 0};
  if (text.starts_with(kCacheBudget)) {
    Match match{Kind::cache_bytes, 0};
    Settings number;
    number.integer("match", "", match.bytes, 1);
    number.find("match")->parse(text.substr(kCacheBudget.size()));
    return match;
  }
  throw SettingError("`match` must be none, params or kv=BYTES, is '" + std::string(text) + "'");
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
    throw SettingError("`sweep` wants a setting and its values, such as lr=3e-4,1e-3, is " +
                       quoted(text));
  }
  Sweep sweep{std::string(text.substr(0, equals)), {}};
  const std::string& name = sweep.setting;
  TrainOptions scratch;
  const Settings settings = scratch.settings();
  const Setting* setting = settings.find(name);
  const std::string why = why_not_swept(name, setting);
  if (!why.empty()) {
    throw SettingError("`sweep` cannot vary '" + name + "': " + why +
                       "; take a setting of the model or the optimiser, such as lr");
  }
  std::vector<nlohmann::json> values;
  for (const std::string_view value : split_text(text.substr(equals + 1), ',')) {
    setting->parse(value);
    const auto same = std::ranges::find(values, setting->value());
    if (same != values.end()) {
      throw SettingError("`sweep` " + name + " has one value twice: " +
                         sweep.values[static_cast<std::size_t>(same - values.begin())] + " and " +
                         std::string(value));
    }
    values.push_back(setting->value());
    sweep.values.emplace_back(value);
  }
  if (sweep.values.size() < 2)
    throw SettingError("`sweep` " + name + " has one value; give two or more");
  return sweep;
}

std::string Sweep::text() const {
  std::string text = setting + "=";
  for (const std::string& value : values) text += (&value == &values.front() ? "" : ",") + value;
  return text;
}

std::vector<PlannedVariant> plan_comparison(const TrainOptions& common,
                                            const std::vector<AttentionSpec>& specs,
                                            const Match& match, const std::optional<Sweep>& sweep,
                                            Index vocabulary) {
  std::vector<PlannedVariant> variants;
  for (const AttentionSpec& spec : specs) variants.push_back({spec.text, {}, spec.text});
  // "" stands for no sweep.
  for (const std::string& value : sweep ? sweep->values : std::vector<std::string>{""}) {
    TrainOptions base = common;
    if (sweep) base.settings().find(sweep->setting)->parse(value);
    Index wanted_parameters = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Candidate candidate{specs[i].text, file_name_of(specs[i].text), "", with(base, specs[i])};
      if (match.kind == Match::Kind::cache_bytes)
        candidate.adjusted = match_cache(candidate.options, match.bytes, specs[i]);
      candidate.options.resolve();
      if (match.kind == Match::Kind::parameters) {
        if (i == 0) wanted_parameters = parameter_count(candidate.options, vocabulary);
        candidate.adjusted =
            match_parameters(candidate.options, wanted_parameters, vocabulary, specs[i].text);
      }
      if (sweep) {
        candidate.adjusted = joined(candidate.adjusted, sweep->setting + " " + value);
        for (std::string* name : {&candidate.name, &candidate.folder})
          *name += "/" + sweep->setting + "=" + value;
      }
      variants[i].candidates.push_back(std::move(candidate));
    }
  }
  for (std::size_t i = 0; sweep && i < specs.size(); ++i)
    require_difference(variants[i], specs[i], match, *sweep);
  return variants;
}

}  // namespace headcount
