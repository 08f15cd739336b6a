#include "train/report/label_places.h"

#include <algorithm>
#include <cmath>

#include "train/report/svg.h"

namespace headcount {

namespace {

constexpr double kAside = 5;  // between marker and label
constexpr double kStep = 4;   // between neighbouring places
constexpr double kClear = 4;  // from other markers and labels
constexpr double kNear = 20;  // within this distance a label may seem to be another marker's
constexpr double kPerNearArea = 0.4;  // cost of area within that distance
constexpr double kPerArea = 10;       // cost of covered area; a unit of distance costs 1
constexpr double kPerCrossing = 100;  // cost of a box that a leading line crosses
constexpr double kAboveOrBelow = 6;   // cost of a place that is not beside the marker

Box marker_box(const Labelled& m) {
  constexpr double kRadius = svg::kMarker;
  return {m.x - kRadius, m.y - kRadius, m.x + kRadius, m.y + kRadius};
}

Box bar_box(const Labelled& m) {
  constexpr double kHalfWidth = 4.5;
  return {m.x - kHalfWidth, m.top, m.x + kHalfWidth, m.bottom};
}

Box widened(const Box& box, double x, double y) {
  return {box.left - x, box.top - y, box.right + x, box.bottom + y};
}

double area(const Box& box) { return (box.right - box.left) * (box.bottom - box.top); }

// Returns true if the line to a label runs through `box`; the line is sampled about every unit.
bool crosses(const LabelPlace& line, const Box& box) {
  const double length = std::hypot(line.to_x - line.from_x, line.to_y - line.from_y);
  const int samples = static_cast<int>(length) + 1;
  for (int k = 0; k <= samples; ++k) {
    const double share = static_cast<double>(k) / samples;
    const double x = line.from_x + share * (line.to_x - line.from_x);
    const double y = line.from_y + share * (line.to_y - line.from_y);
    if (x > box.left && x < box.right && y > box.top && y < box.bottom) return true;
  }
  return false;
}

LabelPlace beside(const Labelled& marker, double outwards, double up) {
  const double edge = marker.x + outwards * svg::kMarker, start = edge + outwards * kAside;
  const double end = start + outwards * marker.width, y = marker.y - up;
  LabelPlace place{
      {std::min(start, end), y - kLabelHeight / 2, std::max(start, end), y + kLabelHeight / 2}};
  place.side = outwards;
  place.leads = std::abs(up) > kLabelHeight;
  place.from_x = edge + outwards;
  place.from_y = marker.y;
  place.to_x = start - outwards;
  place.to_y = y;
  return place;
}

LabelPlace above_or_below(const Labelled& marker, double downwards, double away) {
  const double end = downwards > 0 ? marker.bottom : marker.top,
               near = end + downwards * (2 + away);
  const double far = near + downwards * kLabelHeight;
  LabelPlace place{{marker.x - marker.width / 2, std::min(near, far), marker.x + marker.width / 2,
                    std::max(near, far)}};
  place.leads = away > 0;
  place.from_x = place.to_x = marker.x;
  place.from_y = end + downwards;
  place.to_y = near;
  return place;
}

// Penalty for what a place covers, in units of distance.
double covering_cost(const LabelPlace& place, const std::vector<Box>& taken, const Box& inside) {
  double cost = kPerArea * (area(place.box) - overlap(place.box, inside));
  for (const Box& box : taken) {
    cost += kPerArea * overlap(place.box, box);
    if (place.leads && crosses(place, box)) cost += kPerCrossing;
  }
  return cost;
}

}  // namespace

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

LabelPlaces place_labels(std::span<const Labelled> markers, std::vector<Box> taken,
                         const Box& inside, double reach) {
  LabelPlaces places;
  for (const Labelled& marker : markers) {
    std::vector<Box> avoided = taken, shunned;
    for (const Labelled& other : markers) {
      const bool own = &other == &marker;
      const double clear = own ? 0 : kClear;
      for (const Box& box : {marker_box(other), bar_box(other)})
        avoided.push_back(widened(box, clear, clear));
      if (!own) shunned.push_back(widened(marker_box(other), kNear, kNear));
    }
    double least = HUGE_VAL, covered = 0;
    LabelPlace best{};
    const auto consider = [&](const LabelPlace& place, double distance) {
      if (distance >= least) return;
      const double covering = covering_cost(place, avoided, inside);
      double cost = distance + covering;
      for (const Box& box : shunned) cost += kPerNearArea * overlap(place.box, box);
      if (cost >= least) return;
      least = cost;
      covered = covering;
      best = place;
    };
    const double up = marker.y - marker.top, down = marker.bottom - marker.y;
    for (double off = 0; off <= reach; off += kStep) {
      for (const double raised : {off, -off}) {
        consider(beside(marker, 1, raised), off);
        consider(beside(marker, -1, raised), off + 1);
      }
      consider(above_or_below(marker, -1, off), off + kAboveOrBelow + up / 2);
      consider(above_or_below(marker, 1, off), off + kAboveOrBelow + down / 2);
    }
    places.clean = places.clean && covered < 1e-6;
    places.labels.push_back(best);
    taken.push_back(widened(best.box, kClear, 0));
    if (best.leads) {  // later labels keep off the line too
      taken.push_back({std::min(best.from_x, best.to_x) - 1, std::min(best.from_y, best.to_y),
                       std::max(best.from_x, best.to_x) + 1, std::max(best.from_y, best.to_y)});
    }
  }
  return places;
}

}  // namespace headcount
