#include "train/compare/number_text.h"

#include <utf8.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"

namespace headcount {

namespace {

constexpr std::string_view kUnknown = "–", kMinus = "−", kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : utf8::replace_invalid(text)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) {
      out += kReplacement;
    } else {
      out += c;
    }
  }
  return out;
}

std::string number_text(double value, int decimals, Reader reader) {
  std::string text = formatted("%.*f", decimals, std::abs(value));
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  if (reader == Reader::terminal) return (std::signbit(value) && !zero ? "-" : "") + text;
  if (!std::isfinite(value)) return std::string(kUnknown);
  if (std::abs(value) >= 1e15) text = formatted("%.0f", std::abs(value));
  const std::size_t whole = std::min(text.find('.'), text.size());
  for (std::size_t place = whole; place > 3; place -= 3) text.insert(place - 3, ",");
  return value < 0 && !zero ? std::string(kMinus) + text : text;
}

std::string count_text(Index count) { return number_text(static_cast<double>(count)); }

std::string signed_text(double value, int decimals, Reader reader) {
  const std::string text = number_text(value, decimals, reader);
  if (reader == Reader::terminal) return (text.starts_with('-') ? "" : "+") + text;
  const bool positive = value > 0 && text.find_first_of("123456789") != std::string::npos;
  return positive ? "+" + text : text;
}

std::string half_width_text(const Estimate& estimate, int decimals, double unit, Reader reader) {
  if (!estimate.half_width) return "";
  const double half_width = unit * *estimate.half_width, smallest_shown = std::pow(10, -decimals);
  if (reader == Reader::terminal) return " +- " + number_text(half_width, decimals, reader);
  if (!std::isfinite(half_width)) return "";
  const bool tiny = half_width > 0 && half_width < smallest_shown / 2;
  return std::string("\u00a0±\u00a0") + (tiny ? "<" : "") +
         number_text(tiny ? smallest_shown : half_width, decimals);
}

std::string estimate_text(const Estimate& estimate, int decimals, double unit, Reader reader) {
  return number_text(unit * estimate.mean, decimals, reader) +
         half_width_text(estimate, decimals, unit, reader);
}

std::string cell_text(const nlohmann::ordered_json& value, int decimals, Reader reader) {
  if (value.is_null()) return reader == Reader::page ? std::string(kUnknown) : "-";
  if (value.is_string()) return value;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return number_text(value, value.is_number_float() ? decimals : 0, reader);
}

std::string bytes_text(double bytes) {
  static constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  const double tenths = std::round(bytes * 10) / 10;
  return number_text(tenths, tenths == std::round(tenths) ? 0 : 1) + kUnits[unit];
}

std::string list_text(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace headcount
