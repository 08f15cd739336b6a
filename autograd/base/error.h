#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

namespace headcount {

/// The text of `parts`, one after the other: texts, numbers, and what has a text().
template <class... Parts>
std::string message_of(const Parts&... parts) {
  std::string text;
  const auto add = [&]<class Part>(const Part& part) {
    if constexpr (std::is_arithmetic_v<Part> && !std::is_same_v<Part, char>) {
      text += std::to_string(part);
    } else if constexpr (requires { part.text(); }) {
      text += part.text();
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

/// Base of every error that the library throws on purpose. `what()` is one line: what is wrong,
/// where, and what to do. Names of settings are between backquotes, as in `kv-heads`; the command
/// line shows them as flags.
class Error : public std::runtime_error {
 public:
  /// See message_of.
  template <class... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(message_of(parts...)) {}
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

}  // namespace headcount
