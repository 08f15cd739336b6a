#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headcount {

/// The word of `known` with the least edit distance from `word`, counting letters inserted,
/// removed, replaced or swapped with their neighbour. Empty if none differs in at most one letter
/// of three.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// End of an error about `word`: "; did you mean --attention?". Empty if no known word is near.
std::string suggestion(std::string_view word, std::span<const std::string> known,
                       const std::string& prefix = "");

}  // namespace headcount
