#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace headcount {

namespace {

volatile std::sig_atomic_t caught = 0;

void handle(int signal) {
  // Every line that is written to a broken pipe raises SIGPIPE again.
  if (caught != 0 && signal != SIGPIPE) _exit(128 + signal);
  if (caught == 0) caught = signal;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {}, before = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    sigaction(signal, &action, &before);
    if (before.sa_handler == SIG_IGN && (signal == SIGHUP || signal == SIGPIPE))
      sigaction(signal, &before, nullptr);
  }
}

int interrupt_signal() { return caught; }

bool interrupted() { return caught != 0; }

}  // namespace headcount
