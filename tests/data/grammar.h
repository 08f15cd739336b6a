#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "data/built_in.h"

namespace headcount {

/// Grammar of the built-in corpus `name` with these settings.
inline StoryGrammar grammar(const std::string& name, const nlohmann::json& settings = {}) {
  return find_built_in(name)->writer(
      Given(corpus_settings(), settings).of(corpus_settings(), name));
}

}  // namespace headcount
