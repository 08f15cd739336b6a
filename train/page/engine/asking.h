#pragma once

#include "train/page/engine/session.h"

namespace headcount::page {

struct Question {
  std::string prompt;  ///< UTF-8
  Index tokens = 1;    ///< to add
  double temperature = 0;
  std::uint64_t seed = 1;
  CacheRounding rounding = {};
};

/// Question of a request {"prompt", "tokens", "temperature", "seed", "cache"}, the last one a value
/// of `cache-dtype`. Throws DataError and SettingError.
Question read_question(const nlohmann::json& request);

/// Continues the prompt with a KV cache, up to the model's context, and describes every step: the
/// likeliest characters and the attention weights of each head that has them, without rounding. The
/// reply also has the layers of the cache. Throws DataError that names unknown characters, and for
/// a prompt that leaves no room for an answer.
Json ask(const LanguageModel& model, const Vocabulary& vocabulary, const Question& question);

}  // namespace headcount::page
