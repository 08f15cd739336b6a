#include "train/compare/reading.h"

#include <algorithm>
#include <cmath>

#include "models/attention_map.h"
#include "train/run/loaded.h"

namespace headcount {

namespace {

constexpr Index kLongest = 400;  // characters of a passage on a page

// -log p of the target at each token but the first, given the tokens before it.
std::vector<double> losses_of(const LanguageModel& model, std::span<const std::int32_t> tokens,
                              const TextMarks& marks) {
  Tape tape(model.parameters());
  const auto logits = model.logits(tape, tokens.first(tokens.size() - 1), 1).value();
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::vector<double> losses;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const auto row = logits.subspan((i - 1) * width, width);
    const auto greatest = static_cast<double>(std::ranges::max(row));
    double sum = 0;
    for (const Real logit : row) sum += std::exp(static_cast<double>(logit) - greatest);
    const std::int32_t target = target_at(tokens, static_cast<Index>(i), marks);
    const auto logit = static_cast<double>(row[static_cast<std::size_t>(target)]);
    losses.push_back(greatest + std::log(sum) - logit);
  }
  return losses;
}

}  // namespace

Passage passage_to_read(const Corpus& corpus, const CorpusOptions& options, Index number,
                        Index context) {
  const Index length = std::min(context + 1, kLongest), count = passages(corpus, length);
  if (number > count) {
    throw SettingError(
        "`sample` is ", number, ", but the validation part of ", corpus.name, " has ", count,
        corpus.validation.starts.empty() ? " stretches of " + std::to_string(length) + " characters"
                                         : " stories",
        "; give 1 to ", count);
  }
  return passage(corpus, options, number, length);
}

ReadPassage shown(const Passage& passage, const Corpus& corpus, Index number) {
  ReadPassage shown;
  shown.number = number;
  for (const std::int32_t token : passage.tokens)
    shown.characters.push_back(corpus.vocabulary.decode(std::span(&token, 1)));
  shown.entropy = passage.nats;
  shown.question = passage.tokens.size() - 1;
  for (std::size_t i = 0; i < passage.distances.size(); ++i) {
    shown.answers.push_back(passage.distances[i] > 0);
    // The first character is read, not predicted.
    if (i > 0 && shown.answers[i]) shown.question = i;
  }
  return shown;
}

Reading read_passage(const std::filesystem::path& folder, const Passage& passage,
                     const ReadPassage& shown, const Corpus& corpus) {
  const LoadedRun run = load_run(folder.string());
  if (!(run.vocabulary == corpus.vocabulary))
    throw DataError(
        folder.string(),
        " has weights that were trained on a text with other characters; give that text");
  Reading reading;
  reading.losses.resize(passage.tokens.size());
  const std::vector<double> losses =
      losses_of(*run.model, passage.tokens,
                {.distances = passage.distances, .hidden_answers = corpus.hidden_answers});
  for (std::size_t i = 1; i < passage.tokens.size(); ++i) {
    if (!corpus.only_answers || shown.answers[i]) reading.losses[i] = losses[i - 1];
  }
  const auto before = std::span(passage.tokens).first(shown.question);
  for (const std::vector<HeadMap>& layer : attention_maps(*run.model, before)) {
    std::vector<HeadLook>& looks = reading.looks.emplace_back();
    for (const HeadMap& head : layer) {
      const std::span<const Real> weights = head.row(head.length - 1);
      looks.push_back({{weights.begin(), weights.end()}, head.entropy(head.length - 1)});
    }
  }
  return reading;
}

}  // namespace headcount
