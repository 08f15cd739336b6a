#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/kinds_with_scores.h"

/// Settings of attention layers, with values for tests.
namespace headcount {

using Variants = std::map<std::string, std::vector<std::string>>;

/// Values tried for each setting of a layer, the default too. Nothing that is normalised has width
/// 1: a single normalised number is its sign, whose derivative is zero nearly everywhere.
inline const Variants& variants() {
  static const Variants all = {
      {"heads", {"4", "8"}},
      {"head-dim", {"4", "6"}},
      {"kv-heads", {"1", "2", "4"}},
      {"kv-rank", {"4", "6"}},
      {"latents", {"1", "2"}},
      {"latent-scale", {"off", "on"}},
      {"kv-factors", {"1", "3"}},
      {"q-factors", {"1", "2"}},
      {"q-rank", {"0", "2", "5"}},
      {"nope-dim", {"2", "3"}},
      {"rope-dim", {"0", "2", "4"}},
      {"v-dim", {"2", "5"}},
      {"key-dim", {"4", "8"}},
      {"o-groups", {"1", "2", "4"}},
      {"o-rank", {"1", "3"}},
      {"compress", {"1", "2", "3"}},
      {"index-heads", {"1", "3"}},
      {"index-head-dim", {"4", "5"}},
      {"index-topk", {"1", "2", "8"}},
      {"index-block", {"1", "2", "3"}},
      {"index-choice", {"layer", "kv-head"}},
      {"index-loss", {"1", "0"}},
      {"key-heads", {"1", "2", "4"}},
      {"value-heads", {"4", "8"}},
      {"conv-taps", {"1", "2", "6"}},
      {"gate-bias", {"on", "off"}},
      {"gate-lower-bound", {"0", "-0.5", "-5"}},
      {"state-dim", {"3", "6"}},
      {"ssd-groups", {"1", "2"}},
      {"ssd-norm", {"groups", "whole", "none"}},
      {"first-temperature", {"1", "0.5"}},
      {"tie-kv", {"off", "on"}},
      {"qk-norm", {"off", "on"}},
      {"latent-norm", {"on", "off"}},
      {"latent-dim", {"1", "4"}},
      {"window", {"0", "2"}},
      {"score-scale", {"inv-sqrt", "none", "qk-norm", "row-norm", "length", "0.7"}},
      {"score-cap", {"0", "0.5", "20"}},
      {"rope-layout", {"half", "interleaved"}},
      {"rope-theta", {"10000", "20"}},
      {"positions", {"rope", "none"}},
      {"bias", {"off", "on"}},
      {"dropout", {"0", "0.3"}},
      {"causal", {"on", "off"}},
      {"gate", {"off", "on"}},
      {"output-projection", {"on", "off"}},
      {"sinks", {"off", "on"}},
      {"value-residual", {"0", "0.3"}},
      {"canon", {"off", "B", "ABCD"}},
      {"canon-taps", {"1", "2", "6"}},
      {"padding", {"none", "holes", "sequence"}},
  };
  return all;
}

/// Returns true if `setting` belongs to another attention, or to one that is not here.
inline bool foreign(const std::string& setting, const AttentionKind& kind) {
  if (kind.needs_causal && (setting == "causal" || setting == "padding")) return true;
  constexpr std::array kOfScores = {"window", "score-scale", "score-cap", "sinks"};
  if (!kind.attends && std::ranges::find(kOfScores, setting) != kOfScores.end()) return true;
  if (setting == "value-residual" && !values_to_mix(default_plan(kind))) return true;
  if (setting == "qk-norm" && !kind.no_qk_norm.empty()) return true;
  if (setting.starts_with("canon") && !convolves(kind)) return true;
  constexpr std::array kOfModels = {"positions", "bias", "dropout", "causal", "padding"};
  if (std::ranges::find(kOfModels, setting) != kOfModels.end()) return false;
  const Setting* const known = find_setting(attention_settings(), setting);
  return known == nullptr || !known->is_for(kind.name);
}

/// Sets back what other settings exclude: row-norm keeps scores below any cap, one row for key and
/// value has no values of its own to mix, and KV heads share out the heads of an indexer.
inline void reconcile(Given& given) {
  if (given.text("score-scale") == "row-norm") given.put("score-cap", 0);
  if (given.on("tie-kv")) {
    given.put("value-residual", 0);
    given.erase("key-dim");
  }
  if (given.has("index-choice") && given.has("index-heads") && given.has("kv-heads") &&
      given.whole("index-heads") % given.whole("kv-heads") != 0)
    given.put("index-choice", "layer");
}

/// The settings that the kind has.
inline const Variants& variants(const AttentionKind& kind) {
  static std::map<std::string_view, Variants> of_kinds;
  const auto [own, is_new] = of_kinds.try_emplace(kind.name, variants());
  if (is_new)
    std::erase_if(own->second, [&](const auto& variant) { return foreign(variant.first, kind); });
  return own->second;
}

}  // namespace headcount
