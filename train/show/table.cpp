#include "train/show/table.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// A cell of Markdown: its characters stand for themselves.
std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (std::string_view("\\|*_`<[").find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

std::string in_one_line(std::string_view heading) {
  std::string line;
  for (const char c : heading) {
    if (c != '\n')
      line += c;
    else if (!line.ends_with('/'))
      line += ' ';
  }
  return line;
}

std::string side_by_side(const std::vector<TextColumn>& columns) {
  std::size_t headings = 0;  // lines
  for (const TextColumn& column : columns)
    headings = std::max(headings, split_text(column.heading, '\n').size());
  std::vector<std::string> lines(headings + columns.front().cells.size());
  for (const TextColumn& column : columns) {
    const std::vector<std::string_view> heading = split_text(column.heading, '\n');
    std::vector<std::string> cells(headings - heading.size());
    cells.insert(cells.end(), heading.begin(), heading.end());
    cells.insert(cells.end(), column.cells.begin(), column.cells.end());
    std::size_t width = column.width;
    for (const std::string& cell : cells) width = std::max(width, character_count(cell));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string space(width - character_count(cells[i]), ' ');
      if (&column != &columns.front()) lines[i] += "  ";
      lines[i] += column.words ? cells[i] + space : space + cells[i];
    }
  }
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

// The columns between bars, whose first row is the line below the headings.
std::string markdown(const std::vector<TextColumn>& columns) {
  const std::size_t rows = columns.front().cells.size();
  std::vector<TextColumn> parts = {{"|", "", std::vector<std::string>(rows + 1, "|"), true}};
  for (const TextColumn& column : columns) {
    TextColumn part{markdown_cell(in_one_line(column.heading)), "", {}, column.words};
    part.cells.push_back(column.words ? "---" : "---:");
    for (const std::string& cell : column.cells) part.cells.push_back(markdown_cell(cell));
    parts.push_back(std::move(part));
    parts.push_back(parts.front());
  }
  return side_by_side(parts);
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const std::string_view line : split_text(text, '\n'))
    width = std::max(width, character_count(line));
  return width;
}

}  // namespace

std::string cell_text(const nlohmann::ordered_json& value, int decimals) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return number_text(value, value.is_number_float() ? decimals : 0);
}

std::string laid_out(std::vector<TextColumn> columns, Format format, std::size_t width,
                     const std::vector<std::string_view>& rare) {
  if (format == Format::markdown) return markdown(columns);
  std::string text = side_by_side(columns), left_out;
  for (const std::string_view key : rare) {
    const auto column = std::ranges::find(columns, key, &TextColumn::key);
    if (width == 0 || column == columns.end() || width_of(text) <= width) continue;
    left_out += (left_out.empty() ? "left out, see --wide: " : "; ") + in_one_line(column->heading);
    columns.erase(column);
    text = side_by_side(columns);
  }
  return left_out.empty() ? text : text + wrapped(left_out, width) + "\n";
}

std::string wrapped(std::string_view line, std::size_t width, std::size_t indent) {
  std::string text;
  std::size_t column = 0;
  const std::vector<std::string_view> words = split_text(line, ' ');
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t length = character_count(word);
    const bool before_unit = i + 1 < words.size() && words[i + 1].starts_with('%');
    const std::size_t needs = length + (before_unit ? 1 + words[i + 1].size() : 0);
    const bool fits = width == 0 || word.starts_with('%') || column + 1 + needs <= width;
    if (i > 0) text += fits ? " " : "\n" + std::string(indent, ' ');
    column = (i == 0 ? 0 : fits ? column + 1 : indent) + length;
    text += word;
  }
  return text;
}

nlohmann::ordered_json json_number(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15)
    return static_cast<std::int64_t>(number);
  return number;
}

nlohmann::ordered_json or_null(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

std::string csv_field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return shortest_text(value.get<double>() + 0.0);  // no "-0"
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (!text.empty() && text.find_first_of(" ,\"\r\n") == std::string::npos) return text;
  for (auto at = text.find('"'); at != std::string::npos; at = text.find('"', at + 2))
    text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

std::string data_table(const nlohmann::ordered_json& rows, Format format) {
  std::vector<Json> all;
  if (rows.is_array()) {
    all.assign(rows.begin(), rows.end());
  } else if (format == Format::csv) {
    all = {rows};
  } else {
    for (const auto& [key, value] : rows.items()) all.push_back({{"name", key}, {"value", value}});
  }
  if (all.empty()) return "";
  std::vector<Column<Json>> columns;
  for (const auto& [key, first] : all.front().items()) {
    const auto value = [key = key](const Json& row) { return row.value(key, Json()); };
    const auto text = [value](const Json& row) {
      const Json cell = value(row);
      if (cell.is_number_float()) return formatted("%.6g", cell.get<double>());
      return cell.is_string() ? cell.get<std::string>() : cell.is_null() ? "" : cell.dump();
    };
    columns.push_back({key, key, text, value, first.is_string()});
  }
  return format == Format::csv ? csv_table(columns, all) : text_table(columns, all, format);
}

}  // namespace headcount
