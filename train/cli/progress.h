#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace headcount {

/// How progress is shown. automatic: one rewritten line on a terminal, plain lines elsewhere;
/// always: one rewritten line in any case; never: nothing.
enum class ProgressMode { automatic, always, never };

/// Returns true if `mode` rewrites one line: `always`, and `automatic` if standard error is a
/// terminal that can.
bool rewrites(ProgressMode mode);

/// Shortest time between two changes of a rewritten line.
inline constexpr auto kRewriteEvery = std::chrono::milliseconds(100);

/// Rewrites the progress line of the terminal on standard error with `fields`, the most important
/// first, and `separator` between them. Fields that do not fit the terminal's width are left out;
/// only the first is ever cut.
void rewrite_line(const std::vector<std::string>& fields, const std::string& separator);

/// Loss as progress shows it: "2.5134".
std::string loss_text(double loss);

/// Duration as text: "41s", "4m10s", "2h05m".
std::string duration_text(double seconds);

/// Progress of a run on standard error: on a terminal one line that is rewritten, otherwise one
/// plain line per interval.
class Progress {
 public:
  /// Progress of a run that has done `steps_before` of its `steps` already. Its speed is measured
  /// over the remaining steps.
  Progress(ProgressMode mode, Index steps, Index tokens_per_step, Index steps_before = 0);
  /// Ends the rewritten line, if there is one, so that later output starts on a new line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Writes `line` on a line of its own, if progress is shown.
  void tell(const std::string& line);

  /// Call after each step, with `validation_loss` if the step ended with an evaluation.
  void update(const StepResult& result, std::optional<double> validation_loss,
              double training_seconds);

 private:
  std::vector<std::string> fields(const StepResult& result, double training_seconds) const;

  bool shown_, rewrites_, in_line_ = false;
  Index steps_, tokens_per_step_, steps_before_, interval_;
  std::optional<double> validation_loss_;
  Index validation_step_ = 0;  // of validation_loss_
  std::chrono::steady_clock::time_point last_shown_{};
};

}  // namespace headcount
