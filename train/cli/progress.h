#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace headcount {

/// How progress is shown: as one rewritten line or as plain lines, whichever suits standard error;
/// rewritten in any case; not at all.
enum class ProgressMode { automatic, always, never };

/// Whether `mode` rewrites a line: where standard error is a terminal that can, or in any case.
bool rewrites(ProgressMode mode);

/// How often a rewritten line changes at most.
inline constexpr auto kRewriteEvery = std::chrono::milliseconds(100);

/// Puts `fields`, the most important first, on the terminal behind standard error in place of the
/// line before, with `separator` between them: as many as its width has room for, none of them cut
/// but the first.
void rewrite_line(const std::vector<std::string>& fields, const std::string& separator);

/// "2.5134": a loss as progress shows it.
std::string loss_text(double loss);

/// "41s", "4m10s", "2h05m".
std::string duration_text(double seconds);

/// Progress of a run on standard error: on a terminal one line that is rewritten, otherwise one
/// plain line per interval.
class Progress {
 public:
  /// Of a run that has done `steps_before` of its `steps` already: the speed is of the others.
  Progress(ProgressMode mode, Index steps, Index tokens_per_step, Index steps_before = 0);
  /// Leaves the rewritten line, if there is one, so that what follows starts a new one.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A line of its own, where progress is shown.
  void tell(const std::string& line);

  /// After each step; `validation_loss` where the step ended with an evaluation.
  void update(const StepResult& result, std::optional<double> validation_loss,
              double training_seconds);

 private:
  std::vector<std::string> fields(const StepResult& result, double training_seconds) const;

  bool shown_, rewrites_, in_line_ = false;
  Index steps_, tokens_per_step_, steps_before_, interval_;
  std::optional<double> validation_loss_;
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace headcount
