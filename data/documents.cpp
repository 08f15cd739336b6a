#include "data/documents.h"

#include <algorithm>

namespace headcount {

std::u32string_view end_of_document(Documents documents) {
  if (documents == Documents::one) return U"";
  return documents == Documents::lines ? U"\n" : U"\n\n";
}

DividedText divide(std::span<const std::int32_t> text, Documents documents) {
  const auto is_space = [](std::int32_t c) { return c == ' ' || c == '\t' || c == '\r'; };
  DividedText divided;
  std::vector<std::int32_t>& points = divided.points;
  points.reserve(text.size() + 3);
  points.push_back('\n');
  bool inside = false;  // a document has begun
  const auto end_paragraph = [&] {
    if (inside && documents == Documents::paragraphs) points.push_back('\n');
    inside = false;
  };
  for (auto line = text.begin(); line != text.end();) {
    const auto end = std::find(line, text.end(), '\n');
    if (std::all_of(line, end, is_space)) {
      end_paragraph();
    } else {
      if (!inside) divided.starts.push_back(std::ssize(points) - 1);
      inside = documents == Documents::paragraphs;
      points.insert(points.end(), line, end);
      points.push_back('\n');
    }
    line = end == text.end() ? end : end + 1;
  }
  end_paragraph();
  return divided;
}

}  // namespace headcount
