#pragma once

#include <string>

#include "autograd/base/error.h"

namespace headcount {

/// Message of the E that `action` throws; `none` if it throws nothing.
template <class E = Error, class Action>
std::string message_of(const Action& action, const char* none = "no error") {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return none;
}

}  // namespace headcount
