#include "train/report/try_link.h"

#include <algorithm>
#include <string_view>

#include "autograd/base/text.h"

namespace headcount {

namespace {

// Text with all but the unreserved characters of RFC 3986 as %XX.
std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kMarks = "-._~";
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter || (c >= '0' && c <= '9') || kMarks.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += formatted("%%%02X", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

std::string try_link(const ComparisonResult& result) {
  nlohmann::ordered_json asked = {{"settings", result.config},
                                  {"attentions", nlohmann::ordered_json::array()}};
  for (const VariantResult& variant : result.variants) {
    if (variant.trained_on || !variant.adjusted.empty()) return "";
    asked["attentions"].push_back(variant.spec);
  }
  const std::string json =
      asked.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return "<p><a href=\"" + std::string(kTrainingPage) + "#settings=" + percent_encoded(json) +
         "\">Try it</a>: train these attentions in a browser, and ask them.</p>\n";
}

}  // namespace headcount
