#pragma once

#include <string>
#include <vector>

#include "train/table.h"

/// The frame of a report: one HTML file that needs nothing beside it and loads nothing. Styles and
/// charts are inline, scripts there are none. Well-formed as XML too, but for its doctype.

namespace headcount {

/// "1 seed", "1,024 tokens".
std::string plural(std::size_t count, const std::string& word);

/// <tag>content</tag>, with `content` escaped.
std::string element(const std::string& tag, const std::string& content);

/// A drawing, an <svg> element, with its caption, which is escaped.
std::string figure(const std::string& svg, const std::string& caption);

/// A table that scrolls by itself where it is wider than its place. Columns have their heading as
/// the first of their cells, and the first column heads the rows. `label` is for screen readers,
/// `note` stands below, `bold` says which rows have a bold head. All texts are escaped.
std::string html_table(const std::vector<TextColumn>& columns, const std::string& label,
                       const std::string& note, const std::vector<bool>& bold = {});

/// Columns of `rows` for html_table.
template <class Row>
std::vector<TextColumn> cells_of(const std::vector<Column<Row>>& columns,
                                 const std::vector<Row>& rows) {
  std::vector<TextColumn> all;
  for (const Column<Row>& column : columns) {
    TextColumn& text = all.emplace_back(TextColumn{{column.heading}, column.words});
    for (const Row& row : rows) text.cells.push_back(column.text(row));
  }
  return all;
}

/// The page with this title, which is escaped, and this HTML in its <main>.
std::string page(const std::string& title, const std::string& body);

}  // namespace headcount
