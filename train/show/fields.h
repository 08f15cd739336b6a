#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "train/show/json.h"

/// Structs as JSON: `json_of` writes an object that `read_from` reads back, both by the one list of
/// fields that a struct has as a static function:
///     static void fields(auto& io, auto& s) {
///       io({}, "step", s.step, "val_loss", s.loss);
///     }

namespace headcount {

/// When a field is written, and what its absence means to a reader.
enum class Presence {
  usual,     ///< `{}`: always written; where it is absent or null, its member keeps its value
  required,  ///< always written; a reader throws DataError where it is absent
  known,     ///< written unless it is none or empty, and read as `usual`
};

template <class T>
nlohmann::ordered_json json_of(const T& value);
template <class T>
nlohmann::ordered_json json_of(const std::optional<T>& value);
template <class T>
nlohmann::ordered_json json_of(const std::vector<T>& values);
template <class T>
void read_from(const nlohmann::ordered_json& json, T& value);
template <class T>
void read_from(const nlohmann::ordered_json& json, std::optional<T>& value);
template <class T>
void read_from(const nlohmann::ordered_json& json, std::vector<T>& values);

/// Writes fields, names and members in turn, to an object.
struct FieldWriter {
  nlohmann::ordered_json& object;

  template <class T, class... Rest>
  void operator()(Presence presence, const char* name, const T& member, const Rest&... rest) {
    bool known = true;
    if constexpr (requires { member.has_value(); }) {
      known = member.has_value();
    } else if constexpr (requires { member.empty(); }) {
      known = !member.empty();
    }
    if (presence != Presence::known || known) object[name] = json_of(member);
    if constexpr (sizeof...(rest) > 0) (*this)(presence, rest...);
  }
};
/// Reads fields from an object. Throws DataError that names a field whose value is of another type.
struct FieldReader {
  const nlohmann::ordered_json& object;

  template <class T, class... Rest>
  void operator()(Presence presence, const char* name, T& member, Rest&... rest) {
    const auto found = object.find(name);
    const bool known = found != object.end() && !found->is_null();
    if (!known && presence == Presence::required) throw DataError("'{}' is missing", name);
    try {
      if (known) read_from(*found, member);
    } catch (const nlohmann::json::exception& error) {
      throw DataError("'{}' is {}: {}", name, shortened(json_text(*found)), reason_of(error));
    }
    if constexpr (sizeof...(rest) > 0) (*this)(presence, rest...);
  }
};

template <class T>
nlohmann::ordered_json json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : nlohmann::ordered_json();
}
template <class T>
void read_from(const nlohmann::ordered_json& json, std::optional<T>& value) {
  read_from(json, value.emplace());
}

template <class T>
nlohmann::ordered_json json_of(const std::vector<T>& values) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const T& value : values) all.push_back(json_of(value));
  return all;
}
template <class T>
void read_from(const nlohmann::ordered_json& json, std::vector<T>& values) {
  values.clear();
  for (const auto& element : json.get<nlohmann::ordered_json::array_t>())
    read_from(element, values.emplace_back());
}

template <class T>
nlohmann::ordered_json json_of(const T& value) {
  if constexpr (requires(FieldWriter io) { T::fields(io, value); }) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    FieldWriter io{object};
    T::fields(io, value);
    return object;
  } else {
    return value;
  }
}
template <class T>
void read_from(const nlohmann::ordered_json& json, T& value) {
  if constexpr (requires(FieldReader io) { T::fields(io, value); }) {
    FieldReader io{json};
    T::fields(io, value);
  } else {
    value = json.get<T>();
  }
}

}  // namespace headcount
