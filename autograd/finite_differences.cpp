#include "autograd/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/random.h"

namespace headcount {

namespace {

constexpr std::uint32_t kCotangentStream = 0;  // directions take the streams after it

std::vector<Real> random_cotangent(std::uint64_t seed, Index count) {
  std::vector<Real> result;
  for (Index i = 0; i < count; ++i) {
    const double deviate =
        random_normal({seed, kCotangentStream, 0}, static_cast<std::uint64_t>(i));
    result.push_back(static_cast<Real>(deviate));
  }
  return result;
}

// One tensor under check: its values, which are perturbed, and its gradient.
struct Checked {
  std::size_t input;
  std::span<Real> values;
  std::vector<Real> gradient;
};

// The loop over derivatives, common to inputs and parameters.
class Check {
 public:
  // `weighted` gives the function's value, weighted by the cotangent, at the current values.
  Check(std::function<double()> weighted, const GradientCheckOptions& options)
      : weighted_(std::move(weighted)), options_(options) {}

  void tensor(const Checked& checked) {
    if (std::ssize(checked.values) <= options_.every_element_up_to) {
      for (Index i = 0; i < std::ssize(checked.values); ++i) element(checked, i);
    } else {
      for (int i = 0; i < options_.directions; ++i) random_direction(checked);
    }
  }
  const GradientReport& report() const { return report_; }

 private:
  static double magnitude(Real x) { return std::max(1.0, std::abs(static_cast<double>(x))); }

  void element(const Checked& checked, Index i) {
    const auto at = static_cast<std::size_t>(i);
    const std::vector<double> direction = {magnitude(checked.values[at])};
    compare({checked.input, checked.values.subspan(at, 1), {checked.gradient[at]}}, direction, i);
  }

  void random_direction(const Checked& checked) {
    ++stream_;
    std::vector<double> direction;
    for (std::size_t i = 0; i < checked.values.size(); ++i) {
      const double uniform = random_uniform({options_.seed, stream_, 0}, i);
      direction.push_back((2 * uniform - 1) * magnitude(checked.values[i]));
    }
    compare(checked, direction, -1);
  }

  void compare(const Checked& checked, std::span<const double> direction, Index element) {
    double analytic = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      analytic += static_cast<double>(checked.gradient[i]) * direction[i];
    }
    const std::vector<Real> saved(checked.values.begin(), checked.values.end());
    const auto at = [&](double steps) {
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double moved = static_cast<double>(saved[i]) + steps * options_.step * direction[i];
        checked.values[i] = static_cast<Real>(moved);
      }
      return weighted_();
    };
    const double near = at(1) - at(-1), far = at(2) - at(-2);
    std::ranges::copy(saved, checked.values.begin());
    note(checked.input, element, analytic, (8 * near - far) / (12 * options_.step));
  }

  void note(std::size_t input, Index element, double analytic, double numeric) {
    const double size = std::max(options_.floor, std::abs(analytic) + std::abs(numeric));
    const double difference = std::abs(analytic - numeric) / size;
    const double error =
        std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
    const Index derivatives = report_.derivatives + 1;
    if (report_.derivatives == 0 || error > report_.error) {
      report_ = {error, input, element, analytic, numeric, 0};
    }
    report_.derivatives = derivatives;
  }

  std::function<double()> weighted_;
  GradientCheckOptions options_;
  std::uint32_t stream_ = kCotangentStream;
  GradientReport report_;
};

double weigh(std::span<const Real> value, std::span<const Real> cotangent) {
  double total = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    total += static_cast<double>(value[i]) * static_cast<double>(cotangent[i]);
  }
  return total;
}

}  // namespace

std::string GradientReport::text() const {
  const std::string where =
      element < 0 ? "a random direction" : "element " + std::to_string(element);
  return "relative error " + std::to_string(error * 1e6) + "e-6 of input " + std::to_string(input) +
         " in " + where + ": analytic " + std::to_string(analytic) + ", numeric " +
         std::to_string(numeric) + " (worst of " + std::to_string(derivatives) + ")";
}

GradientReport check_gradients(const CheckedFunction& function, std::vector<CheckedInput> inputs,
                               const GradientCheckOptions& options) {
  Tape tape;
  std::vector<Var> vars;
  const auto run = [&] {
    tape.reset();
    vars.clear();
    for (const CheckedInput& input : inputs) {
      vars.push_back(input.differentiable ? tape.leaf(input.shape, input.values)
                                          : tape.constant(input.shape, input.values));
    }
    return function(tape, vars);
  };
  const Var output = run();
  const std::vector<Real> cotangent = random_cotangent(options.seed, output.shape().size());
  tape.backward(output, cotangent);

  std::vector<Checked> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].differentiable) continue;
    const std::span<const Real> arrived = vars[i].gradient();
    all.push_back({i, inputs[i].values, {arrived.begin(), arrived.end()}});
    all.back().gradient.resize(inputs[i].values.size());  // zeros where none arrived
  }
  Check check([&] { return weigh(run().value(), cotangent); }, options);
  for (const Checked& checked : all) check.tensor(checked);
  return check.report();
}

GradientReport check_parameter_gradients(const std::function<Var(Tape& tape)>& function,
                                         ParameterStore& store,
                                         const GradientCheckOptions& options) {
  Tape tape(&store);
  store.clear_gradients();
  const Var output = function(tape);
  const std::vector<Real> cotangent = random_cotangent(options.seed, output.shape().size());
  tape.backward(output, cotangent);

  std::vector<Checked> all;
  store.complete_gradients();
  for (std::size_t i = 0; i < store.size(); ++i) {
    const std::span<const Real> gradient = store.gradient({i});
    all.push_back({i, store.value({i}), {gradient.begin(), gradient.end()}});
  }
  store.clear_gradients();
  const auto weighted = [&] {
    tape.reset();
    return weigh(function(tape).value(), cotangent);
  };
  Check check(weighted, options);
  for (const Checked& checked : all) check.tensor(checked);
  return check.report();
}

}  // namespace headcount
