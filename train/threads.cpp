#include "train/threads.h"

#include <atomic>
#include <future>
#include <latch>
#include <system_error>
#include <vector>

#include "autograd/base/error.h"

namespace headcount {

void on_threads(int count, std::string_view remedy, const std::function<void()>& work) {
  std::latch started(1);
  std::atomic<bool> all_there = false;
  std::vector<std::future<void>> others;
  // The latch opens whatever happens: `others` joins its threads, and they wait for it.
  try {
    for (int i = 1; i < count; ++i) {
      others.push_back(std::async(std::launch::async, [&] {
        started.wait();
        if (all_there) work();
      }));
    }
  } catch (const std::system_error& error) {
    started.count_down();
    throw Error("cannot start thread {} of {}: {}; {}", others.size() + 2, count,
                error.code().message(), remedy);
  } catch (...) {
    started.count_down();
    throw;
  }
  all_there = true;
  started.count_down();
  work();
  for (std::future<void>& other : others) other.get();
}

}  // namespace headcount
