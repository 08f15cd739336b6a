#include "models/checkpoint/durable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/files.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/faults.h"
#include "support/message_of.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// Relative paths and texts of all files and folders in a folder; folders have no text.
using Contents = std::map<std::string, std::string>;

class DurableTest : public testing::Test {
 protected:
  Contents contents() const {
    Contents all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      all[entry.path().lexically_relative(folder_).string()] =
          entry.is_directory() ? "" : read_file(entry.path());
    return all;
  }
  // Makes each of the `calls` system calls of `write` fail, one at a time. Afterwards there must be
  // all that is written or all that was there before, and the error must name the file written.
  void expect_all_or_nothing(int calls, const auto& prepare, const auto& write) const {
    write();
    const Contents after = contents();
    for (const int error : {ENOSPC, EIO}) {
      for (int call = 0; call <= calls; ++call) {
        prepare();
        const Contents before = contents();
        Faults faults(call, error);
        try {
          write();
        } catch (const WriteError& thrown) {
          const fs::path path = thrown.path();
          EXPECT_EQ(thrown.what(), "cannot write " + path.string() + ": " + std::strerror(error));
          EXPECT_EQ(thrown.error_number(), error);
          EXPECT_TRUE(after.contains(path.lexically_relative(folder_).string())) << path;
          EXPECT_TRUE(call != 2 || path.filename() == "config.json") << path;
        }
        EXPECT_EQ(faults.failed, call < calls) << call;
        EXPECT_EQ(contents(), faults.renamed() ? after : before) << call;
      }
    }
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

using DurableFileTest = DurableTest;
using WriteFileDurably = DurableTest;
using PublishFolder = DurableTest;

void fill_checkpoint(const fs::path& staging) {
  for (const char* name : {"config.json", "tokenizer.json"}) {
    DurableFile file(staging / name);
    file.write("{}");
    file.flush();
  }
}

const Contents kCheckpoint = {
    {"step-1", ""}, {"step-1/config.json", "{}"}, {"step-1/tokenizer.json", "{}"}};

TEST_F(DurableFileTest, SurvivesShortWritesAndInterruptions) {
  for (int call = 0; call < 12; ++call) {
    Faults faults(call, EINTR);
    faults.longest_write = 2;
    write_file_durably(folder_ / "a", "0123456789");
    EXPECT_EQ(contents(), (Contents{{"a", "0123456789"}}));
  }
}

TEST_F(WriteFileDurably, FlushesTheFileBeforeItsNameAndTheNameAfter) {
  Faults faults;
  write_file_durably(folder_ / "a", "text");
  const std::vector<std::string> expected = {"open", "write", "fsync", "rename", "open", "fsync"};
  EXPECT_EQ(faults.log, expected);
}

TEST_F(WriteFileDurably, KeepsTheOldFileWhateverCallFails) {
  const fs::path path = folder_ / "config.json";
  expect_all_or_nothing(
      6, [&] { write_file_durably(path, "old"); }, [&] { write_file_durably(path, "new"); });
}

TEST_F(WriteFileDurably, TakesABareNameAndReplacesWhatACrashLeftBehind) {
  std::ofstream(folder_ / ".a.partial") << "a much longer half-written file";
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_durably("a", "new");
  fs::current_path(before);
  EXPECT_EQ(contents(), (Contents{{"a", "new"}}));
}

TEST_F(WriteFileDurably, ReplacesNoLinkPipeOrFolder) {
  fs::create_symlink("there", folder_ / "link");
  fs::create_symlink("link", folder_ / "second");
  for (const char* text : {"new", "newer"}) {  // the target is absent, then there
    write_file_durably(folder_ / "second", text);
    EXPECT_EQ(read_file(folder_ / "there"), text);
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "link") && fs::is_symlink(folder_ / "second"));
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file_durably(pipe, "text");
  char read[5] = "";
  EXPECT_EQ(::read(reader, read, 4), 4);
  EXPECT_STREQ(read, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::remove(pipe);
  fs::create_directory(folder_ / "folder");
  fs::create_symlink("loop", folder_ / "loop");
  for (const auto& [name, error] : {std::pair("folder", EISDIR), {"loop", ELOOP}}) {
    EXPECT_EQ(message_of<WriteError>([&, path = folder_ / name] { write_file_durably(path, ""); }),
              "cannot write " + (folder_ / name).string() + ": " + std::strerror(error));
  }
}

TEST_F(PublishFolder, PublishesEverythingOrNothing) {
  const fs::path step = folder_ / "step-1";
  expect_all_or_nothing(
      12, [&] { fs::remove_all(step); }, [&] { publish_folder(step, fill_checkpoint); });
}

TEST_F(PublishFolder, FlushesEveryFileAndFolderBeforeTheRename) {
  Faults faults;
  publish_folder(folder_ / "step-1", fill_checkpoint);
  const auto renamed = std::ranges::find(faults.log, "rename");
  // The two files, by their writer, and the folder.
  EXPECT_EQ(std::count(faults.log.begin(), renamed, "fsync"), 3);
  EXPECT_EQ(std::count(renamed, faults.log.end(), "fsync"), 1);
}

TEST_F(PublishFolder, PassesOnWhatFillThrowsAndCleansUp) {
  EXPECT_THROW(publish_folder(folder_ / "step-1",
                              [](const fs::path& staging) {
                                fill_checkpoint(staging);
                                throw ShapeError("no such shape");
                              }),
               ShapeError);
  EXPECT_EQ(contents(), Contents());
}

TEST_F(PublishFolder, LeavesAnExistingFolderAlone) {
  publish_folder(folder_ / "step-1", fill_checkpoint);
  fs::create_directory(folder_ / "empty");
  for (const char* name : {"step-1", "empty"}) {
    EXPECT_EQ(message_of<WriteError>([&] {
                publish_folder(folder_ / name,
                               [](const fs::path&) { FAIL() << "fill was called"; });
              }),
              "cannot write " + (folder_ / name).string() + ": " + std::strerror(EEXIST));
  }
  fs::remove(folder_ / "empty");
  EXPECT_EQ(contents(), kCheckpoint);
}

TEST_F(PublishFolder, TakesATrailingSlashAndReplacesWhatACrashLeftBehind) {
  fs::create_directory(folder_ / ".step-1.partial");
  std::ofstream(folder_ / ".step-1.partial" / "stale") << "stale";
  publish_folder(folder_ / "step-1" / "", fill_checkpoint);
  EXPECT_EQ(contents(), kCheckpoint);
}

TEST_F(PublishFolder, ToleratesFileSystemsThatCannotFlushFolders) {
  before_system_call() = [](std::string_view call, std::size_t&) {
    return call == "fsync" ? EINVAL : 0;
  };
  publish_folder(folder_ / "step-1", fill_checkpoint);
  before_system_call() = nullptr;
  EXPECT_EQ(contents(), kCheckpoint);
}

}  // namespace
}  // namespace headcount
