#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/show/json.h"

/// Tables of a command's results: as text for people, as CSV and JSON for programs. A row is an
/// object of any type; columns say what is shown of it.

namespace headcount {

/// How results are printed: as text for people, also as Markdown, or for programs.
enum class Format { text, json, csv, markdown };

template <class Row>
struct Column {
  std::string heading;                                      ///< for people; "\n" between its lines
  std::string key;                                          ///< for programs
  std::function<std::string(const Row&)> text;              ///< null: cell_text of the value
  std::function<nlohmann::ordered_json(const Row&)> value;  ///< null if there is none
  bool words = false;                                       ///< left-aligned text, not numbers
  std::size_t width = 0;  ///< least width of the text, so that tables of several calls look alike
  int decimals = 0;       ///< of fractions in cell_text
};

/// A value as a cell of a table: null as a dash, booleans as yes or no, fractions with this number
/// of decimals.
std::string cell_text(const nlohmann::ordered_json& value, int decimals);

/// A column of a text table, its rows worded.
struct TextColumn {
  std::string heading, key;
  std::vector<std::string> cells;
  bool words = false;
  std::size_t width = 0;
};

/// The columns with the text of all rows.
template <class Row>
std::vector<TextColumn> worded(const std::vector<Column<Row>>& columns,
                               const std::vector<Row>& rows) {
  std::vector<TextColumn> all;
  for (const auto& column : columns) {
    TextColumn& text =
        all.emplace_back(TextColumn{column.heading, column.key, {}, column.words, column.width});
    for (const Row& row : rows) {
      text.cells.push_back(column.text ? column.text(row)
                                       : cell_text(column.value(row), column.decimals));
    }
  }
  return all;
}

/// See text_table.
std::string laid_out(std::vector<TextColumn> columns, Format format, std::size_t width,
                     const std::vector<std::string_view>& rare);

/// Line of text in lines of at most `width` characters, where words allow that; all but the first
/// begin with `indent` spaces. A width of 0 leaves it as it is.
std::string wrapped(std::string_view line, std::size_t width, std::size_t indent = 2);

/// A number as JSON, an integer where it is whole: 64 and not 64.0.
nlohmann::ordered_json json_number(double number);
/// A number as JSON; null if there is none.
nlohmann::ordered_json or_null(const std::optional<double>& number);

/// A field of CSV: empty for null, yes or no for booleans, all digits of a number. Text
/// that is not one word is quoted; so is empty text, which differs from null.
std::string csv_field(const nlohmann::ordered_json& value);

/// Text table: headings and one line per row, with columns two spaces apart and no spaces at the
/// ends of lines. As Markdown, which pastes into an issue, if that is the format. Text leaves out
/// as many of the columns `rare`, the first ones first, as exceed `width`, which 0 does not limit;
/// a line below names them, and --wide, which shows all.
template <class Row>
std::string text_table(const std::vector<Column<Row>>& columns, const std::vector<Row>& rows,
                       Format format = Format::text, std::size_t width = 0,
                       const std::vector<std::string_view>& rare = {}) {
  return laid_out(worded(columns, rows), format, width, rare);
}

/// CSV (RFC 4180, but lines end as everywhere on Unix): the keys, then one line per row.
template <class Row>
std::string csv_table(const std::vector<Column<Row>>& columns, const std::vector<Row>& rows) {
  std::string text;
  const auto add_line = [&](const auto& field) {
    for (const auto& column : columns)
      text += (&column == &columns.front() ? "" : ",") + field(column);
    text += '\n';
  };
  add_line([](const auto& column) { return column.key; });
  for (const Row& row : rows)
    add_line([&](const auto& column) { return csv_field(column.value(row)); });
  return text;
}

/// JSON array with one object per row, key to value: a nlohmann::ordered_json, whose header callers
/// include.
template <class Row>
auto json_rows(const std::vector<Column<Row>>& columns, const std::vector<Row>& rows) {
  using Value = decltype(columns.front().value(rows.front()));
  Value all = Value::array();
  for (const Row& row : rows) {
    Value object = Value::object();
    for (const auto& column : columns) object[column.key] = column.value(row);
    all.push_back(std::move(object));
  }
  return all;
}

/// Table of a JSON array of objects that have the same keys, in CSV, or else as text_table; of one
/// object, a row of CSV, or else a line for each of its keys.
std::string data_table(const nlohmann::ordered_json& rows, Format format);

}  // namespace headcount
