#include <algorithm>
#include <cmath>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/decoder.h"
#include "models/sampling.h"
#include "models/tools/attention_map.h"
#include "train/evaluation.h"
#include "train/page/engine/replies.h"
#include "train/show/cache_cost.h"

namespace headcount::page {

namespace {

// The likeliest characters after `logits`, with their probabilities.
Json likeliest(std::span<const Real> logits, const Vocabulary& vocabulary) {
  constexpr Index kShown = 8;
  Json list = Json::array();
  for (const auto& [token, probability] : likeliest_tokens(logits, kShown)) {
    list.push_back({{"character", vocabulary.decode(std::span(&token, 1))}, {"p", probability}});
  }
  return list;
}

// Attention weights of the token at `position` over the tokens up to it [layer][head][position];
// null for a layer without weights.
Json weights_at(const std::vector<std::vector<HeadMap>>& maps, Index position) {
  Json layers = Json::array();
  for (const std::vector<HeadMap>& heads : maps) {
    Json of_layer = heads.empty() ? Json() : Json::array();
    for (const HeadMap& head : heads) {
      const auto row = head.row(position).first(static_cast<std::size_t>(position) + 1);
      Json weights = Json::array();
      for (const Real weight : row)
        weights.push_back(static_cast<double>(std::round(weight * 1e4f)) / 1e4);
      of_layer.push_back(std::move(weights));
    }
    layers.push_back(std::move(of_layer));
  }
  return layers;
}

}  // namespace

Json ask(const LanguageModel& model, const Vocabulary& vocabulary, const nlohmann::json& request) {
  const auto prompt = request.find("prompt");
  if (prompt == request.end() || !prompt->is_string()) throw DataError("'prompt' must be a text");
  const nlohmann::json temperature = request.value("temperature", nlohmann::json(0));
  if (!temperature.is_number() || !(temperature.get<double>() >= 0))
    throw DataError("'temperature' must be a number, at least 0");
  const SamplingOptions sampling{.temperature = temperature.get<double>()};
  const CacheRounding rounding = CacheRounding::parse(request.value("cache", "f32"));
  std::vector<std::int32_t> tokens =
      vocabulary.encode(decode_utf8(prompt->get<std::string>(), "the text"));
  const Index context = model.plan()->context, given = std::ssize(tokens);
  if (given == 0) throw DataError("the text is empty; type at least one character");
  if (given > context) {
    throw DataError("the text has {} characters, the context holds {}; shorten it", given, context);
  }
  const auto width = static_cast<std::size_t>(model.vocabulary());
  Decoder decoder(model, {.rounding = rounding});
  Json steps = Json::array();
  std::span<const std::int32_t> next = tokens;
  std::vector<std::int32_t> answer;
  std::vector<std::vector<Real>> rounded;  // logits of each step, through a cache that rounds
  const Index wanted = request.contains("tokens") ? whole_number(request, "tokens") : 1;
  const Index count = std::min(wanted, context - given + 1);
  for (Index i = 0; i < count; ++i) {
    const std::span<const Real> logits = decoder.feed(next).last(width);
    answer.push_back(sample_token(logits, sampling, given + i));
    next = std::span(answer).last(1);
    steps.push_back({{"character", vocabulary.decode(next)},
                     {"probabilities", likeliest(logits, vocabulary)},
                     {"weights", nullptr}});
    if (rounding.rounds()) rounded.emplace_back(logits.begin(), logits.end());
  }
  // The last character is not read any more.
  if (count > 1) tokens.insert(tokens.end(), answer.begin(), answer.end() - 1);
  const auto maps = attention_maps(model, tokens);
  for (Index i = 0; i < count; ++i)
    steps[static_cast<std::size_t>(i)]["weights"] = weights_at(maps, given - 1 + i);
  if (rounding.rounds()) {
    Tape tape(model.parameters());
    const Var exact = model.logits(tape, tokens, 1);
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      const std::size_t row = static_cast<std::size_t>(given) - 1 + i;
      steps[i]["divergence"] =
          row_divergence(exact.value().subspan(row * width, width), rounded[i]);
    }
  }
  return {{"text", vocabulary.decode(answer)},
          {"steps", steps},
          {"cache", cache_layers(cache_of(model.plan()), rounding)}};
}

}  // namespace headcount::page
