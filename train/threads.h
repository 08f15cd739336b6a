#pragma once

#include <functional>
#include <string_view>

namespace headcount {

/// Calls `work` at the same time on `count` threads, one of which is the calling thread. If the
/// system refuses a thread, `work` is not called at all, and Error says so and ends with `remedy`.
void on_threads(int count, std::string_view remedy, const std::function<void()>& work);

}  // namespace headcount
