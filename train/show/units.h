#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/show/statistics.h"

/// Numbers, with units and intervals, as commands show and read them, in ASCII.
namespace headcount {

/// `value` with this number of decimals; zero has no sign: "1234.5".
std::string number_text(double value, int decimals = 0);
/// `value` with its sign: "+0.0012" or "-0.0012".
std::string signed_text(double value, int decimals);
/// Half width of the interval times `unit`, " +- 0.0012"; empty without an interval.
std::string half_width_text(const Estimate& estimate, int decimals, double unit = 1);
/// Mean and half width of the interval, both times `unit`: "0.2449 +- 0.0012".
std::string estimate_text(const Estimate& estimate, int decimals, double unit = 1);
/// List of words in a sentence: "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& words);

/// A number with a unit of thousands: up to 99,999 as it is, then four digits: "12.58 M".
std::string decimal_text(double value);
/// A number with commas, and two decimals if it is not whole: "98,304".
std::string thousands_text(double value);
/// A number of bytes with a binary unit: "512 B", "80 KiB", "1.5 GiB".
std::string binary_text(double bytes);
/// A duration: "41s", "4m10s", "2h05m".
std::string duration_text(double seconds);
/// A count and its noun: "1 layer", "32 layers".
std::string counted(std::int64_t count, const std::string& noun);
/// A number of bytes or others with at most one decimal: "304", "14.2".
std::string tenths_text(double number);
/// Reads bytes of memory with their unit, "24GiB", "80 GB" or "65536 B", or a card, "h100", in
/// any case; throws SettingError that names `memory` and the cards.
double memory_named(std::string_view text);

}  // namespace headcount
