// Texts as tokens.
#include "autograd/base/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "data/corpus.h"
#include "data/memory_limit.h"
#include "data/temporary_folder.h"
#include "data/vocabulary.h"
#include "support/message_of.h"

namespace headcount {
namespace {

// Characters of one to four bytes, many of each.
std::string characters_of_every_length() {
  std::string text;
  while (text.size() < 200'000) text += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  return text;
}

TEST(Characters, AreCodePointsWhoseVocabularyAscends) {
  const Characters text = read_characters("ba\xC3\xA9na", "x");
  EXPECT_EQ(text.points, (std::vector<std::int32_t>{'b', 'a', 0xE9, 'n', 'a'}));
  EXPECT_EQ(Vocabulary::of({text.points}).symbols(), U"abn\u00E9");
  EXPECT_EQ(text.sha256, sha256_hex("ba\xC3\xA9na"));
}

TEST(Characters, ReadsLineEndsAsUnixHasThemOrKeepsThem) {
  const std::string text = "\r\na\r\n\rb\r\r\n\n\r";
  for (const auto& [unix_newlines, read] :
       {std::pair(true, "\na\n\rb\r\n\n\r"), std::pair(false, text.c_str())}) {
    const Characters characters = read_characters(text, "x", unix_newlines);
    EXPECT_EQ(encode_utf8(std::u32string(characters.points.begin(), characters.points.end())),
              read);
    EXPECT_EQ(characters.line_ends, 3);
  }
}

TEST(Characters, NamesTheOffsetOfWhatIsNoText) {
  const auto error_of = [](const std::string& bytes) {
    return message_of<DataError>([&] { read_characters(bytes, "text"); });
  };
  const std::string start = characters_of_every_length(), at = std::to_string(start.size());
  const std::string not_utf8 =
      "'text' is not UTF-8: invalid byte at offset " + at + "; convert it, e.g. with iconv";
  for (const char* wrong : {"\xE9 au lait", "\xFF", "\xE2\x82", "\xF0\x9F\x98", "\x80"})
    EXPECT_EQ(error_of(start + wrong), not_utf8);
  EXPECT_EQ(error_of(start + std::string("\0\xFF", 2)),
            "'text' looks like a binary file: NUL byte at offset " + at + "; name a text file");
}

TEST(LoadedText, MayBeAPipe) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "pipe", bytes = characters_of_every_length();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << bytes; });
  const Corpus read = load_corpus(path);
  writer.join();
  EXPECT_EQ(read.sha256, sha256_hex(bytes));
}

TEST(AdoptVocabulary, KeepsTheCharactersOfTokens) {
  Corpus corpus;
  corpus.vocabulary = Vocabulary(U"abc");
  corpus.train.tokens = {0, 2, 1, 0};
  adopt_vocabulary(corpus, Vocabulary(U"xcbya"));
  EXPECT_EQ(corpus.vocabulary.decode(corpus.train.tokens), "acba");
  EXPECT_THROW(adopt_vocabulary(corpus, Vocabulary(U"abc")), DataError);  // it lacks x and y
}

#ifdef HEADCOUNT_MEMORY_LIMIT
TEST(LoadedText, TakesTheMemoryOfItsTokensAndAFewBytesMoreACharacter) {
  const std::size_t size = std::size_t{64} << 20;
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < size) text += "All work and no play makes Jack a dull boy.\n";
  const std::string path = folder.file("text", text);
  text = std::string();
  EXPECT_EXIT(expect_enough_memory((sizeof(std::int32_t) + 3) * size, [&] { load_corpus(path); }),
              testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace headcount
