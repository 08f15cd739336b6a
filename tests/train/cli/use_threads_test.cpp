// Threads that the system refuses, or that get too little.
#include <unistd.h>

#include <tuple>

#include "data/memory_limit.h"
#include "train/run_program.h"

#ifdef _OPENMP  // without it there is one thread

namespace headcount {
namespace {

const std::string kTrainOnTwo = "headcount " + TrainFolder::train_line("--threads 2 --out run ");
std::string compare(const std::string& flags) {
  return "headcount " + TrainFolder::compare_line("--attention mha,mqa --out run " + flags);
}

TEST(Threads, WithTooSmallStacksAreRefusedAtTheStart) {
  const TrainFolder folder;
  for (const long kilobytes : {64, 128, 256}) {
    if (kilobytes * 1024 < sysconf(_SC_THREAD_STACK_MIN)) continue;  // OpenMP does not heed it
    const std::string size = std::to_string(kilobytes) + "k";
    for (const std::string& line : {kTrainOnTwo, compare("--threads 2")}) {
      const ProgramResult result = folder.shell("export OMP_STACKSIZE=" + size + "; " + line);
      expect_refusal(result, kRuntime, {"stacks of ", "OMP_STACKSIZE"}, size + line);
      EXPECT_FALSE(folder.has("run"));
    }
  }
  const ProgramResult enough = folder.shell("export OMP_STACKSIZE=1M; " + kTrainOnTwo + "--quiet");
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
}

#ifdef HEADCOUNT_MEMORY_LIMIT
// Stacks larger than the memory that a process may have: no thread is started, whoever asks.
TEST(Threads, ThatAreRefusedAreNamedInOneLine) {
  const std::string limits = "ulimit -s 4000000 && ulimit -v 3000000 || exit 77; ";
  const TrainFolder folder;
  if (folder.shell(limits).exit_code == 77) GTEST_SKIP() << "these limits cannot be set here";
  for (const auto& [line, threads, flag] : {std::tuple{kTrainOnTwo, "2", "--threads"},
                                            {compare("--threads 2"), "2", "--threads"},
                                            {compare("--jobs 3"), "3", "--jobs"}})
    expect_refusal(folder.shell(limits + line), kRuntime,
                   {"cannot start thread 2 of " + std::string(threads) + ": ", flag}, line);
}
#endif

}  // namespace
}  // namespace headcount

#endif
