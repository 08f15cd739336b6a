#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "autograd/profile.h"

namespace headcount {

/// Where the time of training steps went. The shards of a step run one after the other for it, so
/// that ops are timed one at a time.
struct TrainingProfile {
  Index steps = 0;
  Index shards = 1;           ///< of a step
  double seconds = 0;         ///< of whole steps
  double batch_seconds = 0;   ///< drawing windows of text
  double norm_seconds = 0;    ///< summing the gradients of the shards, and their norm
  double update_seconds = 0;  ///< the optimizer
  Profile ops;
};

/// Adds the time of its own life to one of the seconds of a profile, if there is one.
class StepPart {
 public:
  StepPart(TrainingProfile* profile, double TrainingProfile::*seconds)
      : profile_(profile), seconds_(seconds), start_(Clock::now()) {}
  ~StepPart() {
    if (profile_ != nullptr)
      profile_->*seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
  }
  StepPart(const StepPart&) = delete;
  StepPart& operator=(const StepPart&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  TrainingProfile* profile_;
  double TrainingProfile::*seconds_;
  Clock::time_point start_;
};

/// One row per op and per other part of a step, the longest first: {"part", "calls", "forward_ms",
/// "backward_ms", "share", "gflops", "gigabytes_per_second"}, times per step; null where a figure
/// means nothing.
nlohmann::ordered_json to_json(const TrainingProfile& profile);

/// The same as a table.
std::string table(const TrainingProfile& profile);

}  // namespace headcount
