#include "train/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "autograd/base/text.h"
#include "train/units.h"

namespace headcount {

namespace {

constexpr Index kPlainLines = 20;  // over a whole run
constexpr auto kRewriteEvery = std::chrono::milliseconds(100);
const std::string kSeparator = "  ";

bool rewrites_in(ProgressMode mode) {
  if (mode != ProgressMode::automatic) return mode == ProgressMode::always;
  const char* const type = std::getenv("TERM");
  const bool able = type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
  return able && isatty(STDERR_FILENO) == 1;
}

}  // namespace

std::string loss_text(double loss) { return formatted("%.4f", loss); }

std::optional<Index> terminal_columns(int file) {
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

std::string eta_text(double seconds, Index done, Index rest) {
  return "ETA " + duration_text(seconds / static_cast<double>(done) * static_cast<double>(rest));
}

Progress::Progress(ProgressMode mode)
    : shown_(mode != ProgressMode::never), rewrites_(rewrites_in(mode)) {}

Progress::~Progress() {
  if (in_line_) std::cerr << '\n';
}

bool Progress::is_due() const {
  return rewrites_ && std::chrono::steady_clock::now() - rewritten_ >= kRewriteEvery;
}

void Progress::rewrite(const std::vector<std::string>& fields, const std::string& separator) {
  // A line that wraps cannot be rewritten.
  const auto room = static_cast<std::size_t>(terminal_columns(STDERR_FILENO).value_or(201) - 1);
  std::string text = fields.front().substr(0, room);
  for (std::size_t i = 1; i < fields.size(); ++i) {
    if (text.size() + separator.size() + fields[i].size() > room) break;
    text += separator + fields[i];
  }
  std::cerr << "\r\033[K" << text << std::flush;
  rewritten_ = std::chrono::steady_clock::now();
  in_line_ = true;
}

void Progress::tell(const std::string& line) {
  if (!shown_) return;
  std::cerr << (in_line_ ? "\r\033[K" : "") << line << '\n';
  in_line_ = false;
}

RunProgress::RunProgress(ProgressMode mode, Index steps, Index tokens_per_step, Index steps_before)
    : progress_(mode),
      steps_(steps),
      tokens_per_step_(tokens_per_step),
      steps_before_(steps_before),
      interval_(std::max<Index>(1, steps / kPlainLines)) {}

std::vector<std::string> RunProgress::fields(const StepResult& result,
                                             double training_seconds) const {
  std::vector<std::string> all = {formatted("step %td/%td", result.step, steps_),
                                  "loss " + loss_text(result.loss)};
  if (validation_loss_ && validation_step_ == result.step) {
    all.push_back("val " + loss_text(*validation_loss_));
  } else if (validation_loss_ && progress_.rewrites()) {
    all.push_back("val " + loss_text(*validation_loss_) + formatted(" at %td", validation_step_));
  }
  const Index done = result.step - steps_before_;
  if (done > 0) {
    all.push_back(eta_text(training_seconds, done, steps_ - result.step));
    all.push_back(formatted("%.0f tokens/s",
                            static_cast<double>(done * tokens_per_step_) / training_seconds));
  }
  all.push_back(formatted("lr %.2e", result.learning_rate));
  all.push_back(formatted("grad %.3f", result.gradient_norm));
  return all;
}

void RunProgress::update(const StepResult& result, std::optional<double> validation_loss,
                         double training_seconds) {
  if (validation_loss) {
    validation_loss_ = validation_loss;
    validation_step_ = result.step;
  }
  const bool shows = result.step == steps_ || validation_loss;
  if (progress_.rewrites()) {
    if (shows || progress_.is_due())
      progress_.rewrite(fields(result, training_seconds), kSeparator);
  } else if (progress_.shown() && (shows || result.step % interval_ == 0 || result.step == 1)) {
    std::string line;
    for (const std::string& field : fields(result, training_seconds))
      line += (line.empty() ? "" : kSeparator) + field;
    progress_.tell(line);
  }
}

}  // namespace headcount
