#include "train/cli/run_estimate.h"

#include <sys/resource.h>

#include "autograd/base/text.h"
#include "train/cli/progress.h"

namespace headcount {

namespace {

// Peak resident memory of this process, bytes.
std::size_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  constexpr std::size_t kUnit = 1;  // bytes
#else
  constexpr std::size_t kUnit = 1024;
#endif
  return static_cast<std::size_t>(usage.ru_maxrss) * kUnit;
}

}  // namespace

std::string memory_text(std::size_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? formatted("%.1f MiB", mebibytes)
                          : formatted("%.2f GiB", mebibytes / 1024);
}

std::string RunEstimate::sizes() const {
  const std::size_t buffers = 2 + learner_.optimizer->moments().size();  // values, gradients
  const Index parameters = learner_.model->parameters().element_count();
  return formatted(
      "%s: %td parameters, %s with gradients and moments; %s: %td characters to train on, %td to "
      "evaluate on",
      options_.model->attention.c_str(), parameters,
      memory_text(buffers * sizeof(Real) * static_cast<std::size_t>(parameters)).c_str(),
      corpus_.name.c_str(), std::ssize(corpus_.train.tokens),
      std::ssize(corpus_.validation.tokens));
}

std::optional<std::string> RunEstimate::measured(const StepResult& result,
                                                 double training_seconds) {
  constexpr Index kMeasured = 3;  // the first is not timed: it takes memory from the system
  const Index done = result.step - steps_before_, rest = options_.steps - result.step;
  if (done == 1) first_seconds_ = training_seconds;
  if (done != kMeasured || rest == 0) return std::nullopt;
  const double step = (training_seconds - first_seconds_) / (kMeasured - 1);
  // An evaluation runs forward only, a third of the products of a step.
  const double tokens =
      static_cast<double>(options_.batch * options_.accumulate * options_.model->context);
  const double evaluation =
      step * static_cast<double>(std::ssize(corpus_.validation.tokens)) / tokens / 3;
  const Index every = options_.eval_every;
  const Index evaluations =
      1 + (every > 0 ? (options_.steps - 1) / every - result.step / every : 0);
  const double all =
      static_cast<double>(rest) * step + static_cast<double>(evaluations) * evaluation;
  return formatted(
      "about %s to go: %td step%s of %.1f ms, %td evaluation%s of %.1f s\n"
      "measured memory: a step %s, the process %s so far",
      duration_text(all).c_str(), rest, rest == 1 ? "" : "s", 1e3 * step, evaluations,
      evaluations == 1 ? "" : "s", evaluation, memory_text(result.bytes).c_str(),
      memory_text(peak_memory()).c_str());
}

}  // namespace headcount
