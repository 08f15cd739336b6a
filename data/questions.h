#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"

namespace headcount {

/// A question of a built-in text: a story up to an answer, and that answer.
struct StoryQuestion {
  std::vector<std::int32_t> prompt;  ///< tokens of the story before the answer
  /// Its characters: a word, or the single character of a hidden answer.
  std::string answer;
};

/// Questions of the first stories of the validation part that mark an answer, at most `count`: one
/// a story, which takes turns between the first answer, the second and so on. None for a file.
std::vector<StoryQuestion> story_questions(const Corpus& corpus, std::size_t count);

}  // namespace headcount
