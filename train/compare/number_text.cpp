#include "train/compare/number_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"

namespace headcount {

std::string number_text(double value, int decimals) {
  const std::string text = formatted("%.*f", decimals, std::abs(value));
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (std::signbit(value) && !zero ? "-" : "") + text;
}

std::string signed_text(double value, int decimals) {
  const std::string text = number_text(value, decimals);
  return (text.starts_with('-') ? "" : "+") + text;
}

std::string half_width_text(const Estimate& estimate, int decimals, double unit) {
  return estimate.half_width ? " +- " + number_text(unit * *estimate.half_width, decimals) : "";
}

std::string estimate_text(const Estimate& estimate, int decimals, double unit) {
  return number_text(unit * estimate.mean, decimals) + half_width_text(estimate, decimals, unit);
}

std::string cell_text(const nlohmann::ordered_json& value, int decimals) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return number_text(value, value.is_number_float() ? decimals : 0);
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
