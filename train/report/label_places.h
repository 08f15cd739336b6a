#pragma once

#include <span>
#include <vector>

/// Where the labels of a picture stand, so that they cover nothing.

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
  double top, bottom;  ///< ends of its error bar, or of the marker
  double width;        ///< of the label
};

struct LabelPlace {
  Box box;
  double side = 0;     ///< of its marker: 1 right, -1 left, 0 above or below
  bool leads = false;  ///< so far off that a line leads to it
  double from_x = 0, from_y = 0, to_x = 0, to_y = 0;  ///< that line
};

struct LabelPlaces {
  std::vector<LabelPlace> labels;  ///< one for each marker, in their order
  bool clean = true;  ///< none covers, or leads across, or comes close to, what it should not
};

inline constexpr double kLabelHeight = 16;  ///< of a label, with its distance to the next

/// A place for each label, the nearest one within `inside` that covers nothing of `taken`, no
/// earlier label, and no marker with its error bar, and that no other marker is close to: right or
/// left of its own, at most `reach` higher or lower than it, or above or below its error bar, at
/// most `reach` away. Where there is none, the one that covers least.
LabelPlaces place_labels(std::span<const Labelled> markers, std::vector<Box> taken,
                         const Box& inside, double reach);

}  // namespace headcount
