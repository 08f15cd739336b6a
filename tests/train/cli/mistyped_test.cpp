// What somebody who mistyped a word is told.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "train/run_program.h"

namespace headcount {
namespace {

TEST(MistypedFlag, IsToldWithTheOneThatWasMeant) {
  const TrainFolder folder;
  expect_refusal(folder.headcount("train --atention mha"), kUsage,
                 {"unknown flag --atention;", "did you mean --attention?"}, "two dashes");
  expect_refusal(folder.headcount("train --stesp=5"), kUsage,
                 {"unknown flag --stesp;", "did you mean --steps?"}, "with its value");
  expect_refusal(folder.headcount("train --dim 16 -steps 5"), kUsage,
                 {"unknown flag -steps;", "did you mean --steps?"}, "one dash");
  expect_refusal(folder.headcount("sample --form runs/a"), kUsage, {"did you mean --from?"},
                 "a flag without a setting");
  const ProgramResult foreign = folder.headcount("train --banana 1");
  expect_refusal(foreign, kUsage, {"unknown flag --banana;", "headcount train --help"}, "foreign");
  EXPECT_EQ(foreign.err.find("did you mean"), std::string::npos) << foreign.err;
}

TEST(MistypedCommand, IsToldWithTheOneThatWasMeant) {
  const TrainFolder folder;
  expect_refusal(folder.headcount("trian"), kUsage, {"did you mean train?"}, "trian");
  expect_refusal(folder.headcount("help smaple"), kUsage, {"did you mean sample?"}, "help smaple");
}

TEST(Help, HasShortFormsForThoseWhoTryThem) {
  const TrainFolder folder;
  const std::string all = folder.headcount("--help").out,
                    train = folder.headcount("train --help").out;
  ASSERT_GT(train.size(), all.size());
  for (const auto& [line, text] : {std::pair{"-h", all}, std::pair{"help", all},
                                   std::pair{"train -h", train}, std::pair{"help train", train}}) {
    const ProgramResult result = folder.headcount(line);
    EXPECT_EQ(result.exit_code, 0) << line << result.err;
    EXPECT_EQ(result.out, text) << line;
  }
}

TEST(Help, OfAllCommandsSaysWhatToTypeFirstAndAlignsThem) {
  const std::string help = TrainFolder().headcount("--help").out;
  EXPECT_NE(help.find("Begin with\n  headcount compare "), std::string::npos) << help;
  std::istringstream lines(help.substr(help.find("Commands\n")));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty()) {
    EXPECT_EQ(line.find_first_not_of(' ', line.find(' ', 2)), 11u) << line;
    EXPECT_LT(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace headcount
