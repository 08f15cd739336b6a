#include "train/table.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/real.h"
#include "autograd/base/text.h"
#include "train/units.h"

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

// The cells become those of a table in Markdown: one heading, the line below it, the rows.
TextColumn markdown_column(const TextColumn& column, std::size_t headings) {
  TextColumn out{{""}, column.words};
  for (std::size_t i = 0; i < column.cells.size(); ++i) {
    const std::string cell = markdown_cell(column.cells[i]);
    if (i >= headings) {
      out.cells.push_back(cell);
    } else if (!cell.empty()) {
      out.cells.front() += (out.cells.front().empty() ? "" : " ") + cell;
    }
  }
  out.cells.insert(out.cells.begin() + 1, column.words ? "---" : "---:");
  return out;
}

}  // namespace

std::string cell_text(const nlohmann::ordered_json& value, int decimals) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value;
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return number_text(value, value.is_number_float() ? decimals : 0);
}

std::string laid_out(const std::vector<TextColumn>& columns, Format format, std::size_t headings) {
  if (format == Format::markdown) {
    const std::size_t rows = columns.front().cells.size() - headings + 2;
    std::vector<TextColumn> parts = {{std::vector<std::string>(rows, "|"), true}};
    for (const TextColumn& column : columns) {
      parts.push_back(markdown_column(column, headings));
      parts.push_back(parts.front());
    }
    return laid_out(parts);
  }
  std::vector<std::string> lines(columns.front().cells.size());
  for (const TextColumn& column : columns) {
    std::size_t width = column.width;
    for (const std::string& cell : column.cells) width = std::max(width, character_count(cell));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string space(width - character_count(column.cells[i]), ' ');
      if (&column != &columns.front()) lines[i] += "  ";
      lines[i] += column.words ? column.cells[i] + space : space + column.cells[i];
    }
  }
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const std::string_view line : split_text(text, '\n'))
    width = std::max(width, character_count(line));
  return width;
}

std::vector<std::string> lines_from_below(std::string_view text, std::size_t lines) {
  const std::vector<std::string_view> parts = split_text(text, '\n');
  std::vector<std::string> all(lines - parts.size());
  all.insert(all.end(), parts.begin(), parts.end());
  return all;
}

nlohmann::ordered_json json_number(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<Index>(number);
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
  using Json = nlohmann::ordered_json;
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
      return cell.is_string() ? cell.get<std::string>() : cell.is_null() ? "" : cell.dump();
    };
    columns.push_back({key, key, text, value, first.is_string()});
  }
  return format == Format::csv ? csv_table(columns, all) : text_table(columns, all, format);
}

}  // namespace headcount
