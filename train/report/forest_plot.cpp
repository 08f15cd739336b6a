#include "train/report/forest_plot.h"

#include <algorithm>
#include <cmath>

#include "train/report/chart_axis.h"
#include "train/report/svg.h"

namespace headcount {

using namespace svg;

namespace {

constexpr double kAbove = 72, kRow = 44, kUnder = 58;  // heights: above the rows, one row, below
constexpr double kDot = 3, kArrow = 5;
constexpr double kMean = 15, kDots = 31;  // distance of estimate and dots from a row's top

bool finite(const std::optional<double>& value) { return value && std::isfinite(*value); }

// Values that the axis covers: zero, the tolerance, estimates and dots. Intervals extend it by at
// most the range of these values on either side, since a wider axis would leave no room for them.
std::vector<double> x_values(const ForestPlot& plot) {
  std::vector<double> values = {0};
  if (finite(plot.tolerance)) values.push_back(*plot.tolerance);
  for (const ForestRow& row : plot.rows) {
    values.push_back(row.point.y);
    for (const auto& [value, hover] : row.values) values.push_back(value);
  }
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  const auto [low, high] = std::ranges::minmax(values);
  const double room = high - low;
  for (const ForestRow& row : plot.rows) {
    for (const std::optional<double>& end : {row.point.low, row.point.high}) {
      if (finite(end)) values.push_back(std::clamp(*end, low - room, high + room));
    }
  }
  return values;
}

class ForestDrawing {
 public:
  explicit ForestDrawing(const ForestPlot& plot)
      : plot_(plot),
        values_(x_values(plot)),
        x_(plot.x, values_),
        bottom_(kAbove + kRow * static_cast<double>(plot.rows.size())) {
    double widest = 0;
    for (const ForestRow& row : plot.rows)
      widest = std::max({widest, width_of(shown_name(row.name)), width_of(row.word)});
    left_ = 28 + widest;
    out_ = head(bottom_ + kUnder, plot.title, plot.description);
    tolerance();
    frame();
    double y = kAbove;
    for (const ForestRow& row : plot.rows) {
      add(row, y);
      y += kRow;
    }
  }
  std::string svg() const { return out_ + "</svg>\n"; }

 private:
  double x_at(double x) const { return left_ + (kRight - left_) * x_.fraction(x); }

  void tolerance() {
    if (!finite(plot_.tolerance)) return;
    const double x = x_at(*plot_.tolerance);
    out_ += "<rect class=\"hc-within\" x=\"" + number(left_) + "\" y=\"" + number(kAbove) +
            "\" width=\"" + number(x - left_) + "\" height=\"" + number(bottom_ - kAbove) +
            "\"/>\n";
    out_ += path("hc-steps", segment(x, kAbove - 6, x, bottom_), "1.5");
    const std::string enough = "enough ←", not_enough = "→ not enough";
    if (x - left_ > width_of(enough))
      out_ += text(x - 6, kAbove - 8, "end", enough, "class=\"hc-quiet\"");
    if (kRight - x > width_of(not_enough))
      out_ += text(x + 6, kAbove - 8, "start", not_enough, "class=\"hc-quiet\"");
  }

  void frame() {
    for (const Tick& tick : x_.ticks()) {
      const double x = x_at(tick.value);
      out_ += path("hc-grid", segment(x, kAbove, x, bottom_), "1");
      out_ += text(x, bottom_ + 19, "middle", tick.label);
    }
    out_ += path("hc-floor", segment(x_at(0), kAbove, x_at(0), bottom_), "1.5", "6 4");
    out_ += path("hc-axis", segment(left_, bottom_, kRight, bottom_), "1");
    out_ += text((left_ + kRight) / 2, bottom_ + kUnder - 14, "middle", plot_.x.title);
  }

  // An end of an interval: a stroke, or an arrow where it lies beyond the picture.
  void end(const ForestRow& row, double value, double y, double outwards) {
    const double x = x_at(value), share = x_.fraction(value);
    const bool beyond = outwards < 0 ? share <= 0 : share >= 1;
    const double back = beyond ? x - outwards * kArrow : x;
    out_ += path("hc-line " + colour(row.style),
                 "M" + place(back, y - kArrow) + "L" + place(x, y) + "L" + place(back, y + kArrow),
                 "1.5");
  }

  void add(const ForestRow& row, double y) {
    out_ += text(14, y + kMean + 4.5, "start", shown_name(row.name),
                 "class=\"hc-text\" font-weight=\"bold\"");
    out_ += text(14, y + kDots + 4.5, "start", row.word, "class=\"hc-quiet\"");
    for (const auto& [value, hover] : row.values) {
      if (!x_.places(value)) continue;
      out_ += "<circle class=\"hc-dot " + colour(row.style) + "\" cx=\"" + number(x_at(value)) +
              "\" cy=\"" + number(y + kDots) + "\" r=\"" + number(kDot) + "\">" + title(hover) +
              "</circle>\n";
    }
    if (!x_.places(row.point.y)) return;
    if (finite(row.point.low) && finite(row.point.high)) {
      const double middle = y + kMean;
      out_ += path("hc-line " + colour(row.style),
                   segment(x_at(*row.point.low), middle, x_at(*row.point.high), middle), "2");
      end(row, *row.point.low, middle, -1);
      end(row, *row.point.high, middle, 1);
    }
    out_ += mark(row.style, x_at(row.point.y), y + kMean, row.point.hover);
  }

  static constexpr double kRight = kWidth - 22;
  const ForestPlot& plot_;
  std::vector<double> values_;
  AxisMap x_;
  double bottom_, left_ = 0;
  std::string out_;
};

}  // namespace

std::string svg_text(const ForestPlot& plot) { return ForestDrawing(plot).svg(); }

}  // namespace headcount
