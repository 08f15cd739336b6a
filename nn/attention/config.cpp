#include "nn/attention/config.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "nn/attention/kind.h"

namespace headcount {

namespace {

constexpr std::array<std::pair<ScoreScale::Kind, std::string_view>, 5> kScaleNames = {{
    {ScoreScale::Kind::inverse_sqrt, "inv-sqrt"},
    {ScoreScale::Kind::none, "none"},
    {ScoreScale::Kind::qk_norm, "qk-norm"},
    {ScoreScale::Kind::row_norm, "row-norm"},
    {ScoreScale::Kind::length, "length"},
}};

}  // namespace

ScoreScale ScoreScale::parse(std::string_view text) {
  for (const auto& [kind, name] : kScaleNames) {
    if (text == name) return {kind, 1};
  }
  double value = 0;
  if (parse_number(text, value) != std::errc{} || value <= 0) {
    throw ShapeError("'" + std::string(text) +
                     "' is not inv-sqrt, none, qk-norm, row-norm, length or a positive number");
  }
  return {Kind::number, value};
}

std::string ScoreScale::text() const {
  for (const auto& [name_kind, name] : kScaleNames) {
    if (kind == name_kind) return std::string(name);
  }
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

// Makes every kind's own settings, so that reading a configuration never adds to it.
AttentionConfig::AttentionConfig() { settings(); }

Settings AttentionConfig::settings() {
  Settings s;
  s.group("Attention");
  s.integer("heads", "query heads", heads, 1);
  s.integer("head-dim", "width of a head; default dim / heads", head_dim, 1);
  for (const AttentionKind* known : attention_kinds()) {
    if (known->settings == nullptr) continue;
    Settings own_list;
    own_list.group("Attention");
    own_list.only_for(std::string(known->name));
    known->settings(*this, own_list);
    for (const Setting& setting : own_list.all())
      s.add(setting, [this, known] { return kind == known->name; });
  }
  s.on_off("gate", "the heads' outputs are multiplied by sigmoid(gate_proj(x))", gate);
  s.on_off("output-projection", "off: the heads' outputs side by side are the output",
           output_projection);
  s.custom(
      "score-scale", "inv-sqrt, none, qk-norm, row-norm, length or a number",
      [this](std::string_view text) {
        try {
          score_scale = ScoreScale::parse(text);
        } catch (const ShapeError& error) {
          throw SettingError("`score-scale`: " + std::string(error.what()));
        }
      },
      [this] { return nlohmann::json(score_scale.text()); });
  s.token_count("window", "a token sees only this many, itself included; 0: all", window, 0);
  s.choice<std::optional<RotaryLayout>>(
      "rope-layout", "which elements rotate together; default: as the attention's models have it",
      rotary_layout, {{"half", RotaryLayout::half}, {"interleaved", RotaryLayout::interleaved}});
  s.number("rope-theta", "base of the rotary wavelengths", rope_theta, 1);
  return s;
}

Settings AttentionConfig::settings() const {
  return const_cast<AttentionConfig*>(this)->settings().read_only();  // nothing writes through it
}

void require_setting(bool condition, const std::string& message) {
  if (!condition) throw ShapeError(message);
}

}  // namespace headcount
