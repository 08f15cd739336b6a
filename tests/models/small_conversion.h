#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/conversion.h"
#include "nn/random_weights.h"

// Models small enough for tests of conversions.
namespace headcount {

constexpr Index kConvertedVocabulary = 11;

using Given = std::map<std::string, std::string>;

// A small model, not resolved; `given` are settings by name.
inline ModelConfig small_config(const std::string& attention, const Given& given = {}) {
  ModelConfig config;
  for (const auto& [name, value] :
       Given{{"layers", "2"}, {"dim", "24"}, {"heads", "4"}, {"context", "12"}, {"ffn-dim", "16"}})
    config.settings().find(name)->parse(value);
  parse_attention_spec(attention).apply(config);
  for (const auto& [name, value] : given) config.settings().find(name)->parse(value);
  return config;
}

// With weights large enough for attention to matter, norms and biases included.
inline std::unique_ptr<LanguageModel> small_model(const std::string& attention,
                                                  const Given& given = {}) {
  auto model =
      std::make_unique<LanguageModel>(small_config(attention, given), kConvertedVocabulary);
  draw_weights(model->parameters());
  return model;
}

inline Conversion converted(const LanguageModel& from, const std::string& attention,
                            const Given& given = {}, const ConversionOptions& options = {}) {
  ModelConfig to = without_attention(from.config());
  parse_attention_spec(attention).apply(to);
  for (const auto& [name, value] : given) to.settings().find(name)->parse(value);
  return convert(from, fitted(from, to, options), options);
}

}  // namespace headcount
