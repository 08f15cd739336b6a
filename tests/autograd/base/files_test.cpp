#include "autograd/base/files.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <new>
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
  for (const char* name : {"absent", "a"})
    EXPECT_NE(message_of([&] { entries_of(path / name); }).find("cannot be read"),
              std::string::npos);
}

TEST(IsThere, ToldApartFromWhatCannotBeLookedAt) {
  const TemporaryFolder folder;
  folder.file("file", "text");
  EXPECT_TRUE(is_there(folder.path()));
  EXPECT_TRUE(is_there(folder.path() / "file"));
  EXPECT_FALSE(is_there(folder.path() / "other"));
  EXPECT_FALSE(is_there(folder.path() / "file/in/it"));
  EXPECT_NE(message_of<DataError>([&] {
              is_there(folder.path() / std::string(300, 'x'));
            }).find("xx' cannot be read: File name too long"),
            std::string::npos);
}

TEST(ReadFile, ReturnsTheBytesAsTheyAre) {
  const std::string bytes("a\r\n\0\xff z\n", 8);
  const TemporaryFolder folder;
  EXPECT_EQ(read_file(folder.file("bytes", bytes)), bytes);
}

TEST(ReadFile, NamesAMissingFileAFolderAndAnEmptyFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("empty", "");
  for (const auto& [name, message] :
       {std::pair<std::string, std::string>{"no/such.txt",
                                            "there is no file 'no/such.txt'; check the path"},
        {".", "'.' is a folder; name a file in it"},
        {path, "'" + path + "' is empty; name a file with text in it"}})
    EXPECT_EQ(message_of([&name = name] { read_file(name); }), message);
}

TEST(ReadFile, NamesAnUnreadableFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("unreadable", "secret");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  constexpr uid_t kNobody = 65534;  // root may read everything
  const int own_user = setfsuid(kNobody);
  const std::string error = message_of([&] { read_file(path); });
  setfsuid(static_cast<uid_t>(own_user));
  EXPECT_EQ(error, "'" + path + "' cannot be read: Permission denied; check its permissions");
}

TEST(ReadFile, ReadsAPipeToItsEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string text(3000, 'x');
  ASSERT_EQ(write(ends[1], text.data(), text.size()), 3000);
  close(ends[1]);
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0])), text);
  close(ends[0]);
}

#ifdef HEADCOUNT_MEMORY_LIMIT
// If only half of a file were read, nothing would show it: half a text is a text, too.
TEST(VastFile, ThatMemoryCannotHoldIsNoShorterFile) {
  constexpr std::size_t kSize = std::size_t{256} << 20;  // of holes: no disk needed
  const TemporaryFolder folder;
  const std::string path = folder.file("vast", "a");
  std::filesystem::resize_file(path, kSize);
  EXPECT_EXIT(expect_out_of_memory(kSize / 2, [&] { read_file(path); }), testing::ExitedWithCode(0),
              "");
}
#endif

TEST(Utf8, RoundTripsEveryLengthOfCharacter) {
  const std::string bytes = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\n";
  const std::u32string text = U"a\u00E9\u20AC\U0001F600\n";
  EXPECT_EQ(decode_utf8(bytes, "x"), text);
  EXPECT_EQ(encode_utf8(text), bytes);
}

TEST(Utf8, NamesSourceAndOffsetOfAnInvalidByte) {
  const auto decode = [](const std::string& bytes) {
    return message_of([&] { decode_utf8(bytes, "old.txt"); });
  };
  for (const auto& [bytes, offset] : {std::pair{"caf\xE9 au lait", 3},
                                      {"\xFF\xFE"
                                       "a",
                                       0},
                                      {"ab\xE2\x82", 2},
                                      {"\xC0\xAF", 0},
                                      {"a\xED\xA0\x80", 1}})
    EXPECT_EQ(decode(bytes), "'old.txt' is not UTF-8: invalid byte at offset " +
                                 std::to_string(offset) + "; convert it, e.g. with iconv");
}

TEST(Utf8, TakesANulByteForABinaryFile) {
  EXPECT_EQ(message_of([] { decode_utf8(std::string("ELF\0\xFF", 5), "a.out"); }),
            "'a.out' looks like a binary file: NUL byte at offset 3; name a text file");
}

TEST(Utf8, RefusesToEncodeWhatIsNoCharacter) {
  EXPECT_NE(message_of([] { encode_utf8(std::u32string(1, char32_t{0xD800})); }), "no error");
  EXPECT_NE(message_of([] { encode_utf8(std::u32string(1, char32_t{0x110000})); }), "no error");
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
