#include "models/checkpoint/durable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/faults.h"
#include "support/message_of.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// Relative paths of everything under `folder`, sorted.
std::vector<std::string> listing(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  return names;
}

class DurableTest : public testing::Test {
 protected:
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

const std::vector<std::string> checkpoint_listing = {"step-1", "step-1/config.json",
                                                     "step-1/tokenizer.json"};

TEST_F(DurableFileTest, HoldsWhatWasWrittenInOrder) {
  DurableFile file(folder_ / "a");
  file.write("one ");
  file.write(std::string_view("\0\n", 2));
  file.write(std::as_bytes(std::span("two", 3)));
  file.flush();
  EXPECT_EQ(read_file(folder_ / "a"), std::string("one \0\ntwo", 9));
}

TEST_F(DurableFileTest, SurvivesShortWritesAndInterruptions) {
  for (int call = 0; call < 12; ++call) {
    Faults faults(call, EINTR);
    faults.longest_write = 2;
    write_file_durably(folder_ / "a", "0123456789");
    EXPECT_EQ(read_file(folder_ / "a"), "0123456789");
    EXPECT_EQ(listing(folder_), std::vector<std::string>{"a"});
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
  for (const int error : {ENOSPC, EIO}) {
    int failing_call = 0;
    for (bool failed = true; failed; ++failing_call) {
      write_file_durably(path, "old");
      Faults faults(failing_call, error);
      try {
        write_file_durably(path, "new");
      } catch (const WriteError& thrown) {
        EXPECT_EQ(thrown.what(), "cannot write " + path.string() + ": " + std::strerror(error));
        EXPECT_EQ(thrown.error_number(), error);
        EXPECT_EQ(thrown.path(), path);
      }
      failed = faults.failed;
      EXPECT_EQ(read_file(path), faults.renamed() ? "new" : "old");
      EXPECT_EQ(listing(folder_), std::vector<std::string>{"config.json"});
    }
    EXPECT_EQ(failing_call, 7) << "six calls can fail, the seventh attempt succeeds";
  }
}

TEST_F(WriteFileDurably, TakesABareNameAndReplacesWhatACrashLeftBehind) {
  std::ofstream(folder_ / ".a.partial") << "a much longer half-written file";
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_durably("a", "new");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(listing(folder_), std::vector<std::string>{"a"});
}

TEST_F(WriteFileDurably, NamesAMissingFolderAndRefusesAFolderOfThatName) {
  const fs::path path = folder_ / "none" / "a";
  EXPECT_EQ(message_of<WriteError>([&] { write_file_durably(path, "text"); }),
            "cannot write " + path.string() + ": No such file or directory");
  fs::create_directory(folder_ / "a");
  EXPECT_THROW(write_file_durably(folder_ / "a", "text"), WriteError);
  EXPECT_EQ(listing(folder_), std::vector<std::string>{"a"});
}

TEST_F(PublishFolder, PublishesEverythingOrNothing) {
  for (const int error : {ENOSPC, EIO}) {
    int failing_call = 0;
    for (bool failed = true; failed; ++failing_call) {
      fs::remove_all(folder_ / "step-1");
      Faults faults(failing_call, error);
      try {
        publish_folder(folder_ / "step-1", fill_checkpoint);
      } catch (const WriteError& thrown) {
        const std::string message = thrown.what();
        EXPECT_TRUE(message.starts_with("cannot write " + thrown.path().string())) << message;
        const fs::path named = thrown.path().lexically_relative(folder_);
        EXPECT_TRUE(std::ranges::count(checkpoint_listing, named.string()) > 0) << message;
        if (failing_call == 2) {  // after mkdir and open
          EXPECT_EQ(named, "step-1/config.json");
        }
        EXPECT_TRUE(message.ends_with(std::strerror(error))) << message;
        EXPECT_EQ(message.find(".partial"), std::string::npos) << message;
      }
      failed = faults.failed;
      EXPECT_EQ(listing(folder_),
                failed && !faults.renamed() ? std::vector<std::string>{} : checkpoint_listing);
    }
    EXPECT_EQ(failing_call, 13) << "twelve calls can fail, the thirteenth attempt succeeds";
  }
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
  EXPECT_EQ(listing(folder_), std::vector<std::string>{});
}

TEST_F(PublishFolder, LeavesAnExistingFolderAlone) {
  publish_folder(folder_ / "step-1", fill_checkpoint);
  fs::create_directory(folder_ / "empty");
  for (const char* name : {"step-1", "empty"}) {
    try {
      publish_folder(folder_ / name, [](const fs::path&) { FAIL() << "fill was called"; });
      FAIL() << "did not throw";
    } catch (const WriteError& thrown) {
      EXPECT_EQ(thrown.error_number(), EEXIST);
    }
  }
  fs::remove(folder_ / "empty");
  EXPECT_EQ(listing(folder_), checkpoint_listing);
}

TEST_F(PublishFolder, TakesATrailingSlashAndReplacesWhatACrashLeftBehind) {
  fs::create_directory(folder_ / ".step-1.partial");
  std::ofstream(folder_ / ".step-1.partial" / "stale") << "stale";
  publish_folder(folder_ / "step-1" / "", fill_checkpoint);
  EXPECT_EQ(listing(folder_), checkpoint_listing);
}

TEST_F(PublishFolder, ToleratesFileSystemsThatCannotFlushFolders) {
  before_system_call() = [](std::string_view call, std::size_t&) {
    return call == "fsync" ? EINVAL : 0;
  };
  publish_folder(folder_ / "step-1", fill_checkpoint);
  before_system_call() = nullptr;
  EXPECT_EQ(listing(folder_), checkpoint_listing);
}

}  // namespace
}  // namespace headcount
