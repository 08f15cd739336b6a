// Draws the table that a benchmark prints, as a chart in SVG: one line for each name in the first
// column. Axes are logarithmic, but for losses.
// Usage: decode | chart decode decode.svg
//        growth context | chart context context.svg    (width and threads likewise)
//        time_to_loss.py ... | chart loss loss.svg
#include "train/report/chart.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "train/compare/number_text.h"

namespace headcount {
namespace {

struct BenchTable {
  const char* title;
  const char* x_title;
  const char* y_title;
  const char* unit;
  std::size_t columns;  // numbers in a line, after the name
  std::size_t y;        // which of them is drawn against the first
  Scale x_scale = Scale::log2, y_scale = Scale::log10;
};

const std::map<std::string, BenchTable> kTables = {
    {"decode",
     {"Decoding: tokens per second against context", "context, tokens", "tokens per second",
      "tokens/s", 14, 3}},
    {"context",
     {"Training: time per token against context", "context, tokens", "microseconds per token",
      "us per token", 3, 1}},
    {"width",
     {"Training: time per token against width", "width of the model", "microseconds per token",
      "us per token", 3, 1}},
    {"threads",
     {"Training: time per token against threads", "threads", "microseconds per token",
      "us per token", 3, 1}},
    {"loss",
     {"Loss on the validation part against seconds of training", "seconds of training",
      "nats per character", "nats", 3, 2, Scale::log2, Scale::linear}}};

struct Line {
  std::string name;
  double x, y;
};

// Names may hold spaces, the columns after them do not. None for headings and what else there is.
std::optional<Line> read_line(const std::string& text, const BenchTable& table) {
  std::istringstream stream(text);
  std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  if (words.size() <= table.columns) return std::nullopt;
  const std::size_t names = words.size() - table.columns;
  const std::string& x = words[names];
  if (x.find_first_not_of("0123456789.") != std::string::npos) return std::nullopt;
  Line line{words[0], std::stod(x), std::strtod(words[names + table.y].c_str(), nullptr)};
  for (std::size_t i = 1; i < names; ++i) line.name += " " + words[i];
  return line;
}

Chart read_chart(std::istream& lines, const BenchTable& table) {
  Chart chart;
  chart.title = table.title;
  chart.description = std::string(table.y_title) + " against " + table.x_title;
  chart.kind = ChartKind::line;
  chart.x = {table.x_title, table.x_scale, [](double x) { return number_text(x); }};
  chart.y = {table.y_title, table.y_scale};
  for (std::string text; std::getline(lines, text);) {
    const std::optional<Line> line = read_line(text, table);
    if (!line || line->y <= 0) continue;
    auto series = std::ranges::find(chart.series, line->name, &ChartSeries::name);
    if (series == chart.series.end()) {
      const auto style = static_cast<Index>(chart.series.size());
      series = chart.series.insert(series, {line->name, style, {}});
    }
    series->points.push_back({line->x, line->y,
                              line->name + ", " + table.x_title + " " + number_text(line->x) +
                                  ": " + formatted("%.4g", line->y) + " " + table.unit});
  }
  return chart;
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const auto table = argc == 3 ? kTables.find(argv[1]) : kTables.end();
  if (table == kTables.end()) {
    std::fprintf(stderr, "usage: BENCHMARK | chart decode|context|width|threads|loss FILE.svg\n");
    return 2;
  }
  const Chart chart = read_chart(std::cin, table->second);
  if (chart.series.empty()) {
    std::fprintf(stderr, "chart: standard input has no line of the table for %s\n", argv[1]);
    return 3;
  }
  try {
    write_file_durably(argv[2], svg_text(chart));
  } catch (const Error& error) {
    std::fprintf(stderr, "chart: %s\n", error.what());
    return 1;
  }
}
