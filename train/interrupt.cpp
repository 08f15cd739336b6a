#include "train/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace headcount {

namespace {

std::atomic<int> caught = 0;              // a handler sets it, jobs of a comparison read it
std::atomic<std::int64_t> caught_at = 0;  // milliseconds
std::int64_t (*milliseconds)() = steady_milliseconds;
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

std::atomic<std::int64_t> steps_done = 0;  // of all runs of this process

void handle(int signal) {
  if (caught == 0) {
    caught_at = milliseconds();
    caught = signal;
    return;
  }
  // Every line that is written to a broken pipe raises SIGPIPE again, and `timeout` sends its
  // signal to the process and at once to its group.
  constexpr std::int64_t kSameSignal = 1000;
  if (signal != SIGPIPE && milliseconds() - caught_at >= kSameSignal) _exit(128 + signal);
}

// oneDNN 2.6 keeps numbers below the end of the stack while it multiplies: a handler that ran there
// would overwrite them. Signals to a process go to its first thread, which calls this.
void run_handlers_elsewhere() {
  alignas(std::max_align_t) static std::byte memory[1 << 16];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  sigaltstack(&stack, nullptr);
}

// For tests, which would otherwise have to hit a running process: raises a signal, once, where the
// variable says.
void raise_if_told() {
  static const char* const told = std::getenv("HEADCOUNT_STOP_AT");
  static std::atomic_flag raised;
  long long step = 0;
  int signal = 0;
  if (told == nullptr || std::sscanf(told, "%lld:%d", &step, &signal) != 2) return;
  if (steps_done + 1 >= step && !raised.test_and_set()) raise(signal);
}

}  // namespace

std::int64_t steady_milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void catch_interrupts(std::int64_t (*clock_of_handlers)()) {
  milliseconds = clock_of_handlers;
  run_handlers_elsewhere();
  struct sigaction action = {}, before = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE}) {
    sigaction(signal, &action, &before);
    if (before.sa_handler == SIG_IGN && (signal == SIGHUP || signal == SIGPIPE))
      sigaction(signal, &before, nullptr);
  }
}

int interrupt_signal() {
  raise_if_told();
  return caught;
}

int interrupt_signal(Ranks& ranks) {
  const auto flag = first_flag(ranks, interrupt_signal());
  ++steps_done;
  return flag ? flag->second : 0;
}

bool interrupted() { return interrupt_signal() != 0; }

}  // namespace headcount
