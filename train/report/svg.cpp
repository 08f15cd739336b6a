#include "train/report/svg.h"

#include <utf8.h>

#include <array>

#include "autograd/base/text.h"
#include "autograd/base/utf8.h"
#include "train/compare/number_text.h"

namespace headcount::svg {

namespace {

constexpr std::size_t kLongest = 18;  // letters of a name; the rest is cut

// Number of colours in the style rules below. Each stands out from the paper (contrast 3 and more),
// and any two are told apart by readers who see no red, no green or no blue.
constexpr Index kColours = 14;
constexpr std::array<const char*, 6> kShapes = {
    "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0z",               // circle
    "M-5 -5H5V5H-5z",                                                // square
    "M0 -6.5L6.2 4.5H-6.2z",                                         // triangle
    "M0 -7L6 0L0 7L-6 0z",                                           // diamond
    "M-2.2 -6.5H2.2V-2.2H6.5V2.2H2.2V6.5H-2.2V2.2H-6.5V-2.2H-2.2z",  // plus
    "M0 6.5L6.2 -4.5H-6.2z"};                                        // triangle on its tip

// Plain classes, no variables: rsvg-convert and mail programs do not know those. The prefix keeps
// them apart from a page's own; several charts in one page repeat the same rules.
constexpr std::string_view kStyle = R"(<style>
.hc-paper{fill:#fff}.hc-text{fill:#222}.hc-quiet{fill:#555}
.hc-axis{stroke:#222;fill:none}.hc-grid{stroke:#e2e2e2;fill:none}
.hc-steps,.hc-frame{stroke:#8a8a8a;fill:none}.hc-floor{stroke:#555;fill:none}
.hc-0{color:#000}.hc-1{color:#0072b2}.hc-2{color:#cc5200}.hc-3{color:#009e73}.hc-4{color:#d070b0}
.hc-5{color:#b88f00}.hc-6{color:#2f9bdb}.hc-7{color:#771133}.hc-8{color:#333388}.hc-9{color:#4400ee}
.hc-10{color:#775566}.hc-11{color:#aa2200}.hc-12{color:#9955ff}.hc-13{color:#7700bb}
.hc-line{stroke:currentColor;fill:none}.hc-faint{stroke-opacity:.5}.hc-band{fill:currentColor;fill-opacity:.16}
.hc-mark{fill:currentColor;stroke:#fff}.hc-area{fill:currentColor}.hc-edge{stroke:#fff;fill:none}
.hc-dot{fill:currentColor;fill-opacity:.75}
.hc-within{fill:#0072b2;fill-opacity:.12}
@media screen and (prefers-color-scheme:dark){
.hc-paper{fill:#16181c}.hc-text{fill:#eee}.hc-quiet{fill:#b4b4b4}
.hc-axis{stroke:#eee}.hc-grid{stroke:#33363c}.hc-steps,.hc-frame{stroke:#868a92}.hc-floor{stroke:#b4b4b4}
.hc-0{color:#fff}.hc-1{color:#4ba3e3}.hc-2{color:#ff7a33}.hc-3{color:#2fd6a8}.hc-4{color:#d678ae}
.hc-5{color:#ffd24d}.hc-6{color:#b0e4ff}.hc-7{color:#bb3311}.hc-8{color:#5544ff}.hc-9{color:#994499}
.hc-10{color:#dd4466}.hc-11{color:#00ffaa}.hc-12{color:#aabbff}.hc-13{color:#8877ff}
.hc-band{fill-opacity:.24}.hc-within{fill:#4ba3e3;fill-opacity:.2}.hc-mark,.hc-edge{stroke:#16181c}
}
</style>
)";

}  // namespace

std::string number(double value) { return formatted("%.1f", value); }

std::string place(double x, double y) { return number(x) + " " + number(y); }

std::string segment(double x1, double y1, double x2, double y2) {
  return "M" + place(x1, y1) + "L" + place(x2, y2);
}

std::string path(const std::string& classes, const std::string& course, const char* width,
                 const char* dashes) {
  return "<path class=\"" + classes + "\" d=\"" + course + "\" stroke-width=\"" + width + "\"" +
         (dashes ? std::string(" stroke-dasharray=\"") + dashes + "\"" : "") + "/>\n";
}

std::string text(double x, double y, const char* anchor, const std::string& content,
                 const std::string& more) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" " +
         more + ">" + xml_escaped(content) + "</text>\n";
}

std::string colour(Index style) { return "hc-" + std::to_string(style % kColours); }

std::string title(const std::string& hover) { return "<title>" + xml_escaped(hover) + "</title>"; }

std::string mark(Index style, double x, double y, const std::string& hover) {
  const char* shape = kShapes[static_cast<std::size_t>(style) % kShapes.size()];
  return "<path class=\"hc-mark " + colour(style) + "\" transform=\"translate(" + place(x, y) +
         ")\" d=\"" + shape + "\">" + title(hover) + "</path>\n";
}

double width_of(const std::string& valid) {
  return kLetter * static_cast<double>(character_count(valid));
}

std::string shown_name(const std::string& name) {
  const std::string valid = utf8::replace_invalid(name);
  if (character_count(valid) <= kLongest) return valid;
  auto end = valid.begin();
  utf8::advance(end, kLongest - 1, valid.end());
  return std::string(valid.begin(), end) + "…";
}

std::string head(double height, const std::string& name, const std::string& description) {
  const std::string size = number(kWidth) + " " + number(height);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
      "\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>" +
      xml_escaped(name) + "</title>\n<desc>" + xml_escaped(description) + "</desc>\n";
  out += kStyle;
  out += "<rect class=\"hc-paper\" width=\"" + number(kWidth) + "\" height=\"" + number(height) +
         "\" rx=\"6\"/>\n";
  return out +
         text(14, 27, "start", name, "class=\"hc-text\" font-size=\"16\" font-weight=\"bold\"");
}

}  // namespace headcount::svg
