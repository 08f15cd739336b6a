#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/conversion.h"
#include "nn/random_weights.h"

// Models small enough for tests of conversions.
namespace headcount {

constexpr Index kConvertedVocabulary = 11;

using Wanted = std::map<std::string, std::string>;

// A small model; `given` are settings by name.
inline Given small_config(const std::string& attention, const Wanted& given = {}) {
  Given config(model_settings(),
               {{"layers", 2}, {"dim", 24}, {"heads", 4}, {"context", 12}, {"ffn-dim", 16}});
  config.put("attention", attention);
  config.put(given);
  return config;
}

// With weights large enough for attention to matter, norms and biases included.
inline std::unique_ptr<LanguageModel> small_model(const std::string& attention,
                                                  const Wanted& given = {}) {
  auto model = std::make_unique<LanguageModel>(resolve_model(small_config(attention, given)),
                                               kConvertedVocabulary);
  draw_weights(model->parameters());
  return model;
}

inline std::unique_ptr<LanguageModel> converted(const LanguageModel& from,
                                                const std::string& attention,
                                                const Wanted& given = {}) {
  Given to = for_another_attention(Given(model_settings(), from.plan()->settings));
  to.put("attention", attention);
  to.put(given);
  return convert(from, to);
}

}  // namespace headcount
