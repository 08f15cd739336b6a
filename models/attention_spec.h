#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/attention/kind.h"

/// Attention of a model's layers as text.

namespace headcount {

inline constexpr const char* kDefaultAttention = "mha";

/// Attention of one layer in one word: the name of a kind, then
///
///     - the numbers that it takes, joined by +: gqa2 (2 KV heads), mla48+16 (latent rank 48, 16
///       RoPE dimensions);
///     - the width of heads after x: gqa2x32;
///     - any other setting of the kind, by name, after a colon: gqa2x32:tie-kv=on:gate=on;
///     - the window after @: mqa@64.
///
/// Or "share": the layer reads the cache of the nearest earlier layer, with its window and widths;
/// "share@64": of the nearest one with a window of 64 tokens; "share@0": of the nearest without.
/// Gemma 3n shares in this way, by type: its last layers read what the last local or global layer
/// before them cached. "share-index": a layer with a cache of its own that reads the rows which the
/// nearest earlier indexer picked, as in GLM-5.2. "share-pooled": one that reads the pooled rows of
/// the nearest earlier layer that has some, and keys of its indexer; "share-pooled-index": both.
/// DeepSeek-V4.1 has the last two.
struct LayerSpec {
  std::string text;                     ///< shortest form of the word, with ordered settings
  const AttentionKind* kind = nullptr;  ///< null: share
  /// Values of the settings in the word, by name; of share@N the window of the layer that it names.
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  Shared shared = {};

  bool shares() const { return kind == nullptr; }
  bool gives(std::string_view setting) const { return settings.contains(setting); }
  bool operator==(const LayerSpec& other) const { return text == other.text; }
};

/// Cycle of attentions that layers take in turn, separated by /; N* repeats one. "mqa/share" is
/// cross-layer attention, "5*gqa2@64/gqa2" has five local layers before each global one.
struct AttentionSpec {
  std::string text;              ///< the text that was parsed
  std::vector<LayerSpec> cycle;  ///< one layer if all are alike; the first does not share
};

/// Settings of all layers that a pattern of attentions with scores and of recurrent states applies
/// to the former alone: windows, sinks and norms act on scores, and in Qwen3-Next, whose states
/// have a gate of their own, so does the gate. The word of a layer may set them for it.
inline constexpr std::array<const char*, 4> kLeftToScores = {"window", "sinks", "gate", "qk-norm"};

/// Returns true if layers of the cycle have scores.
bool has_scores(std::span<const LayerSpec> cycle);

/// Grammar of specs, for help and errors.
inline constexpr std::string_view kSpecGrammar =
    "layers take the parts between / in turn, N*PART repeats one, PARTxN has N dimensions per "
    "head, PART:NAME=VALUE has a setting of its own, PART@N (after the settings) a window of N "
    "tokens, share reads the KV cache of the nearest earlier layer that has one, share@N of the "
    "nearest with a window of N tokens, share@0 of the nearest without a window, share-index reads "
    "what the nearest earlier indexer picked, share-pooled the nearest pooled rows, "
    "share-pooled-index both";

/// Text of a cycle: "5*gqa2@64/gqa2".
std::string text_of(std::span<const LayerSpec> cycle);

/// Word of a layer: its kind with the numbers that it takes (of a state if they are not its
/// default), and the settings of attentions that are not at their default: "gqa2", "mla16+8",
/// "mqa@16". It leaves out `heads`, `positions`, `canon` and `canon-taps`, which built-in texts set
/// for all layers.
std::string attention_word(const AttentionPlan& layer);

/// Readable part of a file's name for a spec: "5xgqa2@64_gqa2".
std::string file_name_of(std::string_view spec);

/// `spec` without the windows of its parts. Throws SettingError if a part shares by window.
std::string without_windows(std::string_view spec);

/// `spec` with `settings`, which all layers have, in the words of all parts that take them and do
/// not give them: "gqa2/share" with `gate` on is "gqa2:gate=on/share". Throws SettingError.
std::string spec_with(std::string_view spec, const nlohmann::ordered_json& settings);

/// Settings that a value of `attention` stands for: its kind and the settings of its word if all
/// layers are alike; otherwise the value in its shortest form. Throws SettingError.
nlohmann::ordered_json settings_in_attention(std::string_view text);

/// Parses a spec. Throws SettingError that names the part and says how to write it; for an unknown
/// attention it lists the known ones with examples.
AttentionSpec parse_attention_spec(std::string_view text);

/// Parses a list of specs with commas: at least one, none twice. Throws SettingError.
std::vector<AttentionSpec> parse_attention_specs(std::string_view list);

}  // namespace headcount
