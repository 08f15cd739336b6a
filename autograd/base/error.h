#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace headcount {

/// A text with {} for each of `Parts`, which the compiler counts: the formats of std::format, which
/// GCC 12 lacks, without options.
template <class... Parts>
struct MessageFormat {
  consteval MessageFormat(const char* format) : text(format) {
    std::size_t places = 0;
    for (std::size_t at = 0; (at = text.find("{}", at)) != text.npos; at += 2) ++places;
    if (places != sizeof...(Parts)) throw "a message has {} for each part";
  }
  std::string_view text;
};

/// The text of `format` with `parts` for each {}: texts, numbers, and what has a text().
template <class... Parts>
std::string message_of(MessageFormat<std::type_identity_t<Parts>...> format,
                       const Parts&... parts) {
  std::string text;
  std::string_view rest = format.text;
  [[maybe_unused]] const auto add = [&]<class Part>(const Part& part) {
    const std::size_t place = rest.find("{}");
    text += rest.substr(0, place);
    rest.remove_prefix(place + 2);
    if constexpr (std::is_arithmetic_v<Part> && !std::is_same_v<Part, char>) {
      text += std::to_string(part);
    } else if constexpr (requires { part.text(); }) {
      text += part.text();
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text.append(rest);
}

/// `text` for a terminal or a page: bytes that are not UTF-8, and characters that move the cursor
/// or turn the direction of writing, as \x00 to \xff. Line breaks stay.
std::string printable(std::string_view text);

/// Base of every error that the library throws on purpose. `what()` is one printable line: what is
/// wrong, where, and what to do. Names of settings are between backquotes, as in `kv-heads`; the
/// command line shows them as flags.
class Error : public std::runtime_error {
 public:
  /// See message_of.
  template <class... Parts>
  explicit Error(MessageFormat<std::type_identity_t<Parts>...> format, const Parts&... parts)
      : std::runtime_error(printable(message_of(format, parts...))) {}
};

/// An impossible shape or setting: heads that do not divide the width, an odd rotary dimension.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A `Var` used after its tape was reset, or with another tape.
class StaleVarError : public Error {
 public:
  using Error::Error;
};

/// A computed number is NaN or infinite, or too large for the type that stores it. The message
/// names it and the likely cause.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// Unusable text, corpus, weights or checkpoint.
class DataError : public Error {
 public:
  using Error::Error;
};

/// What `body` returns; its errors of type Caught become Thrown, after the name of what they are
/// about: "run.json: ...".
template <class Thrown, class Caught = Thrown, class Body>
auto named_error(const std::string& name, const Body& body) {
  try {
    return body();
  } catch (const Caught& error) {
    throw Thrown("{}: {}", name, error.what());
  }
}

}  // namespace headcount
