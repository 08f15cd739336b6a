#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/compare/comparison.h"

/// Formatting of numbers and of text from elsewhere in the results of a comparison.

namespace headcount {

/// Medium that results are written for: a terminal gets ASCII and short headings, a page
/// typographic signs and longer ones.
enum class Reader { terminal, page };

/// `text` for HTML or XML, inside elements and quoted attributes: & < > " ' as entities, bytes that
/// are not UTF-8 and control characters as U+FFFD.
std::string xml_escaped(std::string_view text);

/// `value` with so many decimals, a comma between thousands and a proper minus sign: "1,234.5". A
/// dash if it is not finite.
std::string number_text(double value, int decimals = 0);

/// `value` as number_text, with its sign: "+0.0012" or "−0.0012"; zero has none.
std::string signed_text(double value, int decimals);

/// Half width of the interval, " ± 0.0012", with no-break spaces; empty without an interval. A
/// nonzero half width that rounds to zero is written "<0.0001".
std::string half_width_text(const Estimate& estimate, int decimals, double unit = 1);

/// "0.2449 ± 0.0012", both times `unit`.
std::string estimate_text(const Estimate& estimate, int decimals, double unit = 1);

/// "512 B", "1 KiB", "1.5 MiB".
std::string bytes_text(double bytes);

/// "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& words);

}  // namespace headcount
