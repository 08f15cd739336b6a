#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"

namespace headcount {

/// Named kinds, such as attentions: the library's, in the order of help, then the program's.
template <class Kind>
class Registry {
 public:
  Registry(std::initializer_list<const Kind*> declared) : all_(declared) {}

  /// Adds a kind, which must live as long as the registry. Throws ShapeError if its name is taken.
  void add(const Kind& kind) {
    if (find(kind.name)) throw ShapeError("two kinds are named '{}'", kind.name);
    all_.push_back(&kind);
  }
  /// Kind of that name, or null.
  const Kind* find(std::string_view name) const {
    const auto found = std::ranges::find(all_, name, &Kind::name);
    return found == all_.end() ? nullptr : *found;
  }
  std::span<const Kind* const> all() const { return all_; }

 private:
  std::vector<const Kind*> all_;
};

}  // namespace headcount
