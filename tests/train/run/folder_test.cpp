// Saving a checkpoint on a disk that fails at any moment.
#include "train/run/folder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "data/temporary_folder.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/faults.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

class RunFolderOnABadDisk : public testing::Test {
 protected:
  RunFolderOnABadDisk() {
    learner_.vocabulary = Vocabulary(U"abc");
    learner_.model = std::make_unique<LanguageModel>(options_.model, learner_.vocabulary.size());
    learner_.model->initialize(1);
    learner_.optimizer = options_.optimizer.make(learner_.model->parameters());
    // Flushing to the disk takes long, and no disk loses its power here.
    before_system_call() = [](std::string_view call, std::size_t&) {
      return call == "fsync" ? EINVAL : 0;  // not flushed, as on some network file systems
    };
  }
  ~RunFolderOnABadDisk() override { before_system_call() = nullptr; }

  RunFolder new_run(const std::string& name) const {
    return RunFolder::create(FolderLock(parent_.path() / name), options_, "hash", "command");
  }
  void save(RunFolder& folder, Index step) const {
    StepResult result;
    result.step = step;
    folder.log(result, std::nullopt, false);
    folder.save(learner_, result, std::nullopt);
  }

  TrainOptions options_ = resolve_training(Given(
      training_settings(), {{"layers", 1}, {"dim", 8}, {"context", 8}, {"heads", 2}, {"keep", 1}}));
  Learner learner_;
  TemporaryFolder parent_;
};

TEST_F(RunFolderOnABadDisk, LosesNoCheckpointWhicheverCallFails) {
  int names = 0;
  bool failed = true;
  for (const int error : {ENOSPC, EIO}) {
    failed = true;
    for (int call = 0; failed; ++call) {
      RunFolder folder = new_run("run-" + std::to_string(names++));
      save(folder, 1);
      {
        Faults faults(call, error);
        try {
          save(folder, 2);
        } catch (const WriteError& failure) {
          EXPECT_EQ(failure.error_number(), error);
          EXPECT_NE(std::string(failure.what()).find(std::strerror(error)), std::string::npos);
          EXPECT_TRUE(std::string(failure.what()).find(folder.path().string()) != std::string::npos)
              << failure.what();
          EXPECT_EQ(std::string(failure.what()).find(".partial"), std::string::npos)
              << failure.what();
        }
        failed = faults.failed;
      }
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
  EXPECT_GT(names, 2 * 14);  // a checkpoint is that many calls at least
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
