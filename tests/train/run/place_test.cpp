// What `--out` and `--force` may touch.
#include "train/run/place.h"

#include <sys/stat.h>

#include <vector>

#include "support/message_of.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

TEST(Force, ReplacesNoFolderThatIsNoRun) {
  const TrainFolder folder;
  for (const std::string name : {"samples/music.wav", "checkpoints/mymodel.pt", "run.json",
                                 "checkpoints/step-3/model.safetensors", "config.json"}) {
    fs::remove_all(folder / "mine");
    fs::create_directories((folder / "mine" / name).parent_path());
    folder.file("mine/" + name, "{\"mine\": 1}");
    folder.expect_refusal(TrainFolder::train_line("--out mine --force"), kUsage,
                          {"--out mine", "no run"});
    EXPECT_EQ(folder.contents("mine/" + name), "{\"mine\": 1}");
  }
}

TEST(Force, RemovesARunAloneInItsFolder) {
  const TrainFolder folder;
  folder.trained("--out run --quiet");
  folder.file("run/notes", "mine");
  folder.expect_refusal(TrainFolder::train_line("--out run --quiet --steps 2 --force"), kUsage,
                        {"--out run has notes, which no run writes; move it away"});
  EXPECT_EQ(folder.contents("run/notes"), "mine");
  EXPECT_TRUE(folder.has("run/checkpoints/step-3/model.safetensors"));
  fs::remove(folder / "run/notes");
  // Partial files, as a crash leaves them.
  fs::create_directory(folder / "run/checkpoints/.step-4.partial");
  folder.file("run/.metrics.jsonl.partial", "{");
  folder.trained("--out run --quiet --steps 2 --force");
  for (const char* name : {"samples/step-3.txt", "checkpoints/step-3",
                           "checkpoints/.step-4.partial", ".metrics.jsonl.partial"})
    EXPECT_FALSE(folder.has("run/" + std::string(name))) << name;
  EXPECT_TRUE(folder.has("run/checkpoints/step-2"));
}

// Nobody is kept from reading who is root.
class AsSomeoneElse {
 public:
  AsSomeoneElse() { EXPECT_EQ(user_ == 0 ? seteuid(65534) : 0, 0); }
  ~AsSomeoneElse() { EXPECT_EQ(seteuid(user_), 0); }

 private:
  uid_t user_ = geteuid();
};

// What keeps someone else from a new run in `folder` if `closed` cannot be read.
std::string refusal(const fs::path& folder, const fs::path& closed) {
  chmod(folder.parent_path().c_str(), 0755);
  chmod(folder.c_str(), 0777);
  chmod(closed.c_str(), 0);
  const AsSomeoneElse user;
  return message_of([&] { lock_for_new_run(folder, EarlierRun::replace); });
}

TEST(Force, LeavesARunWholeWhoseCheckpointsItCannotRead) {
  const TrainFolder folder;
  folder.trained("--out run --quiet");
  chmod((folder / "run" / kLockFile).c_str(), 0666);
  expect_parts(refusal(folder / "run", folder / "run/checkpoints"), {"run/checkpoints"});
  chmod((folder / "run/checkpoints").c_str(), 0755);
  for (const char* file : {"metrics.jsonl", "run.json", "checkpoints/step-3/model.safetensors"})
    EXPECT_TRUE(folder.has(std::string("run/") + file)) << file;
}

TEST(Out, ThatCannotBeReadIsNotTakenForOneThatIsFull) {
  const TemporaryFolder parent;
  const fs::path folder = parent.path() / "closed";
  fs::create_directory(folder);
  EXPECT_EQ(refusal(folder, folder),
            "`out` " + folder.string() + " cannot be read: Permission denied; name another");
}

TEST(Out, TakesAFolderInWhichARunHardlyBegan) {
  const TrainFolder folder;
  fs::create_directory(folder / "run");
  folder.file(std::string("run/") + kLockFile, "process 1 on host");
  folder.file("run/.run.json.partial", "{");
  folder.trained("--out run --quiet");
}

TEST(Out, OfAComparisonKeepsFilesThatNoComparisonWrote) {
  const TrainFolder folder;
  const std::string line = TrainFolder::compare_line("--out mine");
  for (const std::string file : {"report.html", "results.json"}) {
    fs::remove_all(folder / "mine");
    fs::create_directory(folder / "mine");
    folder.file("mine/" + file, "{\"mine\": 1}");
    for (const char* force : {"", " --force"})
      folder.expect_refusal(line + force, kUsage,
                            {"--out mine has a " + file + " that no comparison wrote"});
    EXPECT_EQ(folder.contents("mine/" + file), "{\"mine\": 1}");
    EXPECT_FALSE(folder.has("mine/runs")) << file;
  }
  folder.file("mine/notes", "of mine");
  fs::remove(folder / "mine/results.json");
  for (int i = 0; i < 2; ++i) folder.done(line);
  EXPECT_EQ(folder.contents("mine/notes"), "of mine");
}

TEST(FolderOfARun, IsCalledByTheWholeWordOfItsAttention) {
  const TrainFolder folder;
  for (const char* of : {"", "-2"}) {
    folder.done(TrainFolder::train_line("--quiet --attention mla16+2@8"));
    EXPECT_TRUE(folder.has(std::string("runs/text-mla16+2@8") + of));
  }
}

}  // namespace
}  // namespace headcount
