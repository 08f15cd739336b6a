#pragma once

#include <span>
#include <vector>

/// Placement of a picture's labels so that they cover nothing.

namespace headcount {

/// A rectangle of a picture; y grows downwards.
struct Box {
  double left, top, right, bottom;
};

/// The area that two rectangles share; 0 if they only touch.
double overlap(const Box& a, const Box& b);

/// A marker that is to get a label.
struct Labelled {
  double x, y;         ///< its centre
  double top, bottom;  ///< ends of its error bar or of the marker
  double width;        ///< width of the label
};

struct LabelPlace {
  Box box;
  double side = 0;     ///< seen from the marker: 1 right, -1 left, 0 above or below
  bool leads = false;  ///< far enough from its marker to need a line
  double from_x = 0, from_y = 0, to_x = 0, to_y = 0;  ///< ends of the line
};

struct LabelPlaces {
  std::vector<LabelPlace> labels;  ///< one for each marker, in their order
  bool clean = true;  ///< no label or leader line overlaps or touches a mark or a label
};

inline constexpr double kLabelHeight = 16;  ///< height of a label and its distance to the next

/// Finds a place for each label within `inside`: right or left of its marker, at most `reach`
/// higher or lower, or above or below its error bar, at most `reach` away. It takes the nearest
/// place that covers nothing of `taken`, no earlier label and no marker with its error bar, and
/// that is not close to another marker. If there is none, it takes the place that covers least.
LabelPlaces place_labels(std::span<const Labelled> markers, std::vector<Box> taken,
                         const Box& inside, double reach);

}  // namespace headcount
