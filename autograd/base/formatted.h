#pragma once

#include <string>

namespace headcount {

/// The text that std::printf prints. The compiler checks the values against the format.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace headcount
