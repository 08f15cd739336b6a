#include "autograd/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "data/memory_limit.h"
#include "data/temporary_folder.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(EntriesOfAFolder, AreSortedAndNoneIsOverlooked) {
  const TemporaryFolder folder;
  for (const char* name : {"b", "a", ".c"}) folder.file(name, "text");
  const std::filesystem::path path = folder.path();
  EXPECT_EQ(entries_of(path),
            (std::vector<std::filesystem::path>{path / ".c", path / "a", path / "b"}));
  EXPECT_NE(message_of([&] { entries_of(path / "a"); }).find("cannot be read"), std::string::npos);
}

TEST(IsThere, ToldApartFromWhatCannotBeLookedAt) {
  const TemporaryFolder folder;
  folder.file("file", "text");
  EXPECT_TRUE(is_there(folder.path() / "file"));
  EXPECT_FALSE(is_there(folder.path() / "file/in/it"));
  EXPECT_THROW(is_there(folder.path() / std::string(300, 'x')), DataError);
}

TEST(ReadFile, SaysWhyItGivesNothing) {
  const TemporaryFolder folder;
  const std::string empty = folder.file("empty", "");
  std::vector<std::pair<std::string, std::string>> cases = {
      {"no/such.txt", "there is no file 'no/such.txt'; check the path"},
      {".", "'.' is a folder; name a file in it"},
      {empty, "'" + empty + "' is empty; name a file with text in it"}};
#ifdef __linux__  // elsewhere, sockets have other messages and memory is no file
  const std::string socket = folder.path() / "socket", unreadable = " cannot be read: ";
  ASSERT_EQ(mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  cases.emplace_back(
      socket, "'" + socket + "'" + unreadable + "No such device or address; check its permissions");
  cases.emplace_back("/proc/self/mem",
                     "'/proc/self/mem'" + unreadable + "Input/output error; check its permissions");
#endif
  for (const auto& [name, message] : cases)
    EXPECT_EQ(message_of([&name = name] { read_file(name); }), message);
}

#ifdef HEADCOUNT_MEMORY_LIMIT
// If only half of a file were read, nothing would show it: half a text is a text, too.
TEST(VastFile, ThatMemoryCannotHoldIsNoShorterFile) {
  constexpr std::size_t kSize = std::size_t{256} << 20;  // of holes: no disk needed
  const TemporaryFolder folder;
  const std::string path = folder.file("vast", "a");
  std::filesystem::resize_file(path, kSize);
  EXPECT_EXIT(run_with_memory(kSize / 2, [&] { read_file(path); }),
              testing::ExitedWithCode(kOutOfMemory), "");
}
#endif

TEST(Utf8, RoundTripsEveryLengthOfCharacter) {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\n";
  const std::u32string text = U"a\u00E9\u20AC\U0001F600\n";
  EXPECT_EQ(decode_utf8(bytes, "x"), text);
  EXPECT_EQ(encode_utf8(text), bytes);
}

TEST(Utf8, NamesSourceAndOffsetOfAnInvalidByte) {
  for (const auto& [bytes, offset] :
       {std::pair{"ab\xE2\x82", "2"}, {"\xC0\xAF", "0"}, {"a\xED\xA0\x80", "1"}})
    EXPECT_EQ(message_of([&, text = bytes] { decode_utf8(text, "old.txt"); }),
              "'old.txt' is not UTF-8: invalid byte at offset " + std::string(offset) +
                  "; convert it, e.g. with iconv");
}

TEST(Utf8, TakesANulByteForABinaryFile) {
  EXPECT_EQ(message_of([] { decode_utf8(std::string("ELF\0\xFF", 5), "a.out"); }),
            "'a.out' looks like a binary file: NUL byte at offset 3; name a text file");
}

TEST(Sha256, AgreesWithTheStandardsExamples) {  // FIPS 180-4 example vectors
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(CharacterCount, IsOfCodePointsAndOfWhatStandsForInvalidBytes) {
  EXPECT_EQ(character_count(""), 0u);
  EXPECT_EQ(character_count("caf\u00e9 \u00b1"), 6u);
  EXPECT_EQ(character_count("a\xff"), 2u);
}

}  // namespace
}  // namespace headcount
