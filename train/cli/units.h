#pragma once

#include <string>
#include <string_view>

/// Numbers with units, as `cost` shows and reads them.
namespace headcount {

/// A number with a unit of thousands: up to 99,999 as it is, then four digits: "12.58 M".
std::string decimal_text(double value);
/// A number of bytes with a binary unit: "512 B", "80 KiB", "1.5 GiB".
std::string binary_text(double bytes);
/// Reads bytes with a unit, "24GiB", "80 GB" or "65536"; throws SettingError that names `setting`.
double bytes_named(std::string_view setting, std::string_view text);

}  // namespace headcount
