#include "data/documents.h"

#include <gtest/gtest.h>

#include <string>

namespace headcount {
namespace {

DividedText divided(const std::u32string& text, Documents documents) {
  return divide(std::vector<std::int32_t>(text.begin(), text.end()), documents);
}

TEST(Documents, AreLinesOrParagraphsWithoutBlankLines) {
  const struct {
    std::u32string text;
    Documents documents;
    std::u32string points;
    std::vector<Index> starts;
  } cases[] = {{U"ab\nc\n", Documents::lines, U"\nab\nc\n", {0, 3}},
               {U"\n\nab\n \t\r\n\nc", Documents::lines, U"\nab\nc\n", {0, 3}},
               {U"ab\nc\n", Documents::paragraphs, U"\nab\nc\n\n", {0}},
               {U"\n \nab\nc\n\n \n\nd", Documents::paragraphs, U"\nab\nc\n\nd\n\n", {0, 6}},
               {U" a \n", Documents::lines, U"\n a \n", {0}},
               {U"\n \n", Documents::lines, U"\n", {}},
               {U"", Documents::paragraphs, U"\n", {}}};
  for (const auto& [text, documents, points, starts] : cases) {
    const DividedText all = divided(text, documents);
    EXPECT_TRUE(std::u32string(all.points.begin(), all.points.end()) == points);
    EXPECT_EQ(all.starts, starts);
    const std::u32string_view end = end_of_document(documents);
    EXPECT_EQ(points.ends_with(end) || starts.empty(), true);
    EXPECT_EQ(end.back(), points.front()) << "what ends a document begins the next";
  }
  EXPECT_TRUE(end_of_document(Documents::one).empty());
}

}  // namespace
}  // namespace headcount
