#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run_program.h"

namespace headcount {

/// Tests of one command on the runs of a folder, which all tests of a suite share and none changes.
/// `Suite`, the class that derives from this one, trains them in `prepare`; command lines begin
/// with its `kCommand`.
template <class Suite>
class RunsOfASuite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TrainFolder>();
    Suite::prepare();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  /// Trains a run, which must succeed; returns its result.
  static nlohmann::json train(const std::string& run, const std::string& flags = "") {
    const std::string defaults = "--lr 0.01 --warmup 0 --out " + run;
    return folder_->object(TrainFolder::train_line(over_defaults(defaults, flags) + " --quiet"));
  }
  /// Calls the command; `more` arguments may hold spaces.
  static ProgramResult call(const std::string& flags, const std::vector<std::string>& more = {}) {
    return folder_->headcount(std::string(Suite::kCommand) + " " + flags, more);
  }
  /// Standard output of a call that must succeed and warn of nothing, as text and as JSON.
  static std::string text(const std::string& flags, const std::vector<std::string>& more = {}) {
    const ProgramResult result = call(flags, more);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  static nlohmann::json object(const std::string& flags,
                               const std::vector<std::string>& more = {}) {
    return nlohmann::json::parse(text("--format json " + flags, more));
  }
  static void expect_refusal(int code, const std::string& flags,
                             const std::vector<std::string>& parts) {
    headcount::expect_refusal(call(flags), code, parts, flags);
  }

  static inline std::unique_ptr<TrainFolder> folder_;
};

}  // namespace headcount
