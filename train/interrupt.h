#pragma once

#include <string>

#include "autograd/error.h"

namespace headcount {

/// Training was asked to stop and has saved what it had.
class InterruptedError : public Error {
 public:
  InterruptedError(int signal, const std::string& what) : Error(what), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// From now on SIGINT, SIGTERM, SIGHUP (the terminal has gone; not under nohup) and SIGPIPE (who
/// read an output has gone) ask training to stop after the step under way; another one of the
/// first three, a second later or more, ends the process at once.
void catch_interrupts();

/// Asks as if that signal had been caught: another process of the same work has caught it.
void interrupt(int signal);

/// The signal that asked, or 0.
int interrupt_signal();
/// Whether one has.
bool interrupted();

}  // namespace headcount
