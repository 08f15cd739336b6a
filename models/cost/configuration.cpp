#include "models/cost/configuration.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/cost/model_data.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

// The configuration of the text, which a multimodal one holds inside.
const Json& text_of(const Json& config) {
  for (const char* key : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object() && !found->empty()) return text_of(*found);
  }
  return config;
}

// Whether a configuration says something with the value, as null, false, 0, -1 and [] do not.
bool says_something(const Json& value) {
  return !(value.is_null() || value == false || value == 0 || value == -1 || value == "" ||
           (value.is_structured() && value.empty()));
}

// Whether the key is one of latents, and the file says that its heads are ordinary.
bool is_unused(const Json& config, const std::string& key) {
  const auto latents = config.find("use_mla");
  return (key == "kv_lora_rank" || key == "v_head_dim") && latents != config.end() &&
         *latents == false;
}

bool has(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  return found != config.end() && says_something(*found) && !is_unused(config, key);
}

[[noreturn]] void refuse_unknown_type(const Json& text, const std::string& type) {
  const std::string named = "the model type " + headcount::quoted(type);
  const Json& others = model_type_table("types_not_counted");
  const auto reason = others.find(has(text, "is_encoder_decoder") ? "t5" : type);
  if (reason != others.end()) throw DataError("{} {}", named, reason->get<std::string>());
  const std::string unknown = named + " is unknown";
  for (const Json& row : model_type_table("mechanisms")) {  // key, mechanism, type
    if (has(text, row[0]))
      throw DataError("{}; its key '{}' is one of {}: if that is all, say `as` {}", unknown,
                      row[0].get<std::string>(), row[1].get<std::string>(),
                      row[2].get<std::string>());
  }
  throw DataError("{}, and none of its keys tells what it caches", unknown);
}

// The name in model_types.json of a configuration's type.
std::string type_of(const Json& config, const Json& text, const std::string& as) {
  const auto named = [](const Json& object) {
    const auto found = object.find("model_type");
    if (found == object.end() || found->is_null()) return std::string();
    if (!found->is_string())
      refuse("model_type", *found, "it must be a name; `as` names the type whose rules apply");
    return found->get<std::string>();
  };
  std::string type = as.empty() ? named(text) : as;
  if (type.empty()) type = named(config);
  if (const auto found = text.find("architectures");
      type.empty() && found != text.end() && found->is_array() && found->size() == 1)
    type = model_type_table("types_of_architectures").value(found->front(), type);
  for (const std::string& name : {type, type + "_text"}) {
    if (model_type_table("types").contains(name)) return name;
  }
  if (type.empty())
    throw DataError(
        "the configuration has no 'model_type'; name the type whose rules apply (`as`)");
  if (as.empty()) refuse_unknown_type(text, type);
  std::vector<std::string> known;
  for (const auto& [name, rules] : model_type_table("types").items()) known.push_back(name);
  throw DataError("the model type {} is unknown{}", headcount::quoted(type),
                  suggestion(type, known));
}

// Rules of a type, with those of the type that it is like.
Json rules_of(const std::string& type) {
  const Json& own = model_type_table("types").at(type);
  if (!own.contains("like")) return own;
  Json rules = rules_of(own.at("like"));
  rules.merge_patch(own);
  return rules;
}

std::string joined_with_and(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

}  // namespace

const Json& model_type_table(const char* name) {
  static const Json all = Json::parse(kModelTypes);
  return all.at(name);
}

Configuration::Configuration(const Json& config, const std::string& type)
    : config_(config), rules_(std::make_shared<const Json>(rules_of(type))), type_(type) {}

namespace {

// Files of quantized models may say how their users store the cache, which is not counted.
void note_cache_scheme(const Configuration& c, const Configuration& reader) {
  for (const char* object : {"quantization_config", "compression_config"}) {
    const std::string key = std::string(object) + ".kv_cache_";
    const Json *const bits = c.find(key + "scheme.num_bits"),
                      *const type = c.find(key + "scheme.type"),
                      *const name = c.find(key + "quant_algo");
    const bool is_named = name != nullptr && (*name == "FP8" || *name == "INT8");
    if ((bits == nullptr || *bits != 8) && !is_named) continue;
    const bool is_int = is_named ? *name == "INT8" : type != nullptr && *type == "int";
    reader.note("the file's " + std::string(is_named ? "kv_cache_quant_algo" : "kv_cache_scheme") +
                " stores the cache in 8 bits: `cache-dtype` " + (is_int ? "int8" : "fp8") +
                " counts that");
  }
}

}  // namespace

Configuration Configuration::of(const Json& config, const std::string& as) {
  const Json& text = text_of(config);
  const std::string type = type_of(config, text, as);
  const Configuration inner(text, type), outer(config, type);
  const bool is_beside = !inner.gives("num_hidden_layers") && !inner.gives("hidden_size") &&
                         !inner.gives("num_attention_heads") && outer.gives("num_hidden_layers");
  const Configuration& c = is_beside && &text != &config ? outer : inner;
  if (&c == &outer)
    c.note("the configuration of the text gives no sizes: those beside it are counted");
  if (has(config, "auto_map") || has(text, "auto_map"))
    c.note("the file names code of its own (auto_map), which may keep something else");
  for (const Configuration* const part : {&inner, &outer}) note_cache_scheme(*part, c);
  if (const std::string note = c.rule("note"); !note.empty()) c.note(note);
  return c;
}

Configuration Configuration::of_layer(Index layer) const {
  Configuration one = *this;
  one.layer_ = layer;
  return one;
}

namespace {

const Json& entry_of_layer(const std::string& key, const Json& list, Index layer) {
  if (layer >= std::ssize(list))
    throw DataError("'{}' has {} entries, fewer than there are layers", key, list.size());
  return list[static_cast<std::size_t>(layer)];
}

}  // namespace

const Json* Configuration::at_path(const std::string& path) const {
  const Json* value = &config_;
  for (const std::string_view key : split_text(path, '.')) {
    if (value->is_array() && layer_ >= 0) value = &entry_of_layer(path, *value, layer_);
    const auto found = value->find(key);
    if (!value->is_object() || found == value->end()) return nullptr;
    value = &*found;
  }
  return value;
}

const std::vector<std::string>& Configuration::names_of(const std::string& key) const {
  const auto [found, is_new] = reading_->names.try_emplace(key);
  std::vector<std::string>& names = found->second;
  if (!is_new) return names;
  names = {key};
  const auto add_names = [&](const Json& table) {
    if (const auto others = table.find(key); others != table.end())
      names.insert(names.end(), others->begin(), others->end());
  };
  if (const auto own = rules_->find("names"); own != rules_->end()) add_names(*own);
  add_names(model_type_table("other_names_of_keys"));
  for (const std::string& name : names)
    reading_->keys.insert({name, name.substr(0, name.find('.'))});
  return names;
}

const Json* Configuration::find(const std::string& key) const {
  if (const Json* const value = at_path(name_of(key))) return value->is_null() ? nullptr : value;
  const Json& defaults = rules_->at("defaults");
  for (const std::string& name : names_of(key)) {
    const auto found = defaults.find(name);
    if (found == defaults.end() || found->is_null()) continue;
    if (says_something(*found))
      reading_->defaults.emplace(name, found->is_structured() ? "" : " " + found->dump());
    return &*found;
  }
  return nullptr;
}

std::string Configuration::name_of(const std::string& key) const {
  std::string named = key;  // by a null, unless another name has a value
  for (const std::string& name : names_of(key)) {
    const Json* const value = at_path(name);
    if (value != nullptr && !value->is_null()) return name;
    if (value != nullptr && at_path(named) == nullptr) named = name;
  }
  return named;
}

bool Configuration::gives(const std::string& key) const {
  const Json* const value = at_path(name_of(key));
  return value != nullptr && !value->is_null();
}

Index Configuration::whole(const std::string& key, std::optional<Index> otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) {
    if (otherwise) return *otherwise;
    const std::string name = name_of(key);
    if (at_path(name) != nullptr) throw DataError("'{}' is null; it must be a whole number", name);
    throw DataError("the configuration has no '{}', and its type has no default for it", key);
  }
  if (value->is_array() && layer_ >= 0) {
    value = &entry_of_layer(name_of(key), *value, layer_);
    if (value->is_null()) return otherwise.value_or(0);
  }
  constexpr double kMost = 2'147'483'647;  // which an Index of 32 bits can be, too
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= kMost) || number != std::floor(number))
    refuse(name_of(key), *value, "it must be a whole number from 0 to 2147483647");
  return static_cast<Index>(number);
}

Index Configuration::positive(const std::string& key, std::optional<Index> otherwise) const {
  const Index value = whole(key, otherwise);
  if (value == 0) throw DataError("'{}' must be at least 1, is 0", name_of(key));
  return value;
}

bool Configuration::on(const std::string& key) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_boolean())
    refuse(name_of(key), *value, "it must be true or false");
  return value != nullptr && value->get<bool>();
}

const Json* Configuration::list(const std::string& key) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_array()) refuse(name_of(key), *value, "it must be a list");
  return value;
}

void Configuration::note(const std::string& sentence) const {
  if (std::ranges::find(reading_->notes, sentence) == reading_->notes.end())
    reading_->notes.push_back(sentence);
}

std::vector<std::string> Configuration::notes() const {
  std::vector<std::string> all = reading_->notes, sizes;
  for (const auto& [key, value] : reading_->defaults) sizes.push_back(key + value);
  if (sizes.size() == 1)
    all.push_back(sizes[0] + " is the default of " + type_ + ": the file does not give it");
  else if (!sizes.empty())
    all.push_back(joined_with_and(sizes) + " are defaults of " + type_ +
                  ": the file does not give them");
  return all;
}

void Configuration::refuse_unread(const std::string& key, std::optional<Index> counted) const {
  const Json* const value = at_path(key);
  if (value == nullptr || !says_something(*value) || is_unused(config_, key) ||
      reading_->keys.contains(key) || rules_->at("defaults").contains(key) ||
      (counted && *value == *counted))
    return;
  const Json ignored = rules_->value("ignores", Json::array());
  const bool is_ignored = std::ranges::find(ignored, Json(key)) != ignored.end();
  if (is_ignored && counted)
    note(key + " " + value->dump() + " is not counted: the class of " + type_ +
         " does not read it");
  if (!is_ignored)
    throw DataError(
        "'{}' decides what a cache holds, but the rules of {} do not read it; another type's may "
        "(`as`)",
        key, type_);
}

void Configuration::refuse_unread_keys() const {
  for (const Json& key : model_type_table("deciding_keys")) refuse_unread(key, {});
}

void Configuration::refuse_unread_sizes(Index kv_heads, Index width) const {
  const std::string heads = "num_key_value_heads";
  refuse_unread(heads, kv_heads);
  for (const std::string key : model_type_table("other_names_of_keys").at(heads))
    if (key.find('.') == key.npos) refuse_unread(key, kv_heads);  // no part of another key
  for (const Json& key : model_type_table("names_of_head_widths")) refuse_unread(key, width);
}

}  // namespace headcount
