#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/statistics.h"

/// Text of numbers, intervals and lists in tables and sentences, in ASCII.

namespace headcount {

/// `value` with this number of decimals; zero has no sign: "1234.5".
std::string number_text(double value, int decimals = 0);

/// `value` with its sign: "+0.0012" or "-0.0012".
std::string signed_text(double value, int decimals);

/// Half width of the interval times `unit`, " +- 0.0012"; empty without an interval.
std::string half_width_text(const Estimate& estimate, int decimals, double unit = 1);

/// Mean and half width of the interval, both times `unit`: "0.2449 +- 0.0012".
std::string estimate_text(const Estimate& estimate, int decimals, double unit = 1);

/// A value as a cell of a table: null as a dash, booleans as yes or no, fractions with this number
/// of decimals.
std::string cell_text(const nlohmann::ordered_json& value, int decimals);

/// List of words in a sentence: "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& words);

}  // namespace headcount
