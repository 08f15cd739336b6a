#include "autograd/base/json.h"

#include <algorithm>
#include <limits>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>

namespace headcount {

std::errc parse_number(std::string_view text, double& number) {
  if (text == "inf" || text == "-inf") return std::errc::result_out_of_range;
  if (text.starts_with('+') || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::errc::invalid_argument;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  stream >> number;
  if (!stream.eof()) return std::errc::invalid_argument;
  if (!stream.fail()) return {};
  // A stream leaves 0 of what is no number, and the largest number of what is too large.
  return number == 0 ? std::errc::invalid_argument : std::errc::result_out_of_range;
}

nlohmann::json parse_json(std::string_view text) {
  constexpr int kDeepest = 32;  // printing a value recurses
  const auto refuse_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest)
      throw DataError("not valid JSON: nested more than " + std::to_string(kDeepest) + " deep");
    return true;
  };
  try {
    return nlohmann::json::parse(text, refuse_depth);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("not valid JSON: " + std::string(error.what()));
  }
}

void refuse(const std::string& key, const nlohmann::json& value, const std::string& why) {
  throw DataError("'" + key + "' is " + value.dump() + ", but " + why);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      result += c;
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      result += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
    }
  }
  return result + "'";
}

Index whole_number(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("'" + key + "' is missing");
  // Numbers that were parsed are unsigned where they can be, others are as they were put there.
  const bool whole =
      found->is_number_unsigned()
          ? found->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<Index>::max()}
          : found->is_number_integer() && found->get<Index>() >= 0;
  if (!whole) throw DataError("'" + key + "' must be a whole number, is " + found->dump());
  return found->get<Index>();
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace headcount
