// The program nn/examples/it_refers_to.cpp, run as a reader runs it.
#include <gtest/gtest.h>

#include "train/run_program.h"

namespace headcount {
namespace {

// The rows, computed by hand: softmax(X X^T / 2) X, and for the last two columns softmax(X X^T) X
// / 2.
constexpr const char* kSweet = R"(
cat, milk, it, sweet
          published      true           softmax(QK^T)V/sqrt(d)
  cat     0.625  1.375   1.250  2.750   0.625  1.375
  milk    0.089  1.911   0.555  3.445   0.089  1.911
  it      0.625  1.375   1.250  2.750   0.625  1.375
  sweet   0.010  1.990   0.178  3.822   0.010  1.990
  before  it attends to  cat 0.250  milk 0.250  it 0.250  sweet 0.250: to all alike
  after   it attends to  cat 0.169  milk 0.285  it 0.169  sweet 0.378: most to sweet, and to milk rather than cat
)";
constexpr const char* kHungry = R"(
cat, milk, it, hungry
          published      true           softmax(QK^T)V/sqrt(d)
  cat     1.125  0.875   2.250  1.750   1.125  0.875
  milk    0.609  1.391   1.496  2.504   0.609  1.391
  it      1.125  0.875   2.250  1.750   1.125  0.875
  hungry  1.999  0.001   3.922  0.078   1.999  0.001
  before  it attends to  cat 0.250  milk 0.250  it 0.250  hungry 0.250: to all alike
  after   it attends to  cat 0.230  milk 0.191  it 0.230  hungry 0.349: most to hungry, and to cat rather than milk
)";

TEST(ItRefersTo, PrintsTheTrueFiguresBesideThePublishedOnesAndWhereThoseComeFrom) {
  const TemporaryFolder folder;
  const ProgramResult result = run_shell("'" HEADCOUNT_IT_REFERS_TO "'", folder.path());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* sentence : {kSweet, kHungry})
    EXPECT_NE(result.out.find(sentence), std::string::npos) << sentence << "\n" << result.out;
}

}  // namespace
}  // namespace headcount
