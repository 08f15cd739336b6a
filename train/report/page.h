#pragma once

#include <string>
#include <vector>

#include "train/table.h"

/// Frame of a report: one self-contained HTML file that loads nothing. Styles and charts are
/// inline; there are no scripts. Apart from its doctype it is well-formed XML, too.

namespace headcount {

/// Count with its noun: "1 seed", "1,024 tokens".
std::string plural(std::size_t count, const std::string& word);

/// <tag>content</tag>, with `content` escaped.
std::string element(const std::string& tag, const std::string& content);

/// An <svg> element with its caption, which is escaped.
std::string figure(const std::string& svg, const std::string& caption);

/// Table that scrolls by itself if it is wider than the page. The first cell of each column is its
/// heading; the first column has the row headings. `label` is for screen readers, `note` stands
/// below the table, `bold` marks rows with a bold heading. All texts are escaped.
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

/// HTML page with `title`, which is escaped, and the HTML `body` in its <main>.
std::string page(const std::string& title, const std::string& body);

}  // namespace headcount
