#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/attention/kind.h"

/// The attention of a model's layers as text.

namespace headcount {

inline constexpr const char* kDefaultAttention = "mha";

/// The attention of one layer in one word: the name of a kind, then the numbers that it takes,
/// joined by +; the width of heads after x; any other of its settings after : by name; the window
/// after @. mha, gqa2 (2 KV heads), mla48+16 (latent rank 48, rotary 16), gqa2x32, mqa@64,
/// gqa2x32:tie-kv=on:gate=on@64. Or "share", for a layer that reads what the nearest earlier layer
/// kept, with its window and widths.
struct LayerSpec {
  std::string text;                                           ///< in its shortest form
  const AttentionKind* kind = nullptr;                        ///< null: share
  std::vector<std::pair<std::string, std::string>> settings;  ///< that the word gives, with values

  bool shares() const { return kind == nullptr; }
  bool gives(std::string_view setting) const;
  bool operator==(const LayerSpec& other) const { return text == other.text; }
};

/// The attentions that layers go through again and again, separated by /; N* repeats one.
/// "mqa/share" is cross-layer attention, "5*gqa2@64/gqa2" has five local layers before each global
/// one.
struct AttentionSpec {
  std::string text;              ///< as it was given
  std::vector<LayerSpec> cycle;  ///< one if all layers are alike; the first does not share
};

/// How words are put together, for help and errors.
inline constexpr std::string_view kSpecGrammar =
    "parts between / take turns, N*PART repeats one, PARTxN has heads N wide, PART:NAME=VALUE has "
    "a setting of its own, PART@N a window of N, share reads what the nearest earlier layer kept";

/// "5*gqa2@64/gqa2".
std::string text_of(std::span<const LayerSpec> cycle);

/// `text` as part of the name of a file, for people to read: "5xgqa2@64_gqa2".
std::string file_name_of(std::string_view spec);

/// `spec` without the windows of its parts.
std::string without_windows(std::string_view spec);

/// The settings that `attention` stands for: its kind and the numbers of its word, where all layers
/// are alike; otherwise itself, in its shortest form. Throws SettingError.
std::vector<std::pair<std::string, std::string>> settings_in_attention(std::string_view text);

/// The attention that is given, where all layers are alike as a word with the numbers that are
/// given: "gqa2".
std::string spec_of(const Given& given);

/// Throws SettingError that names the part, and for what is no attention lists the known ones with
/// examples.
AttentionSpec parse_attention_spec(std::string_view text);

/// Of a list with commas; at least one, none twice. Throws SettingError.
std::vector<AttentionSpec> parse_attention_specs(std::string_view list);

}  // namespace headcount
