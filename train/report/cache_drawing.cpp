#include "train/report/cache_drawing.h"

#include <algorithm>
#include <cmath>

#include "train/compare/result_text.h"
#include "train/report/svg.h"

namespace headcount {

using namespace svg;

namespace {

constexpr double kLeft = 14, kPanel = 236, kBetween = 20;
constexpr double kHeading = 30;                       // of one attention
constexpr double kCachesTop = 62, kCachesBelow = 38;  // above and below all of them
constexpr double kLegendLine = 20;
constexpr double kGap = 4;          // between layers
constexpr double kLeastHeight = 2;  // of what would not be seen
constexpr double kLeastHead = 3;    // width of a head whose border is drawn
constexpr Index kFirstColour = 1;   // black and white are for borders

// Height of one cache; lower if there are many attentions, so that the drawing fits on a page.
double cache_height(std::size_t attentions) {
  if (attentions > 8) return 36;
  return attentions > 4 ? 48 : 64;
}

Index numbers_at(const CacheBlock& block, Index context) {
  const Index held = block.window > 0 ? std::min(block.window, context) : context;
  return block.heads * block.width * (block.per_sequence ? 1 : held);
}

std::string count_text(Index count) { return number_text(static_cast<double>(count)); }

std::string bytes_of(Index numbers) {
  return bytes_text(static_cast<double>(numbers) * sizeof(float));
}

class CacheDrawing {
 public:
  /// `context` is that of training.
  CacheDrawing(const std::vector<const VariantResult*>& variants, Index context,
               const std::string& title, const std::string& description) {
    trained_ = context;
    cache_height_ = cache_height(variants.size());
    double widest = 1;
    std::size_t layers = 1;
    for (const VariantResult* variant : variants) {
      widest = std::max(widest, numbers_of_token(variant->cache));
      layers = std::max(layers, variant->cache.size());
      for (const CacheLayer& layer : variant->cache) {
        for (const CacheBlock& block : layer) style(block.name);
      }
    }
    gap_ = std::min(kGap, kPanel / 4 / static_cast<double>(layers));
    scale_ = (kPanel - gap_ * static_cast<double>(layers - 1)) / widest;
    const double rows = static_cast<double>(variants.size()) * (kHeading + cache_height_);
    const double lines = static_cast<double>(legend_lines());
    out_ = head(kCachesTop + rows + kCachesBelow + (lines - 1) * kLegendLine, title, description);
    const std::vector<Index> contexts = {context, kLongContext};
    for (std::size_t side = 0; side < contexts.size(); ++side)
      out_ += text(left(side), kCachesTop - 8, "start",
                   "at " + count_text(contexts[side]) + " tokens", "class=\"hc-quiet\"");
    double y = kCachesTop;
    for (const VariantResult* variant : variants) {
      const double drawn = y + kHeading;
      for (std::size_t side = 0; side < contexts.size(); ++side) {
        const std::string size = bytes_of(cache_numbers(variant->cache, contexts[side]));
        heading(left(side), y + 23, side == 0 ? shown_name(variant->spec) : "", size);
        add(*variant, contexts[side], left(side), drawn);
      }
      y = drawn + cache_height_;
    }
    legend(y + 26);
  }
  std::string svg() const { return out_ + "</svg>\n"; }

 private:
  static double left(std::size_t side) {
    return kLeft + static_cast<double>(side) * (kPanel + kBetween);
  }

  // Numbers per token as drawn. Those of a state are divided by the tokens of the training context.
  double numbers_of_token(const CacheBlock& block) const {
    const auto numbers = static_cast<double>(block.heads * block.width);
    return block.per_sequence ? numbers / static_cast<double>(trained_) : numbers;
  }
  double numbers_of_token(const CacheLayer& layer) const {
    double numbers = 0;
    for (const CacheBlock& block : layer) numbers += numbers_of_token(block);
    return numbers;
  }
  double numbers_of_token(const std::vector<CacheLayer>& cache) const {
    double numbers = 0;
    for (const CacheLayer& layer : cache) numbers += numbers_of_token(layer);
    return numbers;
  }

  Index style(const std::string& name) {
    auto found = std::ranges::find(names_, name);
    if (found == names_.end()) found = names_.insert(names_.end(), name);
    return kFirstColour + (found - names_.begin());
  }

  // Draws the name, which may be empty, and the size after it.
  void heading(double x, double y, const std::string& name, const std::string& size) {
    out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"hc-text\">";
    if (!name.empty()) out_ += "<tspan font-weight=\"bold\">" + xml_escaped(name) + "</tspan>";
    out_ +=
        "<tspan" + std::string(name.empty() ? "" : " dx=\"9\"") + ">" + size + "</tspan></text>\n";
  }

  // A frame shows how high a layer would be that kept all tokens.
  void add(const VariantResult& variant, Index context, double x, double y) {
    for (std::size_t layer = 0; layer < variant.cache.size(); ++layer, x += gap_) {
      const double end = x + scale_ * numbers_of_token(variant.cache[layer]);
      out_ += path("hc-frame",
                   "M" + place(x, y) + "H" + number(end) + "V" + number(y + cache_height_) + "H" +
                       number(x) + "z",
                   "1");
      for (const CacheBlock& block : variant.cache[layer]) {
        const Index numbers = numbers_at(block, context);
        const double of_token = numbers_of_token(block);
        const double width = scale_ * of_token;
        const double kept = static_cast<double>(numbers) / of_token;
        const double height = cache_height_ * kept / static_cast<double>(context);
        const std::string of =
            block.per_sequence ? "of the sequence" : number_text(kept) + " tokens";
        const std::string hover =
            variant.spec + ", layer " + std::to_string(layer + 1) + ", " + block.name + ": " +
            count_text(block.heads) + (block.heads == 1 ? " head of " : " heads of ") +
            count_text(block.width) + " numbers, " + of + ", " + bytes_of(numbers);
        out_ += rectangle(style(block.name), x, y, width, std::max(height, kLeastHeight), hover);
        const double of_head = width / static_cast<double>(block.heads);
        for (Index head = 1; head < block.heads && of_head >= kLeastHead; ++head) {
          const double border = x + of_head * static_cast<double>(head);
          out_ += path("hc-edge", segment(border, y, border, y + height), "1");
        }
        x += width;
      }
    }
  }

  // Calls `draw` with each name, where it begins and in which line.
  template <class Draw>
  void lay_out_legend(const Draw& draw) const {
    double x = kLeft;
    Index line = 0;
    for (const std::string& name : names_) {
      const double width = 34 + width_of(shown_name(name));
      if (x > kLeft && x + width > kWidth) {
        x = kLeft;
        ++line;
      }
      draw(name, x, line);
      x += width;
    }
  }
  Index legend_lines() const {
    Index lines = 1;
    lay_out_legend([&](const std::string&, double, Index line) { lines = line + 1; });
    return lines;
  }
  void legend(double first) {
    std::string drawn;
    lay_out_legend([&](const std::string& name, double x, Index line) {
      const double y = first + kLegendLine * static_cast<double>(line);
      drawn += rectangle(style(name), x, y - 11, 12, 12, name);
      drawn += text(x + 18, y, "start", shown_name(name));
    });
    out_ += drawn;
  }

  static std::string rectangle(Index style, double x, double y, double width, double height,
                               const std::string& hover) {
    return "<rect class=\"hc-area " + colour(style) + "\" x=\"" + number(x) + "\" y=\"" +
           number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) + "\">" +
           title(hover) + "</rect>\n";
  }

  std::vector<std::string> names_;  ///< of blocks, in the order of their colours
  Index trained_ = 1;               ///< tokens
  double gap_ = 0, scale_ = 0;      ///< units between layers, and of a number
  double cache_height_ = 0;         ///< units, of all tokens
  std::string out_;
};

}  // namespace

Index cache_numbers(const std::vector<CacheLayer>& cache, Index context) {
  Index numbers = 0;
  for (const CacheLayer& layer : cache) {
    for (const CacheBlock& block : layer) numbers += numbers_at(block, context);
  }
  return numbers;
}

std::string cache_drawing(const std::vector<const VariantResult*>& variants, Index context,
                          const std::string& title, const std::string& description) {
  return CacheDrawing(variants, context, title, description).svg();
}

}  // namespace headcount
