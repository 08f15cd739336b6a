#include "data/questions.h"

#include <algorithm>
#include <cctype>

namespace headcount {

namespace {

// The word that begins `text`, or its first character if that is no letter.
std::string first_word(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::ranges::find_if_not(text, is_letter);
  return end == text.begin() ? text.substr(0, 1) : std::string(text.begin(), end);
}

}  // namespace

std::vector<StoryQuestion> story_questions(const Corpus& corpus, std::size_t count) {
  const TextPart& text = corpus.validation;
  const std::span<const std::int32_t> tokens = text.tokens;
  const auto decoded = [&](Index begin, Index end) {
    return corpus.vocabulary.decode(
        tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  };
  std::vector<StoryQuestion> questions;
  for (std::size_t story = 0; story < text.starts.size() && questions.size() < count; ++story) {
    const Index begin = text.starts[story];
    const Index end = story + 1 < text.starts.size() ? text.starts[story + 1] : std::ssize(tokens);
    std::vector<Index> answers;
    for (Index i = begin; i < end; ++i) {
      if (text.distances[i] != 0) answers.push_back(i);
    }
    if (answers.empty()) continue;
    const Index at = answers[story % answers.size()];
    StoryQuestion& question = questions.emplace_back();
    question.prompt.assign(tokens.begin() + begin, tokens.begin() + at);
    const Index told = at - text.distances[at];
    question.answer =
        corpus.hidden_answers ? decoded(told, told + 1) : first_word(decoded(at, end));
  }
  return questions;
}

}  // namespace headcount
