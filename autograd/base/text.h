#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// Texts of one line: quoting, joining, splitting, numbers.
namespace headcount {

/// `text` between quotation marks, on one line: control characters as numbers.
std::string quoted(std::string_view text);

/// `text` quoted as one word of a POSIX shell's command line, whatever bytes it has.
std::string shell_word(std::string_view text);

/// The names of `items` with commas between them.
template <class Items, class Name = std::identity>
std::string joined(const Items& items, Name name = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::invoke(name, item);
  }
  return text;
}

/// The parts of `text` between separators: at least one, any of them may be empty.
std::vector<std::string_view> split_text(std::string_view text, char separator);

/// The whole of `text` as a number; invalid_argument if it is none, result_out_of_range if it is
/// too large. Not every standard library has std::from_chars for it.
std::errc parse_number(std::string_view text, double& number);

}  // namespace headcount
