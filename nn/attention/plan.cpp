#include "nn/attention/plan.h"

#include <array>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

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
    throw ShapeError("'", text,
                     "' is not inv-sqrt, none, qk-norm, row-norm, length or a positive number");
  }
  return {Kind::number, value};
}

CanonPlaces CanonPlaces::parse(std::string_view text) {
  if (text == "off") return {};
  CanonPlaces places;
  for (const char place : std::string_view("ABCD")) {
    if (text.find(place) != std::string_view::npos) places.letters += place;
  }
  // A letter that is no place, or that is there twice, makes the text longer.
  if (text.empty() || text.size() != places.letters.size())
    throw ShapeError("'", text, "' is not off or letters of A, B, C and D, each once");
  return places;
}

std::string ScoreScale::text() const {
  for (const auto& [name_kind, name] : kScaleNames) {
    if (kind == name_kind) return std::string(name);
  }
  return shortest_text(value);
}

AttentionPlan AttentionPlan::sharing(bool shares) const {
  AttentionPlan plan = *this;
  plan.shares_ = shares;
  return plan;
}

}  // namespace headcount
