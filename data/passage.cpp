#include "data/passage.h"

#include <algorithm>

namespace headcount {

Index passages(const Corpus& corpus, Index length) {
  if (!corpus.validation_starts.empty()) return std::ssize(corpus.validation_starts);
  return std::max<Index>(1, std::ssize(corpus.validation) / length);
}

Passage passage(const Corpus& corpus, const CorpusOptions& options, Index number, Index length) {
  const std::vector<Index>& starts = corpus.validation_starts;
  Index begin = (number - 1) * length, end = std::ssize(corpus.validation);
  if (!starts.empty()) {
    begin = starts[static_cast<std::size_t>(number - 1)];
    if (number < std::ssize(starts)) end = starts[static_cast<std::size_t>(number)];
  }
  end = std::min(end, begin + length);
  const auto part = [&](const std::vector<std::int32_t>& whole) {
    return whole.empty() ? whole : std::vector(whole.begin() + begin, whole.begin() + end);
  };
  Passage passage{part(corpus.validation), part(corpus.validation_answers), {}};
  if (const BuiltInCorpus* const built_in = find_built_in(corpus.name)) {
    passage.nats =
        nats_of_characters(built_in->writer(options.own), corpus.vocabulary.decode(passage.tokens));
  }
  return passage;
}

}  // namespace headcount
