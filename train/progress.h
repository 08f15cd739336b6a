#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "train/trainer.h"

namespace headcount {

/// How progress is shown: as one rewritten line or as plain lines, whichever suits standard error;
/// rewritten in any case; not at all.
enum class ProgressMode { automatic, always, never };

/// How often a rewritten line changes at most.
inline constexpr auto kRewriteEvery = std::chrono::milliseconds(100);

/// Puts `text` on the terminal behind standard error in place of the line before, cut to its width.
void rewrite_line(std::string text);

/// "41s", "4m10s", "2h05m".
std::string duration_text(double seconds);

/// Progress of a run on standard error: on a terminal one line that is rewritten, otherwise one
/// plain line per interval.
class Progress {
 public:
  Progress(ProgressMode mode, Index steps, Index tokens_per_step);
  /// Leaves the rewritten line, if there is one, so that what follows starts a new one.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step; `validation_loss` where the step ended with an evaluation.
  void update(const StepResult& result, std::optional<double> validation_loss,
              double training_seconds);

 private:
  std::string line(const StepResult& result, double training_seconds) const;

  bool shown_, terminal_, in_line_ = false;
  Index steps_, tokens_per_step_, interval_;
  std::optional<double> validation_loss_;
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace headcount
