#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/real.h"

/// Line and scatter charts as SVG text that stands alone or inside an HTML page, for print and
/// screen, in light and in dark. Every series has a colour and a marker shape (see svg.h); 42 pairs
/// differ.

namespace headcount {

/// Scale of an axis. Ticks lie at powers of two (log2), at 1, 2 and 5 times powers of ten (log10),
/// or at multiples of such a number (linear). A long logarithmic axis has ticks at every n-th power
/// alone; a short log10 axis has more, at 3 and 7 times powers of ten or at those of a linear axis.
/// Logarithmic axes leave out values that are not positive.
enum class Scale { linear, log2, log10 };

struct ChartAxis {
  std::string title = {};
  Scale scale = Scale::linear;
  std::function<std::string(double)> label = {};  ///< text of a tick; default: the digits it needs
  std::optional<double> lowest = {}, highest = {};  ///< bounds of values, such as 0 and 100 %
};

struct ChartPoint {
  double x = 0, y = 0;
  std::string hover = {};                     ///< shown on pointing at the marker
  std::optional<double> low = {}, high = {};  ///< interval of y, both or neither
};

struct ChartSeries {
  std::string name;  ///< written once, beside the first point or at the end of a line
  Index style = 0;   ///< colour and shape; the same number looks the same in every chart
  std::vector<ChartPoint> points;
  bool faint = false;  ///< a thin line, without markers and name
};

enum class ChartKind {
  scatter,  ///< markers with error bars; what would cover another moves aside. Names stand beside
            ///< them, or numbers and a legend where names would cover something
  line      ///< points joined in the order given, intervals as a band, marks and names at the right
};

struct Chart {
  std::string title = {}, description = {};  ///< description: for screen readers
  ChartKind kind = ChartKind::scatter;
  ChartAxis x = {}, y = {};
  std::vector<ChartSeries> series = {};
  std::vector<std::pair<double, double>> steps = {};  ///< corners of a falling staircase, by x
  /// A level of y and its name; only named where drawing it would flatten the rest.
  std::optional<std::pair<double, std::string>> floor = {};
};

/// The chart as one <svg> element without an XML declaration. Points that are not finite are left
/// out, so the text never holds "nan" or "inf". Deterministic.
std::string svg_text(const Chart& chart);

}  // namespace headcount
