#include "autograd/base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/base/text.h"

namespace headcount {

namespace {

using nlohmann::json;

// Numbers of Python that JSON lacks, and strings that stand for them while a text is parsed: each
// as long with its quotation marks, so that errors name the right column, and with a first
// character that no configuration has.
struct PythonNumber {
  std::string_view written, standing_for;
  double value;
};
constexpr PythonNumber kPythonNumbers[] = {
    {"NaN", "\x7f", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "\x7fInfin", std::numeric_limits<double>::infinity()},
    {"-Infinity", "\x7f-Infin", -std::numeric_limits<double>::infinity()}};

std::string in_quotes(const PythonNumber& number) {
  return '"' + std::string(number.standing_for) + '"';
}

// `text` with strings in place of Python's numbers.
std::string with_strings_for_numbers(std::string_view text) {
  std::string changed;
  for (bool in_string = false; !text.empty();) {
    const auto begins = [&](const PythonNumber& one) { return text.starts_with(one.written); };
    const auto found =
        in_string ? std::end(kPythonNumbers) : std::ranges::find_if(kPythonNumbers, begins);
    if (found != std::end(kPythonNumbers)) {
      changed += in_quotes(*found);
      text.remove_prefix(found->written.size());
      continue;
    }
    const std::size_t taken = in_string && text.front() == '\\' ? 2 : 1;
    if (text.front() == '"') in_string = !in_string;
    changed += text.substr(0, taken);
    text.remove_prefix(std::min(taken, text.size()));
  }
  return changed;
}

const PythonNumber* number_for(const json& value) {
  const auto* const text = value.get_ptr<const std::string*>();
  const auto found = std::ranges::find_if(kPythonNumbers, [&](const PythonNumber& one) {
    return text != nullptr && *text == one.standing_for;
  });
  return found == std::end(kPythonNumbers) ? nullptr : found;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, NonFinite numbers) {
  static constexpr int kDeepest = 32;                             // printing a value recurses
  if (const std::size_t nul = text.find('\0'); nul != text.npos)  // the parser would stop there
    throw DataError("not valid JSON: NUL byte at offset {}", nul);
  const auto on_value = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDeepest) throw DataError("not valid JSON: nested more than {} deep", kDeepest);
    if (numbers == NonFinite::allowed && event == json::parse_event_t::value) {
      if (const PythonNumber* const number = number_for(value)) value = number->value;
    }
    return true;
  };
  try {
    return numbers == NonFinite::allowed ? json::parse(with_strings_for_numbers(text), on_value)
                                         : json::parse(text, on_value);
  } catch (const json::exception& error) {
    std::string reason = reason_of(error);
    for (const PythonNumber& one : kPythonNumbers) {
      const std::string stands = printable(in_quotes(one));
      for (std::size_t at = 0; (at = reason.find(stands)) != reason.npos;)
        reason.replace(at, stands.size(), one.written);
    }
    throw DataError("not valid JSON: {}", reason);
  }
}

std::string json_text(const json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  if (!value.is_structured()) return value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string text;
  for (const auto& [key, element] : value.items())
    text += (text.empty() ? "" : ",") + (value.is_object() ? json_text(key) + ":" : "") +
            json_text(element);
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string reason_of(const json::exception& error) {
  std::string_view reason = error.what();  // begins with the number of the error in brackets
  reason.remove_prefix(std::min(reason.find(']') + 1, reason.size()));
  for (const std::string_view opening : {" ", "parse error at "})
    if (reason.starts_with(opening)) reason.remove_prefix(opening.size());
  return shortened(reason);
}

void refuse(const std::string& key, const json& value, const std::string& why) {
  throw DataError("{} is {}, but {}", headcount::quoted(key), shortened(json_text(value)), why);
}

Index whole_number(const json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("{} is missing", headcount::quoted(key));
  // A number that was parsed is unsigned if it can be; others have the type of their C++ value.
  const bool whole = found->is_number_unsigned()
                         ? std::in_range<Index>(found->get<std::uint64_t>())
                         : found->is_number_integer() &&
                               std::in_range<Index>(found->get<std::int64_t>()) &&
                               found->get<Index>() >= 0;
  if (!whole)
    throw DataError("{} must be a whole number, is {}", headcount::quoted(key),
                    shortened(json_text(*found)));
  return found->get<Index>();
}

}  // namespace headcount
