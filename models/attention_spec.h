#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/config.h"

namespace headcount {

/// An attention with its size in one word, for lists: the name of a kind, then the numbers that it
/// takes, joined by +: mha, gqa2 (2 KV heads), mla48+16 (latent rank 48, rotary 16), latent-bias8.
struct AttentionSpec {
  std::string text;
  const AttentionKind* kind = nullptr;
  std::vector<std::pair<std::string, std::string>> numbers;  ///< setting, value

  /// Sets the kind and the numbers in `config`. Throws SettingError.
  void apply(ModelConfig& config) const;
};

/// Throws SettingError that lists the known attentions with examples.
AttentionSpec parse_attention_spec(std::string_view text);

/// Of a list with commas; at least one, none twice. Throws SettingError.
std::vector<AttentionSpec> parse_attention_specs(std::string_view list);

}  // namespace headcount
