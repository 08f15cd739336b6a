#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

namespace headcount {

namespace {

constexpr Index kPlainLines = 20;  // over a whole run

template <class... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), format, numbers...);
  return text.data();
}

}  // namespace

void rewrite_line(std::string text) {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // A line that wraps cannot be rewritten.
  text.resize(std::min<std::size_t>(text.size(), known ? size.ws_col - 1 : 200));
  std::cerr << "\r\033[K" << text << std::flush;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) return formatted("%ldh%02ldm", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return formatted("%ldm%02lds", whole / 60, whole % 60);
  return formatted("%lds", whole);
}

Progress::Progress(ProgressMode mode, Index steps, Index tokens_per_step)
    : shown_(mode != ProgressMode::never),
      terminal_(mode == ProgressMode::always || isatty(STDERR_FILENO) == 1),
      steps_(steps),
      tokens_per_step_(tokens_per_step),
      interval_(std::max<Index>(1, steps / kPlainLines)) {}

Progress::~Progress() {
  if (in_line_) std::cerr << '\n';
}

std::string Progress::line(const StepResult& result, double training_seconds) const {
  const double steps_per_second = static_cast<double>(result.step) / training_seconds;
  std::string text = formatted("step %td/%td  loss %.4f", result.step, steps_, result.loss);
  if (validation_loss_) text += formatted("  val %.4f", *validation_loss_);
  text += formatted("  lr %.2e  grad %.3f  %.0f tokens/s", result.learning_rate,
                    result.gradient_norm, steps_per_second * static_cast<double>(tokens_per_step_));
  return text + "  ETA " +
         duration_text(static_cast<double>(steps_ - result.step) / steps_per_second);
}

void Progress::update(const StepResult& result, std::optional<double> validation_loss,
                      double training_seconds) {
  if (validation_loss) validation_loss_ = validation_loss;
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool last = result.step == steps_;
  if (terminal_) {
    if (!last && !validation_loss && now - last_shown_ < kRewriteEvery) return;
    last_shown_ = now;
    rewrite_line(line(result, training_seconds));
    in_line_ = true;
  } else if (last || validation_loss || result.step % interval_ == 0 || result.step == 1) {
    std::cerr << line(result, training_seconds) << '\n';
  }
}

}  // namespace headcount
