#include "train/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "autograd/base/system.h"
#include "autograd/base/text.h"
#include "train/cli/command_line.h"
#include "train/compare/verdict.h"
#include "train/show/statistics.h"
#include "train/show/units.h"
#include "train/training.h"

namespace headcount {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Index kPlainLines = 20;  // over a whole run
constexpr auto kRewriteEvery = std::chrono::milliseconds(100);
// Steps of a comparison without which an ETA would be that of first steps, which are slower.
constexpr Index kTimed = 20;

bool rewrites_in(ProgressMode mode) {
  if (mode != ProgressMode::automatic) return mode == ProgressMode::always;
  const char* const type = std::getenv("TERM");
  const bool able = type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
  return able && isatty(STDERR_FILENO) == 1;
}

std::string loss_text(double loss) { return formatted("%.4f", loss); }

// Time that `rest` steps will take if `done` steps took `seconds`: "ETA 4m10s".
std::string eta_text(double seconds, Index done, Index rest) {
  return "ETA " + duration_text(seconds / static_cast<double>(done) * static_cast<double>(rest));
}

}  // namespace

std::optional<Index> terminal_columns(int file) {
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

Progress::Progress(ProgressMode mode)
    : shown_(mode != ProgressMode::never), rewrites_(rewrites_in(mode)) {}

Progress::~Progress() {
  if (in_line_) std::cerr << '\n';
}

bool Progress::is_due() const { return rewrites_ && Clock::now() - rewritten_ >= kRewriteEvery; }

void Progress::show(const std::vector<std::string>& fields, const std::string& separator) {
  // A line that wraps cannot be rewritten.
  const Index columns = rewrites_ ? terminal_columns(STDERR_FILENO).value_or(201) - 1 : 1 << 20;
  const auto room = static_cast<std::size_t>(columns);
  std::string text = fields.front().substr(0, room);
  for (std::size_t i = 1; i < fields.size(); ++i) {
    if (text.size() + separator.size() + fields[i].size() > room) break;
    text += separator + fields[i];
  }
  if (!rewrites_) return tell(text);
  std::cerr << "\r\033[K" << text << std::flush;
  rewritten_ = Clock::now();
  in_line_ = true;
}

void Progress::tell(const std::string& line) {
  if (!shown_) return;
  std::cerr << (in_line_ ? "\r\033[K" : "") << line << '\n';
  in_line_ = false;
}

RunProgress::RunProgress(ProgressMode mode, const TrainOptions& options, const Learner& learner,
                         const Corpus& corpus, Index steps_before)
    : progress_(mode), options_(options), corpus_(corpus), steps_before_(steps_before) {
  const std::size_t buffers = 2 + learner.optimizer->moments().size();  // values, gradients
  const Index parameters = learner.model->parameters().element_count();
  progress_.tell(formatted(
      "%s: %td parameters, %s with gradients and moments; %s: %td characters to train on, %td to "
      "evaluate on",
      options.model->word.c_str(), parameters,
      binary_text(static_cast<double>(buffers * sizeof(Real)) * static_cast<double>(parameters))
          .c_str(),
      corpus.name.c_str(), std::ssize(corpus.train.tokens), std::ssize(corpus.validation.tokens)));
}

void RunProgress::tell_estimate(const StepResult& result, double training_seconds) {
  constexpr Index kMeasured = 3;  // the first is not timed: it takes memory from the system
  const Index done = result.step - steps_before_, rest = options_.steps - result.step;
  if (done == 1) first_seconds_ = training_seconds;
  if (done != kMeasured || rest == 0) return;
  const double step = (training_seconds - first_seconds_) / (kMeasured - 1);
  // An evaluation runs forward only, a third of the products of a step.
  const double evaluation = step * static_cast<double>(std::ssize(corpus_.validation.tokens)) /
                            static_cast<double>(result.tokens) / 3;
  const Index every = options_.eval_every;
  const Index evaluations =
      1 + (every > 0 ? (options_.steps - 1) / every - result.step / every : 0);
  const double all =
      static_cast<double>(rest) * step + static_cast<double>(evaluations) * evaluation;
  progress_.tell(formatted(
      "%s %s to go: %s of %.1f ms, %s of %.1f s\n"
      "measured memory: a step %s, the process %s so far",
      options_.stops_when_learned() ? "until it has learned, at most" : "about",
      duration_text(all).c_str(), counted(rest, "step").c_str(), 1e3 * step,
      counted(evaluations, "evaluation").c_str(), evaluation,
      binary_text(static_cast<double>(result.bytes)).c_str(), binary_text(peak_memory()).c_str()));
}

void RunProgress::show(const StepResult& result, double training_seconds) {
  std::vector<std::string> fields = {formatted("step %td/%td", result.step, options_.steps),
                                     "loss " + loss_text(result.loss)};
  const bool is_new = validation_step_ == result.step;
  if (validation_loss_ && (is_new || progress_.rewrites()))
    fields.push_back("val " + loss_text(*validation_loss_) +
                     (is_new ? "" : formatted(" at %td", validation_step_)));
  const Index done = result.step - steps_before_;
  if (done > 0) {
    fields.push_back(eta_text(training_seconds, done, options_.steps - result.step));
    fields.push_back(formatted("%.0f tokens/s", static_cast<double>(tokens_) / training_seconds));
  }
  fields.push_back(formatted("lr %.2e", result.learning_rate));
  fields.push_back(formatted("grad %.3f", result.gradient_norm));
  progress_.show(fields, "  ");
}

void RunProgress::update(const StepResult& result, std::optional<double> validation_loss,
                         double training_seconds) {
  tokens_ += result.tokens;
  if (validation_loss) {
    validation_loss_ = validation_loss;
    validation_step_ = result.step;
  }
  const Index every = std::max<Index>(1, options_.steps / kPlainLines);
  const bool is_due =
      progress_.rewrites() ? progress_.is_due() : result.step == 1 || result.step % every == 0;
  if (is_due || validation_loss || result.step == options_.steps) show(result, training_seconds);
  tell_estimate(result, training_seconds);
}

namespace {

// Steps that a run may be expected to train. A run that ends when it has learned takes as many as
// the finished runs of its attention or, before there are any, a quarter of all.
Index expected_steps(const TrainOptions& run, const std::vector<RunPlan>& runs,
                     std::span<const RunStatus> statuses) {
  constexpr Index kShare = 4;
  if (!run.stops_when_learned()) return run.steps;
  std::vector<double> taken;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TrainOptions& other = runs[i].options;
    if (const auto& result = statuses[i].result; result && other.model->word == run.model->word)
      taken.push_back(static_cast<double>(result->learned_at.value_or(other.steps)));
  }
  return taken.empty() ? run.steps / kShare : static_cast<Index>(median(taken));
}

}  // namespace

void ComparisonProgress::update(const std::vector<RunPlan>& runs,
                                std::span<const RunStatus> statuses,
                                std::span<const std::size_t> round) {
  const std::lock_guard lock(mutex_);
  const bool first = runs_.empty();
  runs_.resize(runs.size());
  for (const std::size_t i : round)
    runs_[i] = {runs[i].name,
                true,
                statuses[i].ended,
                runs[i].options.stops_when_learned(),
                expected_steps(runs[i].options, runs, statuses),
                runs_[i].newest};
  if (!first) return;
  start_ = Clock::now();
  if (!warning_.empty()) progress_.tell(warning_);
  if (const std::string text = done(); !text.starts_with("0 "))
    progress_.tell(text + " finished in an earlier call");
}

std::string ComparisonProgress::done() const {
  return std::to_string(ended()) + " of " + std::to_string(wanted()) + " runs";
}

std::string ComparisonProgress::head() const {
  Index steps = 0;  // to do
  for (const Run& run : runs_) {
    if (run.wanted && !run.ended)
      steps += run.newest ? std::max<Index>(0, run.steps - run.newest->step) : run.steps;
  }
  const std::string text = done() + " done";
  if (steps_done_ < kTimed || steps == 0) return text;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return text + ", " + eta_text(seconds, steps_done_, steps);
}

void ComparisonProgress::step(std::size_t run, const StepResult& result) {
  const std::lock_guard lock(mutex_);
  // The first step of a run counts as one: a run that resumes made the earlier ones before.
  auto& newest = runs_[run].newest;
  steps_done_ += newest ? result.step - newest->step : 1;
  newest = result;
  constexpr std::chrono::seconds kSilence(3);
  if (!estimated_ && steps_done_ >= kTimed && Clock::now() - start_ > kSilence) {
    estimated_ = true;
    progress_.tell(head());
  }
  if (!progress_.is_due()) return;
  std::vector<std::string> fields = {head()};
  for (const Run& shown : runs_) {
    if (shown.newest)
      fields.push_back(shown.name + ": step " + std::to_string(shown.newest->step) + ", loss " +
                       loss_text(shown.newest->loss));
  }
  progress_.show(fields, " | ");
}

void ComparisonProgress::finish(std::size_t run, const RunStatus& status) {
  const std::lock_guard lock(mutex_);
  runs_[run].newest.reset();
  const auto& result = status.result;
  constexpr std::ptrdiff_t kLines = 20;
  const std::ptrdiff_t every = (wanted() + kLines - 1) / kLines;
  if (result && ended() % every != 0 && ended() != wanted()) return;
  const auto steps = [&] { return std::to_string(steps_taken(*result)) + " steps"; };
  const std::string how = !result              ? "failed: " + as_flags(status.failure)
                          : result->learned_at ? "learned in " + steps()
                          : runs_[run].stops_when_learned
                              ? "not learned in " + steps()
                              : "validation loss " + loss_text(result->validation_loss);
  progress_.tell(runs_[run].name + ": " + how + " (" + head() + ")");
}

}  // namespace headcount
