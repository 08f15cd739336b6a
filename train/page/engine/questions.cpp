#include "train/page/engine/questions.h"

#include <algorithm>
#include <cctype>

namespace headcount::page {

namespace {

constexpr Index kPiece = 600;  // characters
constexpr Index kQuestions = 12;

// The word that begins `text`, or its first character if that is no letter.
std::string first_word(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::ranges::find_if_not(text, is_letter);
  return end == text.begin() ? text.substr(0, 1) : std::string(text.begin(), end);
}

}  // namespace

Json text_json(const Corpus& corpus) {
  const std::span<const std::int32_t> tokens = corpus.validation.tokens;
  const auto decoded = [&](Index begin, Index end) {
    return corpus.vocabulary.decode(
        tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  };
  const std::vector<Index>& starts = corpus.validation.starts;
  Index piece = std::min(kPiece, std::ssize(tokens));
  if (const auto after = std::ranges::upper_bound(starts, piece); after - starts.begin() > 1)
    piece = *(after - 1);  // whole stories
  Json questions = Json::array();
  const std::size_t stories = corpus.hidden_answers ? 0 : starts.size();
  for (std::size_t story = 0; story < stories && std::ssize(questions) < kQuestions; ++story) {
    const Index begin = starts[story];
    const Index end = story + 1 < starts.size() ? starts[story + 1] : std::ssize(tokens);
    std::vector<Index> answers;
    for (Index i = begin; i < end; ++i) {
      if (corpus.validation.distances[i] != 0) answers.push_back(i);
    }
    if (answers.empty()) continue;
    const Index at = answers[story % answers.size()];
    questions.push_back({{"prompt", decoded(begin, at)}, {"answer", first_word(decoded(at, end))}});
  }
  return {{"validation", decoded(0, piece)}, {"questions", questions}};
}

}  // namespace headcount::page
