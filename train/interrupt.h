#pragma once

#include <cstdint>
#include <string>

#include "autograd/base/error.h"
#include "train/ranks.h"

namespace headcount {

/// Training was stopped by a signal and has saved a checkpoint.
class InterruptedError : public Error {
 public:
  InterruptedError(int signal, const std::string& what) : Error("{}", what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Milliseconds that have passed since some moment.
std::int64_t steady_milliseconds();

/// Installs signal handlers. SIGINT, SIGTERM, SIGUSR1 (by which schedulers warn of a time limit),
/// SIGHUP (the terminal is gone; not under nohup) and SIGPIPE (the reader of an output is gone) ask
/// training to stop after the current step. Another of them but SIGPIPE, a second later or more,
/// ends the process at once. Handlers read the clock by `clock_of_handlers`, which tests replace.
void catch_interrupts(std::int64_t (*clock_of_handlers)() = steady_milliseconds);

/// The signal that asked training to stop, or 0. With HEADCOUNT_STOP_AT=STEP:SIGNAL in the
/// environment, which tests set, the process first sends itself the signal with this number, once,
/// at the first call after STEP - 1 steps of all runs: in training, that after step STEP.
int interrupt_signal();
/// The signal that asked any of `ranks` to stop, the same at all of them, or 0. Collective, called
/// after each step.
int interrupt_signal(Ranks& ranks);
/// Returns true if a signal has asked training to stop.
bool interrupted();

}  // namespace headcount
