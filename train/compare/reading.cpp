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
// Characters of all passages among which one is sought: a second, even of models that train for
// minutes.
constexpr Index kSought = 8192;

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

Json rounded(std::span<const double> values) {
  Json all = Json::array();
  for (const double value : values) all.push_back(rounded(value));
  return all;
}

// Logits of the token after each of `tokens`, a row each, as long as the tape holds them.
std::vector<std::span<const Real>> rows_of(const LanguageModel& model, Tape& tape,
                                           std::span<const std::int32_t> tokens) {
  const std::span<const Real> logits = model.logits(tape, tokens, 1).value();
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::vector<std::span<const Real>> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(logits.subspan(i * width, width));
  return rows;
}

TextMarks marks_of(const TextPart& passage, const Corpus& corpus) {
  return {.distances = passage.distances, .hidden_answers = corpus.hidden_answers};
}

// -log p of the answers of each passage, in their order.
std::vector<std::vector<double>> losses_of_answers(const std::filesystem::path& folder,
                                                   const std::vector<TextPart>& passages,
                                                   const Corpus& corpus) {
  const LoadedRun run = load_run(folder.string());
  std::vector<std::vector<double>> all;
  for (const TextPart& passage : passages) {
    const std::size_t question = question_of(passage);
    Tape tape(run.model->parameters());
    const auto rows = rows_of(*run.model, tape, std::span(passage.tokens).first(question));
    std::vector<double>& losses = all.emplace_back();
    for (std::size_t i = 1; i <= question; ++i) {
      if (passage.distances[i] == 0) continue;
      const Index target =
          target_at(passage.tokens, static_cast<Index>(i), marks_of(passage, corpus));
      losses.push_back(row_loss(rows[i - 1], target));
    }
  }
  return all;
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

std::optional<Index> telling_passage(const Corpus& corpus, Index context,
                                     const std::filesystem::path& lacking,
                                     const std::vector<std::filesystem::path>& others) {
  if (corpus.validation.distances.empty()) return std::nullopt;
  const Index length = std::min(context + 1, kLongest);
  const Index count = std::min(passages(corpus, length), kSought / length);
  std::vector<TextPart> all;
  for (Index number = 1; number <= count; ++number) all.push_back(passage(corpus, number, length));
  const auto lost = losses_of_answers(lacking, all, corpus);
  std::vector<double> most(all.size());  // that another loses on any answer
  for (const std::filesystem::path& other : others) {
    const auto losses = losses_of_answers(other, all, corpus);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const double loss : losses[i]) most[i] = std::max(most[i], loss);
  }
  std::optional<Index> best;
  double widest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (lost[i].empty() || lost[i].back() - most[i] <= widest) continue;
    widest = lost[i].back() - most[i];
    best = static_cast<Index>(i) + 1;
  }
  return best;
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
  const std::span<const std::int32_t> tokens = passage.tokens;
  const auto before = tokens.first(question_of(passage));
  Tape tape(run.model->parameters());
  const auto rows = rows_of(*run.model, tape, tokens.first(tokens.size() - 1));
  Json losses = {nullptr}, layers = Json::array();
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const bool counts = !corpus.only_answers || passage.distances[i] > 0;
    const Index target = target_at(tokens, static_cast<Index>(i), marks_of(passage, corpus));
    losses.push_back(counts ? Json(rounded(row_loss(rows[i - 1], target))) : Json());
  }
  const std::span<const Real> asked = rows[before.size() - 1];
  const auto said = static_cast<std::int32_t>(std::ranges::max_element(asked) - asked.begin());
  for (const std::vector<HeadMap>& layer : attention_maps(*run.model, before)) {
    Json heads = Json::array();
    for (const HeadMap& head : layer) {
      const std::span<const Real> weights = head.row(head.length - 1);
      heads.push_back({{"entropy", rounded(head.entropy(head.length - 1))},
                       {"weights", rounded(std::vector<double>(weights.begin(), weights.end()))}});
    }
    layers.push_back(std::move(heads));
  }
  return {{"seed", run.options.value().seed},
          {"said", corpus.vocabulary.decode(std::span(&said, 1))},
          {"losses", losses},
          {"heads", layers}};
}

}  // namespace headcount
