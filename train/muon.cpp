#include "train/muon.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "autograd/parallel.h"
#include "autograd/products/products.h"

namespace headcount {

namespace {

constexpr int kNewtonSchulzSteps = 5;

// Multiply-accumulates of a Newton-Schulz step of X [n, m] while X itself is multiplied, and of all
// steps while its Gram matrix is.
std::int64_t cost_of_step(std::int64_t n, std::int64_t m) { return 2 * n * n * m + n * n * n; }
std::int64_t cost_by_gram(std::int64_t n, std::int64_t m) {
  return 2 * n * n * m + (4 * kNewtonSchulzSteps - 3) * n * n * n;
}

bool by_gram(Index n, Index m) {
  return cost_by_gram(n, m) < kNewtonSchulzSteps * cost_of_step(n, m);
}

// Multiply-accumulates of `orthogonalize`.
std::int64_t cost(const Shape& shape) {
  const auto [n, m] = std::minmax({shape[0], shape[1]});
  return by_gram(n, m) ? cost_by_gram(n, m) : kNewtonSchulzSteps * cost_of_step(n, m);
}

// Divides the Gram matrix X X^T [n, n] by |X|^2, its trace; returns 1 / |X|.
Real normalize(Real* gram, Index n) {
  constexpr double kLeastNorm = 1e-7;
  double squares = 0;
  for (Index i = 0; i < n; ++i) squares += static_cast<double>(gram[i * n + i]);
  const double scale = 1 / std::max(std::sqrt(squares), kLeastNorm);
  const auto square = static_cast<Real>(scale * scale);
  for (Index i = 0; i < n * n; ++i) gram[i] *= square;
  return static_cast<Real>(scale);
}

// Writes scale (a I + b A + c A A) to `polynomial`, for A = `gram`, both [n, n].
void newton_schulz(const Real* gram, Real* polynomial, Index n, Real scale) {
  constexpr Real a{3.4445}, b{-4.7750}, c{2.0315};
  gemm({polynomial, n, n}, {gram, n, n}, {gram, n, n});
  const Real linear = scale * b, quadratic = scale * c;
  for (Index i = 0; i < n * n; ++i) polynomial[i] = linear * gram[i] + quadratic * polynomial[i];
  for (Index i = 0; i < n; ++i) polynomial[i * n + i] += scale * a;
}

}  // namespace

std::span<const Real> orthogonalize(std::span<Real> x, Index rows, Index cols,
                                    std::vector<Real>& scratch) {
  const Index n = std::min(rows, cols), m = std::max(rows, cols), square = n * n;
  scratch.resize(static_cast<std::size_t>(4 * square + n * m));
  Real *const gram = scratch.data(), *const polynomial = gram + square;
  Real *product = polynomial + square, *spare = product + square;
  Real *from = x.data(), *to = spare + square;
  const auto compute_gram = [&] {
    const ConstMatrix stored(from, rows, cols);
    const ConstMatrix wide = rows > cols ? stored.transpose() : stored;
    gemm({gram, n, n}, wide, wide.transpose());
  };
  const auto apply = [&](const Real* factor) {  // symmetric
    const ConstMatrix stored(from, rows, cols), f(factor, n, n);
    gemm({to, rows, cols}, rows > cols ? stored : f, rows > cols ? f : stored);
  };
  compute_gram();
  const Real scale = normalize(gram, n);
  if (by_gram(n, m)) {
    // X = P5 P4 P3 P2 P1 X0. All factors and Gram matrices are polynomials of the first Gram
    // matrix: symmetric, and equal in any order. The next Gram matrix is P A P.
    newton_schulz(gram, polynomial, n, 1);
    for (Index i = 0; i < square; ++i) product[i] = scale * polynomial[i];
    for (int step = 1; step < kNewtonSchulzSteps; ++step) {
      gemm({spare, n, n}, {gram, n, n}, {polynomial, n, n});
      gemm({gram, n, n}, {spare, n, n}, {polynomial, n, n});
      newton_schulz(gram, polynomial, n, 1);
      gemm({spare, n, n}, {polynomial, n, n}, {product, n, n});
      std::swap(product, spare);
    }
    apply(product);
    return {to, x.size()};
  }
  newton_schulz(gram, polynomial, n, scale);
  for (int step = 1; step < kNewtonSchulzSteps; ++step) {
    apply(polynomial);
    std::swap(from, to);
    compute_gram();
    newton_schulz(gram, polynomial, n, 1);
  }
  apply(polynomial);
  return {to, x.size()};
}

Muon::Muon(const MuonSettings& settings, const AdamWSettings& others,
           const ParameterStore& parameters)
    : AdamW(others, parameters), settings_(settings) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters.maps_features({i})) matrices_.push_back({i});
  }
  std::ranges::stable_sort(matrices_, std::greater(),
                           [&](ParameterId id) { return cost(parameters.shape(id)); });
}

void Muon::update(ParameterStore& parameters, const Update& at) {
  AdamW::update(parameters, at, [&](ParameterId id) { return !parameters.maps_features(id); });
  const ParameterNumbers& momentum = moments()[0].numbers;  // the second moments are AdamW's alone
  const double rate = settings_.learning_rate * at.of_peak;
  const auto keep = static_cast<Real>(1 - rate * settings_.weight_decay);
  const auto mu = static_cast<Real>(settings_.momentum), one_mu = static_cast<Real>(1 - mu),
             factor = static_cast<Real>(at.gradient_scale);
  scratch_.resize(static_cast<std::size_t>(threads()));
  parallel_tasks(std::ssize(matrices_), threads(), [&](Index task, int thread) {
    const ParameterId id = matrices_[static_cast<std::size_t>(task)];
    const std::span<const Real> gradient = std::as_const(parameters).gradient(id);
    const std::span<Real> m = momentum.of(id);
    auto& [u, scratch] = scratch_[static_cast<std::size_t>(thread)];
    u.resize(m.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      const Real g = one_mu * (gradient[i] * factor);
      m[i] = mu * m[i] + g;
      u[i] = g + mu * m[i];
    }
    const Index rows = parameters.shape(id)[0], cols = parameters.shape(id)[1];
    const std::span<const Real> orthogonal = orthogonalize(u, rows, cols, scratch);
    const double tall = static_cast<double>(rows) / static_cast<double>(cols);
    const auto step = static_cast<Real>(rate * std::sqrt(std::max(1.0, tall)));
    const std::span<Real> w = parameters.value(id);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = keep * w[i] - step * orthogonal[i];
  });
}

extern const OptimizerKind kMuon = {
    .name = "muon",
    .summary = "Muon for the weight matrices of layers and AdamW for all others",
    .settings =
        [] {
          return together({settings_of<MuonSettings>(), settings_of<AdamWSettings>()});
        },
    .make = [](const Given& settings,
               const ParameterStore& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Muon>(read<MuonSettings>(settings), read<AdamWSettings>(settings),
                                    parameters);
    }};

}  // namespace headcount
