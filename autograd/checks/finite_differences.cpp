#include "autograd/checks/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/random.h"

namespace headcount {

namespace {

constexpr std::uint32_t kCotangentStream = 0;  // directions take the streams after it

std::vector<Real> random_cotangent(std::uint64_t seed, Index count) {
  std::vector<Real> cotangent(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < cotangent.size(); ++i)
    cotangent[i] = static_cast<Real>(random_normal({seed, kCotangentStream, 0}, i));
  return cotangent;
}

double weigh(std::span<const Real> value, std::span<const Real> cotangent) {
  double total = 0;
  for (std::size_t i = 0; i < value.size(); ++i)
    total += static_cast<double>(value[i]) * static_cast<double>(cotangent[i]);
  return total;
}

// One tensor under check: its values, which are perturbed, and its gradient.
struct Checked {
  std::size_t input;
  std::span<Real> values;
  std::vector<Real> gradient;
};

// Compares all derivatives. `weighted` computes the function's value, weighted by the cotangent, at
// the current values.
GradientReport check(const std::vector<Checked>& all, const std::function<double()>& weighted,
                     const GradientCheckOptions& options) {
  GradientReport report;
  // The derivative in `direction`, which belongs to the elements from `first` on.
  const auto compare = [&](const Checked& checked, std::size_t first,
                           std::span<const double> direction, Index element) {
    const std::span<Real> values = checked.values.subspan(first, direction.size());
    const std::vector<Real> saved(values.begin(), values.end());
    double analytic = 0;
    for (std::size_t i = 0; i < direction.size(); ++i)
      analytic += static_cast<double>(checked.gradient[first + i]) * direction[i];
    const auto at = [&](double steps) {
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double moved = static_cast<double>(saved[i]) + steps * options.step * direction[i];
        values[i] = static_cast<Real>(moved);
      }
      return weighted();
    };
    const double near = at(1) - at(-1), far = at(2) - at(-2);
    std::ranges::copy(saved, values.begin());
    const double numeric = (8 * near - far) / (12 * options.step);
    const double size = std::max(options.floor, std::abs(analytic) + std::abs(numeric));
    const double difference = std::abs(analytic - numeric) / size;
    const double error =
        std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
    const Index derivatives = report.derivatives + 1;
    if (report.derivatives == 0 || error > report.error)
      report = {error, checked.input, element, analytic, numeric};
    report.derivatives = derivatives;
  };
  std::uint32_t stream = kCotangentStream;
  for (const Checked& checked : all) {
    const auto size = checked.values.size();
    std::vector<double> magnitudes;
    for (const Real x : checked.values)
      magnitudes.push_back(std::max(1.0, std::abs(static_cast<double>(x))));
    if (std::ssize(checked.values) <= options.every_element_up_to) {
      for (std::size_t i = 0; i < size; ++i)
        compare(checked, i, std::span(magnitudes).subspan(i, 1), static_cast<Index>(i));
      continue;
    }
    for (int i = 0; i < options.directions; ++i) {
      ++stream;
      std::vector<double> direction;
      for (std::size_t j = 0; j < size; ++j)
        direction.push_back((2 * random_uniform({options.seed, stream, 0}, j) - 1) * magnitudes[j]);
      compare(checked, 0, direction, -1);
    }
  }
  return report;
}

}  // namespace

std::string GradientReport::text() const {
  const std::string where =
      element < 0 ? "a random direction" : "element " + std::to_string(element);
  return "relative error " + std::to_string(error * 1e6) + "e-6 of input " + std::to_string(input) +
         " in " + where + ": analytic " + std::to_string(analytic) + ", numeric " +
         std::to_string(numeric) + " (worst of " + std::to_string(derivatives) + ")";
}

std::vector<Var> record(Tape& tape, std::span<const CheckedInput> inputs) {
  std::vector<Var> vars;
  for (const CheckedInput& input : inputs) {
    vars.push_back(input.differentiable ? tape.leaf(input.shape, input.values)
                                        : tape.constant(input.shape, input.values));
  }
  return vars;
}

GradientReport check_gradients(const CheckedFunction& function, std::vector<CheckedInput> inputs,
                               const GradientCheckOptions& options) {
  Tape tape;
  std::vector<Var> vars;
  const auto run = [&] {
    tape.reset();
    vars = record(tape, inputs);
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
  return check(
      all, [&] { return weigh(run().value(), cotangent); }, options);
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
  return check(all, weighted, options);
}

}  // namespace headcount
