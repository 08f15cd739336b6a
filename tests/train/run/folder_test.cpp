// Saving a checkpoint on a disk that fails, or by a process that is killed, at any moment.
#include "train/run/folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "autograd/parallel.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/faults.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class RunFolderOnABadDisk : public testing::Test {
 protected:
  RunFolderOnABadDisk() {
    set_threads(1);  // a process that is forked has no others
    learner_.vocabulary = Vocabulary(U"abc");
    learner_.model = std::make_unique<LanguageModel>(options_.model, learner_.vocabulary.size());
    learner_.model->initialize(1);
    learner_.optimizer = options_.optimizer.make(learner_.model->parameters());
    // Flushing to the disk takes long, and no disk loses its power here.
    before_system_call() = [](std::string_view call, std::size_t&) {
      return call == "fsync" ? EINVAL : 0;  // not flushed, as on some network file systems
    };
  }
  ~RunFolderOnABadDisk() override {
    before_system_call() = nullptr;
    set_threads(0);
  }

  RunFolder new_run(const std::string& name) const {
    return RunFolder::create(FolderLock(parent_.path() / name), options_, "hash", "command");
  }
  void save(RunFolder& folder, Index step) const {
    StepResult result;
    result.step = step;
    folder.log(result, std::nullopt, false);
    folder.save(learner_, result, std::nullopt);
  }

  // Saves step 2 with an error in a system call; returns false if there are fewer calls.
  bool fails(RunFolder& folder, int call, int error) {
    Faults faults(call, error);
    try {
      save(folder, 2);
    } catch (const WriteError& failure) {
      EXPECT_EQ(failure.error_number(), error);
      expect_parts(failure.what(), {std::strerror(error), folder.path()});
      expect_no_parts(failure.what(), {".partial"});
    }
    return faults.failed;
  }
  // Saves step 2 in a process that is killed before a system call; the same.
  bool is_killed(RunFolder& folder, int call) {
    const pid_t child = fork();
    if (child == 0) {
      before_system_call() = [call](std::string_view name, std::size_t&) mutable {
        if (call-- == 0) raise(SIGKILL);
        return name == "fsync" ? EINVAL : 0;
      };
      save(folder, 2);
      _exit(0);
    }
    return exit_code_of(child) == 128 + SIGKILL;
  }

  TrainOptions options_ = resolve_training(Given(
      training_settings(), {{"layers", 1}, {"dim", 8}, {"context", 8}, {"heads", 2}, {"keep", 1}}));
  Learner learner_;
  // In memory where that is possible: a file that is renamed over another waits for the disk.
  TemporaryFolder parent_{access("/dev/shm", W_OK) == 0 ? "/dev/shm" : testing::TempDir()};
};

TEST_F(RunFolderOnABadDisk, LosesNoCheckpointWhicheverCallFailsOrIsTheLast) {
  int names = 0;
  for (const int error : {ENOSPC, EIO, 0}) {
    bool failed = true;
    for (int call = 0; failed; ++call) {
      RunFolder folder = new_run("run-" + std::to_string(names++));
      save(folder, 1);
      failed = error == 0 ? is_killed(folder, call) : fails(folder, call, error);
      const auto newest = find_checkpoint(folder.path());
      ASSERT_TRUE(newest) << call;
      const Checkpoint read = load_checkpoint(*newest);
      const auto values = read.model->parameters().all_values();
      EXPECT_TRUE(std::ranges::equal(values, learner_.model->parameters().all_values())) << call;
      // Once there is room again, the run goes on.
      if (failed && *step_of(*newest) == 1) {
        save(folder, 2);
        EXPECT_EQ(*step_of(*find_checkpoint(folder.path())), 2);
      }
    }
  }
  EXPECT_GT(names, 3 * 14);  // a checkpoint is that many calls at least
}

TEST_F(RunFolderOnABadDisk, RemovesOldCheckpointsOnlyOnceTheNewOneIsThere) {
  RunFolder folder = new_run("run");
  save(folder, 1);
  {
    Faults faults(3, ENOSPC);
    EXPECT_THROW(save(folder, 2), WriteError);
  }
  EXPECT_TRUE(fs::exists(folder.checkpoint(1)));
  save(folder, 3);
  // Step 3 has given no loss yet: its weights may be those of a run that diverges.
  EXPECT_TRUE(fs::exists(folder.checkpoint(1)));
  save(folder, 4);
  EXPECT_FALSE(fs::exists(folder.checkpoint(1)));
  EXPECT_TRUE(fs::exists(folder.checkpoint(3)));
  folder.save(learner_, {.step = 5}, 2.0);  // with a validation loss
  EXPECT_FALSE(fs::exists(folder.checkpoint(3)));
  EXPECT_TRUE(fs::exists(folder.checkpoint(4)));
}

}  // namespace
}  // namespace headcount
