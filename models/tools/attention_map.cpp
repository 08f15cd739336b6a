#include "models/tools/attention_map.h"

#include <cmath>

namespace headcount {

std::span<const Real> HeadMap::row(Index token) const {
  return std::span(weights).subspan(token * length, length);
}

double HeadMap::entropy(Index token) const {
  double sum = 0, rest = 1;
  const auto add = [&](double p) {
    if (p > 0) sum -= p * std::log(p);
  };
  for (const auto weight : row(token)) {
    add(static_cast<double>(weight));
    rest -= static_cast<double>(weight);
  }
  if (sinks) add(rest);
  return sum;
}

std::vector<std::vector<HeadMap>> attention_maps(const LanguageModel& model,
                                                 std::span<const std::int32_t> tokens,
                                                 const std::optional<CacheRounding>& rounding) {
  std::vector<AttentionStats> stats(model.plan()->layers);
  for (AttentionStats& layer : stats) layer.keeps_weights = true;
  Tape tape(model.parameters());
  const Index length = std::ssize(tokens);
  if (rounding) {
    std::vector<LayerCache> caches =
        make_caches(model.plan(), {.capacity = length, .rounding = *rounding});
    model.decode(tape, tokens, 1, caches, stats);
  } else {
    model.logits(tape, tokens, 1, stats);
  }
  std::vector<std::vector<HeadMap>> maps;
  for (Index layer = 0; layer < model.plan()->layers; ++layer) {
    const bool sinks = model.plan()->layer_attention(layer).sinks;
    const std::vector<Real>& weights = stats[layer].weights;
    std::vector<HeadMap>& heads = maps.emplace_back();
    for (auto head = weights.begin(); head != weights.end(); head += length * length)
      heads.push_back({length, {head, head + length * length}, sinks});
  }
  return maps;
}

}  // namespace headcount
