#include "train/compare/reading.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/tools/attention_map.h"
#include "train/evaluation.h"
#include "train/run/loaded.h"

namespace headcount {

namespace {

constexpr Index kLongest = 400;  // characters of a passage on a page

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

// -log p of the target at each token, given the tokens before it; null for the first, and where the
// loss does not count it.
Json losses_of(const LanguageModel& model, const TextPart& passage, const Corpus& corpus) {
  const std::span<const std::int32_t> tokens = passage.tokens;
  const TextMarks marks = {.distances = passage.distances, .hidden_answers = corpus.hidden_answers};
  Tape tape(model.parameters());
  const auto logits = model.logits(tape, tokens.first(tokens.size() - 1), 1).value();
  const auto width = static_cast<std::size_t>(model.vocabulary());
  Json losses = {nullptr};
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const auto row = logits.subspan((i - 1) * width, width);
    const double loss = row_loss(row, target_at(tokens, static_cast<Index>(i), marks));
    const bool counts = !corpus.only_answers || passage.distances[i] > 0;
    losses.push_back(counts ? Json(rounded(loss)) : Json());
  }
  return losses;
}

}  // namespace

TextPart passage_to_read(const Corpus& corpus, Index number, Index context) {
  const Index length = std::min(context + 1, kLongest), count = passages(corpus, length);
  if (number > count) {
    throw SettingError("`sample` is {}, but the validation part of {} has {} {}; give 1 to {}",
                       number, corpus.name, count,
                       corpus.validation.starts.empty()
                           ? "stretches of " + std::to_string(length) + " characters"
                       : corpus.documents == Documents::one ? "stories"
                                                            : "documents",
                       count);
  }
  return passage(corpus, number, length);
}

std::size_t question_of(const TextPart& passage) {
  // The first character is read, not predicted.
  for (std::size_t i = passage.distances.size(); i-- > 1;)
    if (passage.distances[i] > 0) return i;
  return passage.tokens.size() - 1;
}

Json passage_json(const TextPart& passage, const Corpus& corpus, Index number) {
  Json characters = Json::array(), answers;
  for (const std::int32_t token : passage.tokens)
    characters.push_back(corpus.vocabulary.decode(std::span(&token, 1)));
  if (!passage.distances.empty()) answers = Json::array();
  for (std::size_t i = 0; i < passage.distances.size(); ++i)
    if (passage.distances[i] > 0) answers.push_back(i);
  return {{"number", number},
          {"characters", characters},
          {"answers", answers},
          {"question", question_of(passage)}};
}

Json read_passage(const std::filesystem::path& folder, const TextPart& passage,
                  const Corpus& corpus) {
  const LoadedRun run = load_run(folder.string());
  if (!(run.vocabulary == corpus.vocabulary))
    throw DataError(
        "{} has weights that were trained on a text with other characters; give that text",
        folder.string());
  Json layers = Json::array();
  const auto before = std::span(passage.tokens).first(question_of(passage));
  for (const std::vector<HeadMap>& layer : attention_maps(*run.model, before)) {
    Json heads = Json::array();
    for (const HeadMap& head : layer) {
      Json weights = Json::array();
      for (const Real weight : head.row(head.length - 1))
        weights.push_back(rounded(static_cast<double>(weight)));
      heads.push_back(
          {{"entropy", rounded(head.entropy(head.length - 1))}, {"weights", std::move(weights)}});
    }
    layers.push_back(std::move(heads));
  }
  return {{"seed", run.options.value().seed},
          {"losses", losses_of(*run.model, passage, corpus)},
          {"heads", layers}};
}

}  // namespace headcount
