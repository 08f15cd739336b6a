#include "train/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

// AdamW uses both for the parameters that it trains; Muon uses the first alone.
constexpr std::array<std::string_view, 2> kMoments = {"first_moment", "second_moment"};

constexpr Field<MuonSettings> kMuonFields[] = {
    number<&MuonSettings::learning_rate>(
        "muon-lr", "peak learning rate of the weight matrices that Muon trains", 0, 100),
    number<&MuonSettings::weight_decay>(
        "muon-weight-decay", "decoupled weight decay of the weight matrices that Muon trains", 0,
        100)};

struct Resolved {
  MuonSettings muon;
  AdamWSettings others;
};

// Multiply-accumulates of `orthogonalize`.
Index cost(const Shape& shape) {
  const auto [least, greatest] = std::minmax({shape[0], shape[1]});
  return 2 * least * least * greatest + least * least * least;
}

double norm(std::span<const Real> x) {
  double squares = 0;
  for (const Real number : x) squares += static_cast<double>(number) * static_cast<double>(number);
  return std::sqrt(squares);
}

}  // namespace

void orthogonalize(std::span<Real> x, Index rows, Index cols, std::vector<Real>& scratch) {
  constexpr int kSteps = 5;
  constexpr Real a{3.4445}, b{-4.7750}, c{2.0315};
  constexpr double kLeastNorm = 1e-7;
  const Index n = std::min(rows, cols), size = rows * cols;
  const auto scale = static_cast<Real>(1 / std::max(norm(x), kLeastNorm));
  for (Real& number : x) number *= scale;
  scratch.resize(static_cast<std::size_t>(2 * n * n + size));
  Real *const square = scratch.data(), *const polynomial = square + n * n;
  Real *from = x.data(), *to = polynomial + n * n;
  for (int step = 0; step < kSteps; ++step) {
    const ConstMatrix stored(from, rows, cols);
    const ConstMatrix wide = rows > cols ? stored.transpose() : stored;
    gemm({square, n, n}, wide, wide.transpose());
    gemm({polynomial, n, n}, {square, n, n}, {square, n, n});
    for (Index i = 0; i < n * n; ++i) polynomial[i] = b * square[i] + c * polynomial[i];
    for (Index i = 0; i < size; ++i) to[i] = a * from[i];
    const ConstMatrix factor(polynomial, n, n);  // symmetric
    if (rows > cols) {
      gemm({to, rows, cols}, stored, factor, Write::add);
    } else {
      gemm({to, rows, cols}, factor, stored, Write::add);
    }
    std::swap(from, to);
  }
  if (from != x.data()) std::copy_n(from, size, x.data());
}

Muon::Muon(const MuonSettings& settings, const AdamWSettings& others,
           const ParameterStore& parameters)
    : Optimizer(parameters, kMoments), settings_(settings), others_(others) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters.maps_features({i})) matrices_.push_back({i});
  }
  std::ranges::stable_sort(matrices_, std::greater(),
                           [&](ParameterId id) { return cost(parameters.shape(id)); });
}

void Muon::update(ParameterStore& parameters, const Update& at) {
  const ParameterNumbers &first = moments()[0].numbers, &second = moments()[1].numbers;
  update_by_adamw(others_, parameters, first, second, at,
                  [&](ParameterId id) { return !parameters.maps_features(id); });
  const auto mu = static_cast<Real>(settings_.momentum), one_mu = static_cast<Real>(1 - mu),
             factor = static_cast<Real>(at.gradient_scale);
  const double rate = settings_.learning_rate * at.of_peak;
  const auto keep = static_cast<Real>(1 - rate * settings_.weight_decay);
  scratch_.resize(static_cast<std::size_t>(threads()));
  parallel_tasks(std::ssize(matrices_), threads(), [&](Index task, int thread) {
    const ParameterId id = matrices_[static_cast<std::size_t>(task)];
    const Index rows = parameters.shape(id)[0], cols = parameters.shape(id)[1];
    const std::span<const Real> gradient = std::as_const(parameters).gradient(id);
    const std::span<Real> m = first.of(id), w = parameters.value(id);
    auto& [u, scratch] = scratch_[static_cast<std::size_t>(thread)];
    u.resize(w.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      const Real g = one_mu * (gradient[i] * factor);
      m[i] = mu * m[i] + g;
      u[i] = g + mu * m[i];
    }
    orthogonalize(u, rows, cols, scratch);
    const double shape = std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols));
    const auto step = static_cast<Real>(rate * std::sqrt(shape));
    for (std::size_t i = 0; i < u.size(); ++i) w[i] = keep * w[i] - step * u[i];
  });
}

const OptimizerKind kMuon = {
    .name = "muon",
    .own = {[](Scope scope) {
              SettingList all = settings_of(kMuonFields, scope);
              add_settings(all, kAdamW.own.settings(scope));
              return all;
            },
            [](const std::any& own) {
              const auto& settings = std::any_cast<const Resolved&>(own);
              nlohmann::ordered_json all = values_of(kMuonFields, settings.muon);
              all.update(kAdamW.own.values(settings.others));
              return all;
            }},
    .resolve = [](const Given& given) -> std::any {
      return Resolved{read_fields(kMuonFields, given), resolve_adamw(given)};
    },
    .make = [](const std::any& own,
               const ParameterStore& parameters) -> std::unique_ptr<Optimizer> {
      const auto& settings = std::any_cast<const Resolved&>(own);
      return std::make_unique<Muon>(settings.muon, settings.others, parameters);
    }};

}  // namespace headcount
