#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// What a document of a user's text is: the whole text, a line, or the lines between blank ones.
enum class Documents { one, lines, paragraphs };
/// Each, by its name in settings and checkpoints.
inline constexpr std::pair<std::string_view, Documents> kKindsOfDocuments[] = {
    {"one", Documents::one}, {"lines", Documents::lines}, {"paragraphs", Documents::paragraphs}};

/// Characters that end a document and, the last of them alone, begin the next: a sample that begins
/// with "\n" and ends with them is one document. Empty for Documents::one.
std::u32string_view end_of_document(Documents documents);

/// Text of documents, one after the other.
struct DividedText {
  /// "\n", then each document and its end. Blank lines, of spaces alone, are in no document.
  std::vector<std::int32_t> points;
  /// Positions of the "\n" before each document. A document and its end are what follows, up to
  /// and with the next of these positions.
  std::vector<Index> starts;
};

/// Divides a text into `documents`, which are lines or paragraphs.
DividedText divide(std::span<const std::int32_t> text, Documents documents);

}  // namespace headcount
