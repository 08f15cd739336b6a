// What `headcount train` writes to standard error while it trains.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "train/run_program.h"
#include "train/units.h"

namespace headcount {
namespace {

using nlohmann::json;

class ProgressOfTraining : public testing::Test {
 protected:
  ProgramResult train(const std::string& flags) const { return folder_.trained(flags); }

  TrainFolder folder_;
};

TEST_F(ProgressOfTraining, IsNotWrittenWhereThatIsAsked) {
  for (const char* flag : {"--quiet", "--progress never"})
    EXPECT_EQ(train(std::string(flag) + " --out run --steps 9 --force").err, "");
}

TEST_F(ProgressOfTraining, IsShownInPlainLinesWhereThereIsNoTerminal) {
  const ProgramResult result = train("--out run --eval-every 2 --warmup 0");
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_EQ(result.err.find('\033'), std::string::npos);
  std::vector<std::string> lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 4u) << result.err;
  EXPECT_TRUE(lines[0].starts_with("mha: ")) << lines[0];  // what the run takes
  lines.erase(lines.begin());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(lines[i].starts_with("step " + std::to_string(i + 1) + "/3 ")) << lines[i];
    for (const char* const part : {"loss ", "lr ", "grad ", " tokens/s", "ETA "}) {
      EXPECT_NE(lines[i].find(part), std::string::npos) << lines[i];
    }
    EXPECT_EQ(lines[i].find("val ") != std::string::npos, i >= 1) << lines[i];
  }
}

TEST_F(ProgressOfTraining, IsAFewLinesForALongRun) {
  const ProgramResult result = train("--out run --steps 200 --eval-every 0");
  const auto lines = std::ranges::count(result.err, '\n');
  EXPECT_GE(lines, 10) << result.err;
  EXPECT_LE(lines, 30) << result.err;
}

TEST_F(ProgressOfTraining, IsOneLineWrittenAgainWhereThatIsAsked) {
  const ProgramResult result = train("--out run --progress always --warmup 0");
  const std::string progress = result.err.substr(result.err.find('\n') + 1);
  EXPECT_TRUE(progress.starts_with("\r\033[Kstep 1/3 ")) << result.err;
  EXPECT_TRUE(progress.ends_with("\n")) << result.err;
  EXPECT_EQ(std::ranges::count(progress, '\n'), 1) << result.err;
}

}  // namespace
}  // namespace headcount
