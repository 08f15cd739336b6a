#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "autograd/checks/profile.h"

namespace headcount {

/// Time profile of training steps. While it is taken, the shards of a step run one after the other,
/// so that ops are timed one at a time.
struct TrainingProfile {
  Index steps = 0;
  Index shards = 1;           ///< per step
  double seconds = 0;         ///< time of whole steps
  double batch_seconds = 0;   ///< drawing batches of text windows
  double norm_seconds = 0;    ///< summing the shards' gradients, and their norm
  double update_seconds = 0;  ///< the optimizer
  Profile ops;
};

/// Scope timer: adds the time that it lives to one of the seconds of a profile, if `profile` is not
/// null.
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

/// An object for each op and each other phase of a step, the longest first: {"part", "calls",
/// "forward_ms", "backward_ms", "share", "gflops", "gigabytes_per_second"}, times per step; null
/// where a figure does not apply. The last is always "(the rest)", the time that no other has.
nlohmann::ordered_json to_json(const TrainingProfile& profile);

/// The profile as a text table with one row per op and per other part of a step.
std::string table(const TrainingProfile& profile);

}  // namespace headcount
