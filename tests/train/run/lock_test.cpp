// One process at a time writes a folder.
#include "train/run/lock.h"

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "models/checkpoint/durable.h"
#include "support/message_of.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// A program under way, which stands still in its seventh step; ended as a crash would.
class Running {
 public:
  Running(const TrainFolder& folder, const std::string& line) : process_(folder.halted(line, 7)) {}
  ~Running() { stop(); }
  std::string name() const { return "process " + std::to_string(process_) + " on "; }
  void stop() {
    const pid_t process = std::exchange(process_, 0);
    if (process == 0) return;
    kill(process, SIGKILL);
    EXPECT_EQ(exit_code_of(process), 128 + SIGKILL);
  }

 private:
  pid_t process_;
};

// What keeps a folder from being locked.
std::string refusal(const fs::path& folder) {
  return message_of([&] { const FolderLock lock(folder); });
}

TEST(FolderLock, IsGivenToOneAtATime) {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "run";
  std::optional<FolderLock> lock(folder);
  expect_parts(refusal(folder),
               {folder.string() + " is in use by process " + std::to_string(getpid()) + " on ",
                " since 20"});
  const std::optional<FolderLock> copy = lock;  // copies share one lock
  lock.reset();
  EXPECT_THROW(const FolderLock third(folder), LockedError);
}

TEST(FolderLock, IsSharedByThoseThatAskForMany) {
  const TemporaryFolder folder;
  std::optional first = FolderLock(folder.path(), FolderLock::Holders::many);
  std::optional second = FolderLock(folder.path(), FolderLock::Holders::many);
  first.reset();
  EXPECT_THROW(const FolderLock alone(folder.path()), LockedError);
  second.reset();
  EXPECT_EQ(refusal(folder.path()), "no error");
}

TEST(FolderLock, OfAFileSystemWithoutLocksNamesTheSettingThatGoesOnWithout) {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    const TemporaryFolder folder;
    before_system_call() = [error](std::string_view call, std::size_t&) {
      return call == "flock" ? error : 0;
    };
    expect_parts(refusal(folder.path()), {"cannot lock ", "set `lock` off"});
    use_folder_locks(false);
    EXPECT_EQ(refusal(folder.path()), "no error");
    before_system_call() = nullptr;
    use_folder_locks(true);
    EXPECT_TRUE(fs::exists(folder.path() / kLockFile));  // it says who is there
  }
}

TEST(TwoProcesses, AreNotKeptApartWithoutLocks) {
  const TrainFolder folder;
  const FolderLock run(folder / "run"), compared(folder / "c");
  for (const std::string& line :
       {TrainFolder::train_line("--quiet --out run"), TrainFolder::compare_line("--out c")}) {
    folder.expect_refusal(line, kRuntime, {"in use by "});
    folder.done(line + " --lock off");
  }
}

TEST(TwoProcesses, CannotTrainInOneFolder) {
  const TrainFolder folder;
  Running first(folder, TrainFolder::train_line("--steps 20 --checkpoint-every 5 --out run"));
  const std::string config = folder.contents("run/run.json");
  for (const std::string& line :
       {TrainFolder::train_line("--out run --force --seed 2"),
        TrainFolder::train_line("--out ./../") + folder.path().filename().string() + "/run --force",
        std::string("train --quiet --resume run")}) {
    folder.expect_refusal(line, kRuntime, {"in use by " + first.name(), " since "});
  }
  // Readers need no lock.
  folder.done("sample --from run --tokens 2");
  folder.done("train --resume run --print-config");
  first.stop();
  EXPECT_EQ(folder.contents("run/run.json"), config);
  // The lock file that it left behind locks nothing.
  EXPECT_TRUE(folder.has(std::string("run/") + kLockFile));
  folder.trained("--out run --force --quiet");
}

TEST(TwoProcesses, CannotCompareOtherThingsInOneFolder) {
  const TrainFolder folder;
  Running first(folder, TrainFolder::compare_line("--steps 20 --out c"));
  folder.expect_refusal(
      TrainFolder::compare_line("--lr 1e-2 --steps 20 --out c"), kUsage,
      {"c/runs/mha/seed-1 is in use by another process for a run with lr 0.001, not 0.01; name "
       "another folder with --out, or add --force"});
  folder.expect_refusal(TrainFolder::compare_line("--steps 20 --out c --force"), kRuntime,
                        {"c is in use by another process; wait until that ends"});
  first.stop();
  folder.done(TrainFolder::compare_line("--out c"));
}

TEST(TwoProcesses, ThatNameNoFolderGetOneEach) {
  const TrainFolder folder;
  std::array<pid_t, 6> processes{};
  for (pid_t& process : processes)
    process = folder.start(TrainFolder::train_line("--quiet --attention mqa"));
  for (const pid_t process : processes) EXPECT_EQ(exit_code_of(process), 0);
  for (const std::string name : {"mqa", "mqa-2", "mqa-3", "mqa-4", "mqa-5", "mqa-6"})
    EXPECT_EQ(folder.metrics("runs/text-" + name).size(), 3u) << name;
}

}  // namespace
}  // namespace headcount
