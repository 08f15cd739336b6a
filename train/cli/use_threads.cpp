#include "train/cli/use_threads.h"

#include <algorithm>
#include <array>
#include <future>
#include <limits>

#include "autograd/base/error.h"
#include "autograd/base/system.h"
#include "autograd/parallel.h"
#include "train/threads.h"

namespace headcount {

namespace {

// Eigen keeps temporaries of up to 128 KB on the stack.
constexpr std::size_t kLeastStack = 512 << 10;

std::size_t own_stack() { return stack_bytes().value_or(std::numeric_limits<std::size_t>::max()); }

void check_stacks() {
  const std::size_t own = std::async(std::launch::async, own_stack).get();
  std::array<std::size_t, 2> of_loops{};
  parallel_tasks(2, 2,
                 [&](Index task, int) { of_loops[static_cast<std::size_t>(task)] = own_stack(); });
  const std::size_t least = std::min({own, of_loops[0], of_loops[1]});
  if (least < kLeastStack) {
    throw Error(
        "threads have stacks of {} KB and need 512; unset OMP_STACKSIZE or set it to 1M, and see "
        "ulimit -s",
        least >> 10);
  }
}

}  // namespace

void use_threads(Index count) {
  set_threads(static_cast<int>(count));
  if (threads() == 1) return;
  // OpenMP would end the process if the system refused it a thread.
  on_threads(threads(), "lower --threads, or raise the limits (ulimit -u, -v)", [] {});
  check_stacks();
}

}  // namespace headcount
