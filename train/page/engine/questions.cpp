#include <algorithm>

#include "data/corpus.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

namespace {

constexpr Index kPiece = 600;  // characters
constexpr std::size_t kQuestions = 100;

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
  if (!corpus.hidden_answers) {
    for (const StoryQuestion& question : story_questions(corpus, kQuestions)) {
      questions.push_back(
          {{"prompt", corpus.vocabulary.decode(question.prompt)}, {"answer", question.answer}});
    }
  }
  return {{"validation", decoded(0, piece)}, {"questions", questions}};
}

}  // namespace headcount::page
