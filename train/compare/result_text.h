#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/compare/comparison.h"

/// Numbers and foreign text as the results of a comparison are written.

namespace headcount {

/// Who reads numbers: a terminal gets ASCII and short headings, a page the rest.
enum class Reader { terminal, page };

/// `text` for HTML or XML, inside elements and quoted attributes: & < > " ' as entities, bytes that
/// are not UTF-8 and control characters as U+FFFD.
std::string xml_escaped(std::string_view text);

/// `value` with this many decimals, its thousands apart and a proper minus sign: "1,234.5". A dash
/// for what is not finite.
std::string number_text(double value, int decimals = 0);

/// The same with its sign, "+0.0012" or "−0.0012"; zero has none.
std::string signed_text(double value, int decimals);

/// " ± 0.0012", with spaces that do not break lines; nothing without an interval. What rounds to
/// zero and is not is "<0.0001".
std::string half_width_text(const Estimate& estimate, int decimals, double unit = 1);

/// "0.2449 ± 0.0012", both times `unit`.
std::string estimate_text(const Estimate& estimate, int decimals, double unit = 1);

/// "512 B", "1 KiB", "1.5 MiB".
std::string bytes_text(double bytes);

/// "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& words);

}  // namespace headcount
