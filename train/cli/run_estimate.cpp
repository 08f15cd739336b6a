#include "train/cli/run_estimate.h"

#include <sys/resource.h>

#include "autograd/base/text.h"
#include "train/units.h"

namespace headcount {

namespace {

// Peak resident memory of this process, bytes.
double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  constexpr double kUnit = 1;  // bytes
#else
  constexpr double kUnit = 1024;
#endif
  return static_cast<double>(usage.ru_maxrss) * kUnit;
}

}  // namespace

std::string RunEstimate::sizes() const {
  const std::size_t buffers = 2 + learner_.optimizer->moments().size();  // values, gradients
  const Index parameters = learner_.model->parameters().element_count();
  return formatted(
      "%s: %td parameters, %s with gradients and moments; %s: %td characters to train on, %td to "
      "evaluate on",
      options_.model->attention.c_str(), parameters,
      binary_text(static_cast<double>(buffers * sizeof(Real)) * static_cast<double>(parameters))
          .c_str(),
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
      "%s %s to go: %td step%s of %.1f ms, %td evaluation%s of %.1f s\n"
      "measured memory: a step %s, the process %s so far",
      options_.stops_when_learned() ? "until it has learned, at most" : "about",
      duration_text(all).c_str(), rest, rest == 1 ? "" : "s", 1e3 * step, evaluations,
      evaluations == 1 ? "" : "s", evaluation,
      binary_text(static_cast<double>(result.bytes)).c_str(), binary_text(peak_memory()).c_str());
}

}  // namespace headcount
