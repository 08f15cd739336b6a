#include "train/report/chart.h"

#include <algorithm>
#include <cmath>

#include "train/report/chart_axis.h"
#include "train/report/svg.h"

namespace headcount {

using namespace svg;

namespace {

constexpr double kHeight = 400;
constexpr double kTop = 48, kBottom = kHeight - 58;
constexpr double kLabelHeight = 16;        // of a name, with its distance to the next
constexpr double kMarker = 6.5;            // radius
constexpr std::size_t kMarkersOnLine = 8;  // where it has too many points to mark all of them
constexpr std::size_t kAllMarked = 12;

/// A rectangle of the picture that names keep off.
struct Box {
  double left, top, right, bottom;
};

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

/// A point of a scatter chart with its error bar, in the picture.
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

// Error bars count; bands do not, since that of two seeds may be six times the mean.
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
  explicit ChartDrawing(const Chart& chart);
  std::string svg() const { return out_ + "</svg>\n"; }

 private:
  double x_at(double x) const { return left_ + (right_ - left_) * x_.fraction(x); }
  double y_at(double y) const { return kBottom - (kBottom - kTop) * y_.fraction(y); }
  bool drawn(const ChartPoint& point) const { return x_.places(point.x) && y_.places(point.y); }

  void frame();
  void staircase();
  void floor();
  std::vector<Spot> spots() const;
  void name_beside(const Spot& spot);
  void scatter();
  void line(const ChartSeries& series);
  void names_at_right();

  const Chart& chart_;
  AxisMap x_, y_;
  double left_ = 0, right_ = 0;
  std::vector<Box> taken_;
  std::string out_;
};

ChartDrawing::ChartDrawing(const Chart& chart)
    : chart_(chart), x_(chart.x, x_values(chart)), y_(chart.y, y_values(chart)) {
  double widest = 0;
  for (const Tick& tick : y_.ticks()) widest = std::max(widest, width_of(tick.label));
  left_ = 38 + widest;
  right_ = kWidth - 22;
  if (chart.kind == ChartKind::line) {
    widest = 0;
    for (const ChartSeries& series : chart.series) {
      widest = std::max(widest, width_of(shown_name(series.name)));
    }
    right_ = kWidth - 42 - widest;
  }
  out_ = head(kHeight, chart_.title, chart_.description);
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

void ChartDrawing::frame() {
  for (const Tick& tick : x_.ticks()) {
    const double x = x_at(tick.value);
    out_ += path("hc-grid", segment(x, kTop, x, kBottom), "1");
    out_ += text(x, kBottom + 19, "middle", tick.label);
  }
  for (const Tick& tick : y_.ticks()) {
    const double y = y_at(tick.value);
    out_ += path("hc-grid", segment(left_, y, right_, y), "1");
    out_ += text(left_ - 8, y + 4.5, "end", tick.label);
  }
  out_ +=
      path("hc-axis", "M" + place(left_, kTop) + "V" + number(kBottom) + "H" + number(right_), "1");
  out_ += text((left_ + right_) / 2, kHeight - 14, "middle", chart_.x.title);
  out_ += text(0, 0, "middle", chart_.y.title,
               "class=\"hc-text\" transform=\"translate(" + place(20, (kTop + kBottom) / 2) +
                   ") rotate(-90)\"");
}

void ChartDrawing::staircase() {
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

void ChartDrawing::floor() {
  if (!chart_.floor || !y_.places(chart_.floor->first)) return;
  const auto& [level, name] = *chart_.floor;
  // `fraction` puts what lies beyond an end of the axis at that end: 0 or 1.
  const double share = y_.fraction(level);
  const bool below = share <= 0;
  if (share >= 1) return;
  const double y = below ? kBottom : y_at(level);
  const std::string shown = below ? name + ", below this chart" : name;
  if (!below) out_ += path("hc-floor", segment(left_, y, right_, y), "1.5", "6 4");
  out_ += text(left_ + 8, y - 6, "start", shown, "class=\"hc-quiet\"");
  taken_.push_back({left_, y - 18, left_ + 8 + width_of(shown), y + 2});
}

// Where error bars would cover each other, the later point moves aside, to the nearest free place.
std::vector<Spot> ChartDrawing::spots() const {
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

// Left or right of the point, else higher or lower, wherever least is covered.
void ChartDrawing::name_beside(const Spot& spot) {
  const std::string name = shown_name(spot.series.name);
  const double width = width_of(name);
  double best_cost = 1e30, best_y = 0;
  Box best{};
  for (int k = 0; k < 26; ++k) {
    const double up = (k / 2 % 2 == 0 ? -1 : 1) * ((k / 2 + 1) / 2) * kLabelHeight / 2;
    const double start = k % 2 == 0 ? spot.x + kMarker + 5 : spot.x - kMarker - 5 - width;
    const Box box{start, spot.y + up - 8, start + width, spot.y + up + 8};
    double cost = std::abs(up) + k % 2;
    for (const Box& other : taken_) cost += 10 * overlap(box, other);
    const Box inside{left_ + 2, kTop - 4, kWidth - 4, kBottom - 1};
    cost += 100 * (width * kLabelHeight - overlap(box, inside));
    if (cost >= best_cost) continue;
    best_cost = cost;
    best_y = spot.y + up;
    best = box;
  }
  const bool right = best.left > spot.x;
  if (std::abs(best_y - spot.y) > kLabelHeight) {
    const double from = right ? spot.x + kMarker : spot.x - kMarker;
    out_ += path("hc-line " + colour(spot.series.style),
                 segment(from, spot.y, right ? best.left - 2 : best.right + 2, best_y), "1");
  }
  out_ += text(right ? best.left : best.right, best_y + 4.5, right ? "start" : "end", name);
  taken_.push_back(best);
}

void ChartDrawing::scatter() {
  const std::vector<Spot> all = spots();
  for (const Spot& spot : all) taken_.push_back(spot.box());
  for (const Spot& spot : all) {
    const std::string look = "hc-line " + colour(spot.series.style);
    if (interval(spot.point)) {
      const double low = y_at(*spot.point.low), high = y_at(*spot.point.high);
      out_ +=
          path(look,
               segment(spot.x - 4, high, spot.x + 4, high) + segment(spot.x, high, spot.x, low) +
                   segment(spot.x - 4, low, spot.x + 4, low),
               "1.5");
    }
    out_ += mark(spot.series.style, spot.x, spot.y, spot.point.hover);
  }
  // One name a series: its other points have the same colour and shape.
  const ChartSeries* named = nullptr;
  for (const Spot& spot : all) {
    if (&spot.series != named) name_beside(spot);
    named = &spot.series;
  }
}

void ChartDrawing::line(const ChartSeries& series) {
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
  if (points.size() > 1) out_ += path("hc-line " + colour(series.style), course, "2");
  const std::size_t marks = points.size() <= kAllMarked ? points.size() : kMarkersOnLine;
  for (std::size_t k = 0; k < marks; ++k) {
    const std::size_t last = std::max<std::size_t>(marks, 2) - 1;
    const ChartPoint& point = *points[k * (points.size() - 1) / last];
    out_ += mark(series.style, x_at(point.x), y_at(point.y), point.hover);
  }
}

// Near the ends of their lines, in their order, a label apart and within the picture.
void ChartDrawing::names_at_right() {
  struct Name {
    const ChartSeries* series;
    double x, end, height;
  };
  std::vector<Name> names;
  for (const ChartSeries& series : chart_.series) {
    const auto last = std::find_if(series.points.rbegin(), series.points.rend(),
                                   [&](const ChartPoint& point) { return drawn(point); });
    if (last == series.points.rend()) continue;
    names.push_back({&series, x_at(last->x), y_at(last->y), 0});
  }
  std::ranges::stable_sort(names, {}, &Name::end);
  double free_from = kTop;
  for (Name& name : names) {
    name.height = std::max(name.end, free_from);
    free_from = name.height + kLabelHeight;
  }
  double free_to = kBottom;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    name->height = std::min(name->height, free_to);
    free_to = name->height - kLabelHeight;
  }
  for (const Name& name : names) {
    out_ += path("hc-line " + colour(name.series->style),
                 segment(name.x + 7, name.end, right_ + 22, name.height), "1");
    out_ += text(right_ + 26, name.height + 4.5, "start", shown_name(name.series->name));
  }
}

}  // namespace

std::string svg_text(const Chart& chart) { return ChartDrawing(chart).svg(); }

}  // namespace headcount
