#include "train/cli/board.h"

#include <iostream>

#include "train/cli/command_line.h"

namespace headcount {

Board::Board(ProgressMode mode) : shown_(mode != ProgressMode::never), rewrites_(rewrites(mode)) {}

void Board::begin(const std::vector<PlannedRun>& runs, const std::vector<std::size_t>& waiting) {
  runs_ = &runs;
  finished_ = runs.size() - waiting.size();
  start_ = std::chrono::steady_clock::now();
  for (const std::size_t run : waiting) steps_to_do_ += runs[run].options.steps;
  if (shown_ && finished_ > 0)
    std::cerr << finished_ << " of " << runs.size() << " runs were finished before\n";
}

Board::~Board() {
  if (in_line_) std::cerr << '\n';
}

std::string Board::head() const {
  std::string text =
      std::to_string(finished_) + " of " + std::to_string(runs_->size()) + " runs done";
  if (steps_done_ > 0 && steps_to_do_ > 0) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    text += ", ETA " + duration_text(seconds / static_cast<double>(steps_done_) *
                                     static_cast<double>(steps_to_do_));
  }
  return text;
}

void Board::rewrite() {
  std::vector<std::string> fields = {head()};
  for (const auto& [run, step] : under_way_) {
    fields.push_back((*runs_)[run].name + ": step " + std::to_string(step.step) + ", loss " +
                     loss_text(step.loss));
  }
  rewrite_line(fields, " | ");
  in_line_ = true;
}

void Board::step(std::size_t run, const StepResult& result) {
  const std::lock_guard lock(mutex_);
  ++steps_done_;
  --steps_to_do_;
  under_way_[run] = result;
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || !rewrites_ || now - last_shown_ < kRewriteEvery) return;
  last_shown_ = now;
  rewrite();
}

void Board::finish(std::size_t run, const RunOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  ++finished_;
  // The steps that a failed run did not get to.
  steps_to_do_ -= (*runs_)[run].options.steps - under_way_[run].step;
  under_way_.erase(run);
  if (!shown_) return;
  if (in_line_) std::cerr << "\r\033[K";
  in_line_ = false;
  const std::string how = outcome.result
                              ? "validation loss " + loss_text(outcome.result->validation_loss)
                              : "failed: " + as_flags(outcome.failure);
  std::cerr << (*runs_)[run].name << ": " << how << " (" << head() << ")\n";
}

}  // namespace headcount
