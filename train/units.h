#pragma once

#include <string>
#include <string_view>

#include "autograd/base/real.h"

/// Numbers with units, as commands show and read them.
namespace headcount {

/// A number with a unit of thousands: up to 99,999 as it is, then four digits: "12.58 M".
std::string decimal_text(double value);
/// A number of bytes with a binary unit: "512 B", "80 KiB", "1.5 GiB".
std::string binary_text(double bytes);
/// A duration: "41s", "4m10s", "2h05m".
std::string duration_text(double seconds);
/// A count and its noun: "1 layer", "32 layers".
std::string counted(Index count, const std::string& noun);
/// Reads bytes with a unit, "24GiB", "80 GB" or "65536"; throws SettingError that names `setting`.
double bytes_named(std::string_view setting, std::string_view text);

}  // namespace headcount
