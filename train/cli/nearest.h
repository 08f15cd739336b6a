#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headcount {

/// The one of `known` that somebody who typed `word` may have meant: with the fewest letters
/// inserted, removed, replaced or swapped with their neighbour, at most one in three. Empty where
/// none is as near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "; did you mean --attention?", the end of an error about `word`; empty where nothing is near.
std::string suggestion(std::string_view word, std::span<const std::string> known,
                       const std::string& prefix = "");

}  // namespace headcount
