#pragma once

#include <stdexcept>

namespace headcount {

/// Base of every error that the library throws on purpose. `what()` is one line: what is wrong,
/// where, and what to do. Names of settings are between backquotes, as in `kv-heads`; the command
/// line shows them as flags.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
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

/// A NaN or an infinity that the debug trap found; names the op, its shapes and the element.
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
