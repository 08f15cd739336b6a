#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "train/compare/comparison.h"

/// Text of numbers, intervals and lists for a reader of results.

namespace headcount {

/// Medium that results are written for: a terminal gets ASCII and short headings, a page
/// typographic signs and longer headings.
enum class Reader { terminal, page };

/// `text` for HTML or XML, inside elements and quoted attributes: & < > " ' as entities; bytes that
/// are not UTF-8, and control characters, as U+FFFD.
std::string xml_escaped(std::string_view text);

/// `value` with this number of decimals; on a page a comma between thousands and a minus sign, and
/// a dash for a value that is not finite: "1,234.5".
std::string number_text(double value, int decimals = 0, Reader reader = Reader::page);

/// A count on a page: "1,024".
std::string count_text(Index count);

/// `value` with its sign: "+0.0012" or "−0.0012". On a page, zero has no sign.
std::string signed_text(double value, int decimals, Reader reader = Reader::page);

/// Half width of the interval times `unit`, " ± 0.0012" or " +- 0.0012"; empty without an interval.
/// On a page, a nonzero half width that rounds to zero is written "<0.0001".
std::string half_width_text(const Estimate& estimate, int decimals, double unit = 1,
                            Reader reader = Reader::page);

/// Mean and half width of the interval, both times `unit`: "0.2449 ± 0.0012".
std::string estimate_text(const Estimate& estimate, int decimals, double unit = 1,
                          Reader reader = Reader::page);

/// A value as a cell of a table: null as a dash, booleans as yes or no, fractions with this number
/// of decimals.
std::string cell_text(const nlohmann::ordered_json& value, int decimals, Reader reader);

/// Number of bytes with a binary unit: "512 B", "1 KiB", "1.5 MiB".
std::string bytes_text(double bytes);

/// List of words in a sentence: "a", "a and b", "a, b and c".
std::string list_text(const std::vector<std::string>& words);

}  // namespace headcount
