#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace headcount {

namespace {

volatile std::sig_atomic_t caught = 0;

void handle(int signal) {
  if (caught != 0) _exit(128 + signal);
  caught = signal;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupt_signal() { return caught; }

}  // namespace headcount
