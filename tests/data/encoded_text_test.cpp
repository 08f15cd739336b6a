// Files as tokens: read piece by piece, and the same as if read at once.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "data/corpus.h"
#include "data/encoded_file.h"
#include "data/memory_limit.h"
#include "data/temporary_folder.h"

namespace headcount {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;  // no file of a test fits into one

// Characters of one to four bytes, more than two pieces of them.
std::string characters_of_every_length() {
  std::string text;
  while (text.size() < 3 * kPiece) text += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  return text;
}

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("text", bytes);
  try {
    encode_file(path);
  } catch (const DataError& error) {
    std::string message = error.what();
    return message.replace(message.find(path), path.size(), "text");
  }
  return "no error";
}

void expect_same(const EncodedText& a, const EncodedText& b) {
  EXPECT_EQ(a.sha256, b.sha256);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_TRUE(a.tokens == b.tokens);
}

TEST(EncodedText, NumbersItsCharactersInAscendingOrder) {
  const EncodedText text = encode_text("ba\xC3\xA9na", "x");
  EXPECT_EQ(text.vocabulary.symbols(), U"abn\u00E9");
  EXPECT_EQ(text.tokens, (std::vector<std::int32_t>{1, 0, 3, 2, 0}));
  EXPECT_EQ(text.sha256, sha256_hex("ba\xC3\xA9na"));
}

TEST(EncodedText, ReadsLineEndsAsUnixHasThemOrKeepsThem) {
  const std::u32string text = U"\r\na\r\n\rb\r\r\n\n\r";
  for (const bool unix_newlines : {false, true}) {
    const std::string read = unix_newlines ? "\na\n\rb\r\n\n\r" : "\r\na\r\n\rb\r\r\n\n\r";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      TextEncoder encoder(0, unix_newlines);
      encoder.add(text.substr(0, cut));
      encoder.add(text.substr(cut));
      const EncodedText encoded = std::move(encoder).finish("");
      EXPECT_EQ(encoded.vocabulary.decode(encoded.tokens), read) << cut;
      EXPECT_EQ(encoded.line_ends, 3) << cut;
    }
  }
  EXPECT_EQ(encode_text("a\r\n", "x", true).vocabulary.symbols(), U"\na");
}

TEST(EncodedFile, TakesASecondFileAfterTheFirst) {
  const TemporaryFolder folder;
  const std::string a = "ab\r", b = "\nc";  // no line end of either file
  const EncodedText both = encode_file(folder.file("a", a), true, folder.file("b", b));
  EXPECT_EQ(both.vocabulary.decode(both.tokens), a + b);
  EXPECT_EQ(both.first, a.size());
  EXPECT_EQ(both.line_ends, 0);
  EXPECT_EQ(both.sha256, sha256_hex(a) + "+" + sha256_hex(b));
}

TEST(EncodedFile, IsTheTextHoweverItsCharactersAreCutIntoPieces) {
  const TemporaryFolder folder;
  for (int shift = 0; shift < 10; ++shift) {
    const std::string bytes =
        std::string(static_cast<std::size_t>(shift), '-') + characters_of_every_length();
    const EncodedText read = encode_file(folder.file("text", bytes));
    expect_same(read, encode_text(bytes, "x"));
    EXPECT_EQ(read.vocabulary.decode(read.tokens), bytes) << shift;
  }
}

TEST(EncodedFile, MayBeAPipe) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "pipe", bytes = characters_of_every_length();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << bytes; });
  const EncodedText read = encode_file(path);
  writer.join();
  expect_same(read, encode_text(bytes, "x"));
}

TEST(EncodedFile, NamesTheOffsetOfWhatIsNoText) {
  const std::string start = characters_of_every_length(), at = std::to_string(start.size());
  const std::string not_utf8 =
      "'text' is not UTF-8: invalid byte at offset " + at + "; convert it, e.g. with iconv";
  for (const char* wrong : {"\xE9 au lait", "\xFF", "\xE2\x82", "\xF0\x9F\x98", "\x80"})
    EXPECT_EQ(error_of(start + wrong), not_utf8);
  EXPECT_EQ(error_of(start + std::string("\0\xFF", 2)),
            "'text' looks like a binary file: NUL byte at offset " + at + "; name a text file");
  EXPECT_EQ(error_of(""), "'text' is empty; name a file with text in it");
}

TEST(Recode, KeepsTheCharactersOfTokens) {
  const Vocabulary from(U"abc"), to(U"xcbya");
  std::vector<std::int32_t> tokens = {0, 2, 1, 0};
  recode(tokens, from, to);
  EXPECT_EQ(to.decode(tokens), "acba");
  EXPECT_THROW(recode(tokens, to, from), DataError);  // it lacks x and y
}

#ifdef HEADCOUNT_MEMORY_LIMIT
TEST(LongText, TakesTheMemoryOfItsTokensAndOfTheTextOnce) {
  const std::size_t size = std::size_t{64} << 20;
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < size) text += "All work and no play makes Jack a dull boy.\n";
  const std::string path = folder.file("text", text);
  text = std::string();
  EXPECT_EXIT(expect_enough_memory((sizeof(std::int32_t) + 1) * size, [&] { load_corpus(path); }),
              testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace headcount
