#pragma once

#include <string>

#include "autograd/base/real.h"

/// Pieces of the pictures of a report, as SVG text. Fourteen colours begin with those of Okabe and
/// Ito (jfly.uni-koeln.de/color), darker where paper is light; colour-blind readers tell all apart,
/// in light and in dark.

namespace headcount::svg {

/// Width of all pictures: small enough that letters stay readable on a phone, which shows them at
/// two thirds of their size.
inline constexpr double kWidth = 520;
/// Width of a letter at font size 13, in the widest usual font.
inline constexpr double kLetter = 7.8;
inline constexpr double kMarker = 6.5;  ///< radius of a marker

/// `value` with one decimal.
std::string number(double value);
/// A point in a path: "1.0 2.0".
std::string place(double x, double y);
/// Path data of a straight line.
std::string segment(double x1, double y1, double x2, double y2);
/// <path> element with CSS classes, path data and a stroke width. `dashes` is the dash pattern of
/// the stroke; null: a solid line.
std::string path(const std::string& classes, const std::string& course, const char* width,
                 const char* dashes = nullptr);
/// <text> element at (x, y). `content` is any text; `anchor` is "start", "middle" or "end".
std::string text(double x, double y, const char* anchor, const std::string& content,
                 const std::string& more = "class=\"hc-text\"");

/// CSS class with the colour of a style; a style looks the same in every picture.
std::string colour(Index style);
/// <title> element, which a browser shows on pointing at its parent.
std::string title(const std::string& hover);
/// A marker in the colour and shape of a style, with `hover` shown on pointing at it.
std::string mark(Index style, double x, double y, const std::string& hover);

/// Upper bound on the width of `valid`, a UTF-8 text, at font size 13.
double width_of(const std::string& valid);
/// A name as pictures show it: valid UTF-8, cut where it is long.
std::string shown_name(const std::string& name);

/// The beginning of a picture, up to its name; "</svg>" ends it. `description` is for screen
/// readers.
std::string head(double height, const std::string& name, const std::string& description);

}  // namespace headcount::svg
