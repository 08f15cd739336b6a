#include "train/report/cache_drawing.h"

#include <algorithm>

#include "train/compare/number_text.h"
#include "train/report/svg.h"

namespace headcount {

using namespace svg;

namespace {

constexpr double kLeft = 14, kPanel = 236, kBetween = 20;
constexpr double kHeading = 30;                       // height of the heading of one attention
constexpr double kCachesTop = 62, kCachesBelow = 38;  // margins above and below all caches
constexpr double kLegendLine = 20;
constexpr double kGap = 4;          // between layers
constexpr double kLeastHeight = 2;  // of a block that would be too flat to be seen
constexpr double kLeastHead = 3;    // width of a head whose border is drawn
constexpr Index kFirstColour = 1;   // black and white are for borders

// Height of one cache; lower if there are many attentions, so that the drawing fits on a page.
double cache_height(std::size_t attentions) {
  if (attentions > 8) return 36;
  return attentions > 4 ? 48 : 64;
}

Index numbers_at(const CacheBlock& block, Index context) {
  const Index held = block.window > 0 ? std::min(block.window, context) : context;
  const Index rows = block.block > 0 ? held / block.block : held;
  return block.heads * block.width * (block.per_sequence ? 1 : rows);
}

std::string bytes_of(Index numbers) {
  return bytes_text(static_cast<double>(numbers) * sizeof(float));
}

class CacheDrawing {
 public:
  /// `context` is the context of training, tokens.
  CacheDrawing(const std::vector<const VariantResult*>& variants, Index context,
               const std::string& title, const std::string& description)
      : trained_(static_cast<double>(context)), cache_height_(cache_height(variants.size())) {
    double widest = 1;
    std::size_t layers = 1;
    for (const VariantResult* variant : variants) {
      double width = 0;
      for (const CacheLayer& layer : variant->cache) {
        width += numbers_of_token(layer);
        for (const CacheBlock& block : layer) style(block.name);
      }
      widest = std::max(widest, width);
      layers = std::max(layers, variant->cache.size());
    }
    gap_ = std::min(kGap, kPanel / 4 / static_cast<double>(layers));
    scale_ = (kPanel - gap_ * static_cast<double>(layers - 1)) / widest;
    const double end =
        kCachesTop + static_cast<double>(variants.size()) * (kHeading + cache_height_);
    const std::vector<Entry> entries = legend(end + 26);
    const double last = entries.empty() ? end + 26 : entries.back().y;
    out_ = head(last - 26 + kCachesBelow, title, description);
    for (const bool is_long : {false, true}) {
      out_ += text(left(is_long), kCachesTop - 8, "start",
                   "at " + count_text(is_long ? kLongContext : context) + " tokens",
                   "class=\"hc-quiet\"");
    }
    double y = kCachesTop;
    for (const VariantResult* variant : variants) {
      for (const bool is_long : {false, true}) {
        const Index shown = is_long ? kLongContext : context;
        heading(left(is_long), y + 23, is_long ? "" : shown_name(variant->spec),
                bytes_of(numbers_at_context(variant->cache, shown)));
        add(*variant, shown, left(is_long), y + kHeading);
      }
      y += kHeading + cache_height_;
    }
    for (const Entry& entry : entries) {
      out_ += rectangle(style(entry.name), entry.x, entry.y - 11, 12, 12, entry.name);
      out_ += text(entry.x + 18, entry.y, "start", shown_name(entry.name));
    }
  }
  std::string svg() const { return out_ + "</svg>\n"; }

 private:
  static double left(bool is_long) { return is_long ? kLeft + kPanel + kBetween : kLeft; }

  // Numbers per token as drawn. Those of a state are divided by the tokens of the training context.
  double numbers_of_token(const CacheBlock& block) const {
    const auto numbers = static_cast<double>(block.heads * block.width);
    if (block.per_sequence) return numbers / trained_;
    return block.block > 0 ? numbers / static_cast<double>(block.block) : numbers;
  }
  double numbers_of_token(const CacheLayer& layer) const {
    double numbers = 0;
    for (const CacheBlock& block : layer) numbers += numbers_of_token(block);
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

  // Draws the layers of one cache. A frame shows how high a layer would be that kept all tokens.
  void add(const VariantResult& variant, Index context, double x, double y) {
    for (std::size_t layer = 0; layer < variant.cache.size(); ++layer, x += gap_) {
      const double end = x + scale_ * numbers_of_token(variant.cache[layer]);
      out_ += path("hc-frame",
                   "M" + place(x, y) + "H" + number(end) + "V" + number(y + cache_height_) + "H" +
                       number(x) + "z",
                   "1");
      for (const CacheBlock& block : variant.cache[layer]) {
        const Index numbers = numbers_at(block, context);
        const double width = scale_ * numbers_of_token(block);
        if (width == 0) continue;  // canon layers of one tap keep nothing
        const double kept = static_cast<double>(numbers) / numbers_of_token(block);
        const double height = cache_height_ * kept / static_cast<double>(context);
        const std::string hover =
            variant.spec + ", layer " + std::to_string(layer + 1) + ", " + block.name + ": " +
            count_text(block.heads) + (block.heads == 1 ? " head of " : " heads of ") +
            count_text(block.width) + " numbers, " +
            (block.per_sequence ? "of the sequence" : number_text(kept) + " tokens") + ", " +
            bytes_of(numbers);
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

  // A name of the legend with its place.
  struct Entry {
    std::string name;
    double x, y;
  };
  std::vector<Entry> legend(double y) const {
    std::vector<Entry> entries;
    double x = kLeft;
    for (const std::string& name : names_) {
      const double width = 34 + width_of(shown_name(name));
      if (x > kLeft && x + width > kWidth) {
        x = kLeft;
        y += kLegendLine;
      }
      entries.push_back({name, x, y});
      x += width;
    }
    return entries;
  }

  static std::string rectangle(Index style, double x, double y, double width, double height,
                               const std::string& hover) {
    return "<rect class=\"hc-area " + colour(style) + "\" x=\"" + number(x) + "\" y=\"" +
           number(y) + "\" width=\"" + number(width) + "\" height=\"" + number(height) + "\">" +
           title(hover) + "</rect>\n";
  }

  double trained_;                  // tokens
  double cache_height_;             // units: height of a cache that holds all tokens
  double gap_ = 0, scale_ = 0;      // units: gap between layers, width of a number
  std::vector<std::string> names_;  // of blocks, in the order of their colours
  std::string out_;
};

}  // namespace

Index numbers_at_context(const std::vector<CacheLayer>& cache, Index context) {
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
