// The colours of the pictures: all readers tell them apart from each other and from the paper.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "train/report/svg.h"

namespace headcount {
namespace {

using Triple = std::array<double, 3>;
using Conversion = std::array<Triple, 3>;

Triple times(const Conversion& m, const Triple& v) {
  Triple result{};
  for (std::size_t i = 0; i < 3; ++i) result[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
  return result;
}

// "#0072b2" or "#fff" as linear RGB.
Triple linear(std::string hex) {
  if (hex.size() == 4) hex = {'#', hex[1], hex[1], hex[2], hex[2], hex[3], hex[3]};
  Triple rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    rgb[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return rgb;
}

// Relative luminance (w3.org/TR/WCAG22).
double contrast(const std::string& a, const std::string& b) {
  const auto light = [](const Triple& c) {
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
  };
  const auto [low, high] = std::minmax({light(linear(a)), light(linear(b))});
  return high / low;
}

// Colours as seen by readers who see all colours, or no red, no green, no blue (Machado, Oliveira
// and Fernandes, 2009; severity 1).
constexpr std::array<Conversion, 4> kReaders = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};

// Oklab (bottosson.github.io/posts/oklab); a difference that is just seen is about 0.02.
Triple oklab(Triple rgb) {
  constexpr Conversion kCones = {{{0.4122214708, 0.5363325363, 0.0514459929},
                                  {0.2119034982, 0.6806995451, 0.1073969566},
                                  {0.0883024619, 0.2817188376, 0.6299787005}}};
  constexpr Conversion kLab = {{{0.2104542553, 0.7936177850, -0.0040720468},
                                {1.9779984951, -2.4285922050, 0.4505937099},
                                {0.0259040371, 0.7827717662, -0.8086757660}}};
  for (double& c : rgb) c = std::clamp(c, 0.0, 1.0);
  Triple cones = times(kCones, rgb);
  for (double& c : cones) c = std::cbrt(c);
  return times(kLab, cones);
}

double difference(const std::string& a, const std::string& b, const Conversion& reader) {
  const Triple x = oklab(times(reader, linear(a))), y = oklab(times(reader, linear(b)));
  return std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

struct Scheme {
  std::string paper;
  std::vector<std::string> colours;
};

// Colour schemes in the style rules that a picture begins with: light, then dark.
std::array<Scheme, 2> schemes() {
  const std::string style = svg::head(100, "", "");
  static const std::regex rule(R"re(\.hc-(paper|\d+)\{(?:color|fill):(#[0-9a-f]+)\})re");
  std::array<Scheme, 2> both;
  std::size_t papers = 0;
  for (std::sregex_iterator at(style.begin(), style.end(), rule), end; at != end; ++at) {
    if (at->str(1) == "paper") {
      both.at(papers++).paper = at->str(2);
    } else {
      both.at(papers - 1).colours.push_back(at->str(2));
    }
  }
  return both;
}

TEST(Colours, StandOutFromThePaper) {
  for (const Scheme& scheme : schemes()) {
    EXPECT_EQ(scheme.colours.size(), 14u);
    for (const std::string& colour : scheme.colours)
      EXPECT_GE(contrast(colour, scheme.paper), 2.95) << colour;
  }
}

TEST(Colours, AreToldApartByReadersWhoDoNotSeeThemAll) {
  for (const Scheme& scheme : schemes()) {
    for (std::size_t i = 0; i < scheme.colours.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        for (const Conversion& reader : kReaders)
          EXPECT_GE(difference(scheme.colours[i], scheme.colours[j], reader), 0.05)
              << scheme.colours[i] << " and " << scheme.colours[j];
      }
    }
  }
}

TEST(Colours, OfAStyleAreThoseOfTheRules) {
  EXPECT_EQ(svg::colour(13), "hc-13");
  EXPECT_EQ(svg::colour(14), "hc-0");
}

}  // namespace
}  // namespace headcount
