#include "train/report/chart.h"

#include <algorithm>
#include <cmath>

#include "train/report/chart_axis.h"
#include "train/report/label_places.h"
#include "train/report/svg.h"

namespace headcount {

using namespace svg;

namespace {

constexpr double kTop = 48, kPlotHeight = 294, kBelow = 58;  // heights: margin, plot, margin
constexpr double kNameReach = 32, kNumberReach = 120;  // how far a label may stand from its marker
constexpr double kLegendRow = 20, kLegendLeft = 14;
constexpr std::size_t kMarkersOnLine = 8;  // on a line of more points than kAllMarked
constexpr std::size_t kAllMarked = 12;

/// Point of a scatter chart with its error bar, in coordinates of the picture.
struct Spot {
  const ChartSeries& series;
  const ChartPoint& point;
  double x, y, top, bottom;
  Box box() const { return {x - kMarker, top, x + kMarker, bottom}; }
};

bool interval(const ChartPoint& point) {
  return point.low && point.high && std::isfinite(*point.low) && std::isfinite(*point.high);
}

std::vector<double> x_values(const Chart& chart) {
  std::vector<double> values;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) values.push_back(point.x);
  }
  return values;
}

// Values that the y axis covers: points, and the error bars of a scatter chart. Bands of a line
// chart are left out, since the band of two seeds may be six times as high as the mean.
std::vector<double> y_values(const Chart& chart) {
  std::vector<double> values;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.x)) continue;
      values.push_back(point.y);
      if (chart.kind == ChartKind::line || !interval(point)) continue;
      values.push_back(*point.low);
      values.push_back(*point.high);
    }
  }
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (!chart.floor || !std::isfinite(chart.floor->first) || values.empty()) return values;
  const auto [low, high] = std::ranges::minmax(values);
  const double floor = chart.floor->first;
  if (floor >= low - (high - low) && floor <= high) values.push_back(floor);
  return values;
}

class ChartDrawing {
 public:
  explicit ChartDrawing(const Chart& chart)
      : chart_(chart), x_(chart.x, x_values(chart)), y_(chart.y, y_values(chart)) {
    double widest = 0;
    for (const Tick& tick : y_.ticks()) widest = std::max(widest, width_of(tick.label));
    left_ = 38 + widest;
    right_ = kWidth - 22;
    if (chart.kind == ChartKind::line) {
      widest = floor_at_right() ? width_of(chart_.floor->second) : 0;
      for (const ChartSeries& series : chart.series)
        if (!series.faint) widest = std::max(widest, width_of(shown_name(series.name)));
      right_ = kWidth - 58 - widest;
      const auto names =
          static_cast<double>(1 + std::ranges::count(chart.series, false, &ChartSeries::faint));
      bottom_ = kTop + std::max(kPlotHeight, kLabelHeight * names);
      height_ = bottom_ + kBelow;
    }
    frame();
    staircase();
    floor();
    if (chart.kind == ChartKind::scatter) {
      scatter();
    } else {
      for (const ChartSeries& series : chart.series) line(series);
      names_at_right();
    }
  }
  std::string svg() const {
    return head(height_, chart_.title, chart_.description) + out_ + "</svg>\n";
  }

 private:
  double x_at(double x) const { return left_ + (right_ - left_) * x_.fraction(x); }
  double y_at(double y) const { return bottom_ - (bottom_ - kTop) * y_.fraction(y); }
  bool drawn(const ChartPoint& point) const { return x_.places(point.x) && y_.places(point.y); }

  void frame() {
    for (const Tick& tick : x_.ticks()) {
      const double x = x_at(tick.value);
      out_ += path("hc-grid", segment(x, kTop, x, bottom_), "1");
      out_ += text(x, bottom_ + 19, "middle", tick.label);
    }
    for (const Tick& tick : y_.ticks()) {
      const double y = y_at(tick.value);
      out_ += path("hc-grid", segment(left_, y, right_, y), "1");
      out_ += text(left_ - 8, y + 4.5, "end", tick.label);
    }
    out_ += path("hc-axis", "M" + place(left_, kTop) + "V" + number(bottom_) + "H" + number(right_),
                 "1");
    out_ += text((left_ + right_) / 2, bottom_ + kBelow - 14, "middle", chart_.x.title);
    out_ += text(0, 0, "middle", chart_.y.title,
                 "class=\"hc-text\" transform=\"translate(" + place(20, (kTop + bottom_) / 2) +
                     ") rotate(-90)\"");
  }

  void staircase() {
    std::string course;
    double x = left_, y = kTop;
    for (const auto& [step_x, step_y] : chart_.steps) {
      if (!x_.places(step_x) || !y_.places(step_y)) continue;
      const double next_x = x_at(step_x), next_y = y_at(step_y);
      course += course.empty() ? "M" + place(next_x, kTop) : "H" + number(next_x);
      course += "V" + number(next_y);
      if (y > kTop) taken_.push_back({x, y - 2, next_x, y + 2});
      taken_.push_back({next_x - 2, std::min(y, next_y), next_x + 2, std::max(y, next_y)});
      x = next_x;
      y = next_y;
    }
    if (course.empty()) return;
    taken_.push_back({x, y - 2, right_, y + 2});
    out_ += path("hc-steps", course + "H" + number(right_), "1.5");
  }

  // Returns true if the floor's name stands among the names of the lines, at the end of its own
  // line.
  bool floor_at_right() const {
    if (chart_.kind != ChartKind::line || !chart_.floor || !y_.places(chart_.floor->first))
      return false;
    const double share = y_.fraction(chart_.floor->first);
    return share > 0 && share < 1;
  }

  void floor() {
    if (!chart_.floor || !y_.places(chart_.floor->first)) return;
    const auto& [level, name] = *chart_.floor;
    // `fraction` is 0 or 1 for a level beyond an end of the axis.
    const double share = y_.fraction(level);
    const bool below = share <= 0;
    if (share >= 1) return;
    const double y = below ? bottom_ : y_at(level);
    const std::string shown = below ? name + ", below this chart" : name;
    if (!below) out_ += path("hc-floor", segment(left_, y, right_, y), "1.5", "6 4");
    if (floor_at_right()) return;
    out_ += text(left_ + 8, y - 6, "start", shown, "class=\"hc-quiet\"");
    taken_.push_back({left_, y - 18, left_ + 8 + width_of(shown), y + 2});
  }

  // Where error bars would cover each other, the later point moves aside, to the nearest free
  // place.
  std::vector<Spot> spots() const {
    std::vector<Spot> all;
    for (const ChartSeries& series : chart_.series) {
      for (const ChartPoint& point : series.points) {
        if (!drawn(point)) continue;
        const double y = y_at(point.y), wanted = x_at(point.x);
        Spot spot{series, point, wanted, y, y - kMarker, y + kMarker};
        if (interval(point)) {
          spot.top = std::min(spot.top, y_at(*point.high));
          spot.bottom = std::max(spot.bottom, y_at(*point.low));
        }
        const auto covers = [&](const Spot& other) { return overlap(spot.box(), other.box()) > 0; };
        for (int shift = 1; shift < 40 && std::ranges::any_of(all, covers); ++shift) {
          const double aside = (shift + 1) / 2 * (2 * kMarker + 1);
          spot.x = shift % 2 == 1 ? wanted + aside : wanted - aside;
        }
        spot.x = std::clamp(spot.x, left_ + kMarker, right_ - kMarker);
        all.push_back(spot);
      }
    }
    return all;
  }

  void draw(const Spot& spot) {
    if (interval(spot.point)) {
      const double low = y_at(*spot.point.low), high = y_at(*spot.point.high);
      out_ +=
          path("hc-line " + colour(spot.series.style),
               segment(spot.x - 4, high, spot.x + 4, high) + segment(spot.x, high, spot.x, low) +
                   segment(spot.x - 4, low, spot.x + 4, low),
               "1.5");
    }
    out_ += mark(spot.series.style, spot.x, spot.y, spot.point.hover);
  }

  void draw(const LabelPlace& place, Index style, const std::string& shown) {
    if (place.leads) {
      out_ += path("hc-line " + colour(style),
                   segment(place.from_x, place.from_y, place.to_x, place.to_y), "1");
    }
    const Box& box = place.box;
    const double x = place.side > 0   ? box.left
                     : place.side < 0 ? box.right
                                      : (box.left + box.right) / 2;
    const char* const anchor = place.side > 0 ? "start" : place.side < 0 ? "end" : "middle";
    out_ += text(x, box.bottom - 3.5, anchor, shown, "class=\"hc-text hc-label\"");
  }

  // Labels markers by name if each name finds a place of its own; otherwise by number, with a
  // legend.
  void label(const std::vector<Spot>& all) {
    // One label a series: its other points have the same colour and shape.
    std::vector<const Spot*> labelled;
    for (const Spot& spot : all) {
      if (labelled.empty() || &labelled.back()->series != &spot.series) {
        labelled.push_back(&spot);
      } else {
        taken_.push_back(spot.box());
      }
    }
    const auto number_of = [](const ChartSeries& series) {
      return std::to_string(series.style + 1);
    };
    const auto places = [&](const auto& shown, double reach) {
      std::vector<Labelled> markers;
      for (const Spot* spot : labelled) {
        markers.push_back(
            {spot->x, spot->y, spot->top, spot->bottom, width_of(shown(spot->series))});
      }
      return place_labels(markers, taken_, {left_ + 2, kTop - 4, kWidth - 4, bottom_ - 1}, reach);
    };
    const auto name_of = [](const ChartSeries& series) { return shown_name(series.name); };
    LabelPlaces found = places(name_of, kNameReach);
    const bool named = found.clean;
    if (!named) found = places(number_of, kNumberReach);
    std::vector<const ChartSeries*> series;
    for (std::size_t i = 0; i < labelled.size(); ++i) {
      series.push_back(&labelled[i]->series);
      draw(found.labels[i], series[i]->style, named ? name_of(*series[i]) : number_of(*series[i]));
    }
    if (!named) legend(std::move(series));
  }

  // Draws the legend below the chart, in columns, by number.
  void legend(std::vector<const ChartSeries*> all) {
    std::ranges::stable_sort(all, {}, &ChartSeries::style);
    double widest = 0;
    for (const ChartSeries* series : all)
      widest = std::max(widest, width_of(shown_name(series->name)));
    const double entry = 52 + widest;
    const auto columns = static_cast<std::size_t>(std::max(1.0, (kWidth - kLegendLeft) / entry));
    const std::size_t lines = (all.size() + columns - 1) / columns;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double x = kLegendLeft + entry * static_cast<double>(i / lines);
      const double y = height_ + kLegendRow * static_cast<double>(i % lines) + 4;
      out_ += text(x + 16, y + 4.5, "end", std::to_string(all[i]->style + 1));
      out_ += mark(all[i]->style, x + 28, y, all[i]->name);
      out_ += text(x + 40, y + 4.5, "start", shown_name(all[i]->name));
    }
    height_ += kLegendRow * static_cast<double>(lines) + 4;
  }

  void scatter() {
    const std::vector<Spot> all = spots();
    for (const Spot& spot : all) draw(spot);
    label(all);
  }

  void line(const ChartSeries& series) {
    std::vector<const ChartPoint*> points;
    for (const ChartPoint& point : series.points) {
      if (drawn(point)) points.push_back(&point);
    }
    std::string course, upper, lower;
    for (const ChartPoint* point : points) {
      course += (course.empty() ? "M" : "L") + place(x_at(point->x), y_at(point->y));
      if (!interval(*point)) continue;
      upper += (upper.empty() ? "M" : "L") + place(x_at(point->x), y_at(*point->high));
      lower = "L" + place(x_at(point->x), y_at(*point->low)) + lower;
    }
    if (!upper.empty()) out_ += path("hc-band " + colour(series.style), upper + lower + "z", "0");
    if (points.size() > 1) {
      out_ += path((series.faint ? "hc-faint hc-line " : "hc-line ") + colour(series.style), course,
                   series.faint ? "1" : "2");
    }
    if (series.faint || points.empty()) return;
    const std::size_t marks = points.size() <= kAllMarked ? points.size() : kMarkersOnLine;
    for (std::size_t k = 0; k < marks; ++k) {
      const std::size_t last = std::max<std::size_t>(marks, 2) - 1;
      const ChartPoint& point = *points[k * (points.size() - 1) / last];
      out_ += mark(series.style, x_at(point.x), y_at(point.y), point.hover);
    }
  }

  // Places names near the ends of their lines, in the order of the ends, without overlap and within
  // the picture. A marker of the line precedes each name: where lines end together, only the marker
  // tells them apart.
  void names_at_right() {
    struct Name {
      std::string text;
      const ChartSeries* series;  // null for the floor's name
      double x, end, height;
    };
    std::vector<Name> names;
    for (const ChartSeries& series : chart_.series) {
      const auto last = std::find_if(series.points.rbegin(), series.points.rend(),
                                     [&](const ChartPoint& point) { return drawn(point); });
      if (last == series.points.rend() || series.faint) continue;
      names.push_back({shown_name(series.name), &series, x_at(last->x), y_at(last->y), 0});
    }
    if (floor_at_right())
      names.push_back({chart_.floor->second, nullptr, right_, y_at(chart_.floor->first), 0});
    std::ranges::stable_sort(names, {}, &Name::end);
    double free_from = kTop;
    for (Name& name : names) {
      name.height = std::max(name.end, free_from);
      free_from = name.height + kLabelHeight;
    }
    double free_to = bottom_;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      name->height = std::min(name->height, free_to);
      free_to = name->height - kLabelHeight;
    }
    for (const Name& name : names) {
      const std::string course = segment(name.x + 7, name.end, right_ + 22, name.height);
      if (name.series == nullptr) {
        out_ += path("hc-floor", course, "1", "6 4");
        out_ += text(right_ + 26, name.height + 4.5, "start", name.text, "class=\"hc-quiet\"");
        continue;
      }
      out_ += path("hc-line " + colour(name.series->style), course, "1");
      out_ += mark(name.series->style, right_ + 30, name.height, name.series->name);
      out_ += text(right_ + 41, name.height + 4.5, "start", name.text);
    }
  }

  const Chart& chart_;
  AxisMap x_, y_;
  double left_ = 0, right_ = 0, bottom_ = kTop + kPlotHeight, height_ = bottom_ + kBelow;
  std::vector<Box> taken_;
  std::string out_;
};

}  // namespace

std::string svg_text(const Chart& chart) { return ChartDrawing(chart).svg(); }

}  // namespace headcount
