#include "train/show/fields.h"

#include <algorithm>

namespace headcount {

using Json = nlohmann::ordered_json;

Json columns_of(const Json& rows, ColumnNames names) {
  Json columns = Json::object();
  for (const auto& [all, one] : names) {
    const char* const key = one;
    const auto has = [&](const Json& row) { return row.contains(key); };
    Json& column = columns[all] = Json::array();
    if (std::ranges::none_of(rows, has)) continue;
    for (const Json& row : rows) column.push_back(row.value(key, Json()));
  }
  return columns;
}

Json rows_of(const Json& columns, ColumnNames names) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < columns.at(names.front().first).size(); ++i) {
    Json& row = rows.emplace_back(Json::object());
    for (const auto& [all, one] : names) {
      const auto column = columns.find(all);
      if (column == columns.end() || column->empty() || column->at(i).is_null()) continue;
      row[one] = column->at(i);
    }
  }
  return rows;
}

}  // namespace headcount
