#include "nn/attention/heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headcount {

namespace {

// For each row of a block whose RoPE pairs are (j, j + rotated / 2): its place in the plan's
// layout.
std::vector<Index> places_of_halves(Index width, Index rotated, const AttentionPlan& plan) {
  std::vector<Index> places(static_cast<std::size_t>(width));
  std::iota(places.begin(), places.end(), Index{0});
  if (plan.rotary_layout != RotaryLayout::interleaved) return places;
  const Index first = width - rotated;
  for (Index j = 0; j < rotated / 2; ++j) {
    places[static_cast<std::size_t>(first + j)] = first + 2 * j;
    places[static_cast<std::size_t>(first + rotated / 2 + j)] = first + 2 * j + 1;
  }
  return places;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Sums of squares of a difference and of the original.
struct Squares {
  double difference = 0, whole = 0;

  double relative() const { return whole > 0 ? std::sqrt(std::max(0.0, difference) / whole) : 0; }
  void add(std::span<const double> a, std::span<const double> b) {
    difference += dot(a, a) + dot(b, b) - 2 * dot(a, b);
    whole += dot(a, a);
  }
};

// Mean cosine and sine over the first positions, at `frequency` radians per token.
std::pair<double, double> mean_rotation(double frequency, Index positions) {
  double c = 0, s = 0;
  for (Index t = 0; t < positions; ++t) {
    c += std::cos(frequency * static_cast<double>(t));
    s += std::sin(frequency * static_cast<double>(t));
  }
  return {c / static_cast<double>(positions), s / static_cast<double>(positions)};
}

}  // namespace

HeadErrors head_errors(const AttentionHeads& before, const AttentionHeads& after, Index positions) {
  Squares keys, values;
  for (Index row = 0; row < before.v.rows; ++row) values.add(before.v.row(row), after.v.row(row));
  const Index pairs = std::ssize(before.frequencies), plain = before.key_width - before.rotated();
  for (Index first = 0; first < before.k.rows; first += before.key_width) {
    for (Index row = first; row < first + plain; ++row)
      keys.add(before.k.row(row), after.k.row(row));
  }
  // |R(f t) k - R(f' t) k'|^2 = |k|^2 + |k'|^2 - 2 k.R((f' - f) t) k', with k = (a, b).
  for (Index pair = 0; pair < pairs; ++pair) {
    const auto p = static_cast<std::size_t>(pair);
    const auto [c, s] = mean_rotation(after.frequencies[p] - before.frequencies[p], positions);
    for (Index first = plain; first < before.k.rows; first += before.key_width) {
      const auto a = before.k.row(first + pair), b = before.k.row(first + pairs + pair);
      const auto a2 = after.k.row(first + pair), b2 = after.k.row(first + pairs + pair);
      const double common = c * (dot(a, a2) + dot(b, b2)) + s * (dot(b, a2) - dot(a, b2));
      keys.difference += dot(a, a) + dot(b, b) + dot(a2, a2) + dot(b2, b2) - 2 * common;
      keys.whole += dot(a, a) + dot(b, b);
    }
  }
  return {keys.relative(), values.relative()};
}

std::string module_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

LayerMatrices::LayerMatrices(const ParameterStore& parameters, const std::string& prefix,
                             const std::string& norm) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters.name({i});
    const Shape& shape = parameters.shape({i});
    const std::span<const Real> values = parameters.value({i});
    if (name == norm + ".weight") scale_.assign(values.begin(), values.end());
    if (name == norm + ".bias") shift_.assign(values.begin(), values.end());
    if (!name.starts_with(prefix + ".")) continue;
    const std::string module = module_of(name.substr(prefix.size() + 1));
    unread_.insert(module);
    if (name.ends_with(".weight")) {
      DoubleMatrix matrix(shape[0], shape.size() / shape[0]);
      std::ranges::copy(values, matrix.values.begin());
      all_[module] = std::move(matrix);
    } else if (name.ends_with(".bias")) {  // a store has it after the weight
      DoubleMatrix& matrix = all_.at(module);
      matrix = zero_padded(matrix, matrix.columns + 1);
      for (Index r = 0; r < matrix.rows; ++r)
        matrix.row(r).back() = static_cast<double>(values[static_cast<std::size_t>(r)]);
    } else {  // a vector
      DoubleMatrix column(shape.size(), 1);
      std::ranges::copy(values, column.values.begin());
      all_[module] = std::move(column);
    }
  }
}

const DoubleMatrix& LayerMatrices::get(const std::string& name) const {
  const auto found = all_.find(name);
  require_setting(found != all_.end(), "the layer has no weights '", name, "'");
  unread_.erase(name);
  return found->second;
}

std::vector<std::string> LayerMatrices::unread() const { return {unread_.begin(), unread_.end()}; }

// x = scale z + shift, so W x + b = (W scale) z + (b + W shift).
DoubleMatrix LayerMatrices::of_z(const std::string& name) const {
  DoubleMatrix matrix = get(name);
  for (Index r = 0; r < matrix.rows; ++r) {
    const std::span<double> row = matrix.row(r);
    if (!shift_.empty()) row.back() += dot(shift_, row.first(shift_.size()));
    for (std::size_t i = 0; i < scale_.size(); ++i) row[i] *= scale_[i];
  }
  return matrix;
}

DoubleMatrix LayerMatrices::undone(DoubleMatrix matrix) const {
  for (Index r = 0; r < matrix.rows; ++r) {
    const std::span<double> row = matrix.row(r);
    for (std::size_t i = 0; i < scale_.size(); ++i)
      row[i] = scale_[i] == 0 ? 0 : row[i] / scale_[i];
    if (!shift_.empty()) row.back() -= dot(shift_, row.first(shift_.size()));
  }
  return matrix;
}

std::vector<double> rotary_frequencies(const AttentionPlan& plan, Index width) {
  std::vector<double> frequencies;
  for (Index j = 0; plan.rotary && j < width / 2; ++j)
    frequencies.push_back(
        std::pow(plan.rope_theta, -2.0 * static_cast<double>(j) / static_cast<double>(width)));
  return frequencies;
}

namespace {

// Size of each rotary pair's scores, over all heads: squares of queries times squares of keys.
std::vector<double> pair_sizes(const AttentionHeads& heads) {
  const auto squares = [&](const DoubleMatrix& matrix) {
    std::vector<double> sums(heads.frequencies.size());
    for (Index row = 0; row < matrix.rows; ++row) {
      const Index place = row % heads.key_width - (heads.key_width - heads.rotated());
      if (place >= 0)
        sums[static_cast<std::size_t>(place) % sums.size()] +=
            dot(matrix.row(row), matrix.row(row));
    }
    return sums;
  };
  std::vector<double> sizes = squares(heads.q);
  std::ranges::transform(sizes, squares(heads.k), sizes.begin(), std::multiplies());
  return sizes;
}

}  // namespace

RotaryRows rows_for_rotary_part(const AttentionHeads& heads, Index width, RotaryPairs which) {
  const Index has = std::ssize(heads.frequencies), wanted = width / 2;
  require_setting(wanted <= has, "`rope-dim` ", width, " is more than the ", heads.rotated(),
                  " rotated dimensions of each head in the model");
  RotaryRows rows;
  const std::vector<double> sizes = pair_sizes(heads);
  for (Index j = 0; j < wanted; ++j) {
    const auto first = sizes.begin() + j * has / wanted;
    const auto end = sizes.begin() + (j + 1) * has / wanted;
    rows.pairs.push_back((which == RotaryPairs::even ? first : std::max_element(first, end)) -
                         sizes.begin());
  }
  for (const Index half : {heads.rotated(), has}) {
    for (const Index pair : rows.pairs) rows.rotated.push_back(heads.key_width - half + pair);
  }
  for (Index row = 0; row < heads.key_width; ++row) {
    if (std::ranges::find(rows.rotated, row) == rows.rotated.end()) rows.others.push_back(row);
  }
  return rows;
}

void replace_keys(AttentionHeads& heads, const RotaryRows& rows, const DoubleMatrix& keys,
                  const std::vector<double>& frequencies) {
  std::vector<Index> back(static_cast<std::size_t>(heads.key_width));
  Index place = 0;
  for (const std::vector<Index>* part : {&rows.others, &rows.rotated}) {
    for (const Index row : *part) back[static_cast<std::size_t>(row)] = place++;
  }
  heads.k = take_rows(keys, heads.key_width, back);
  std::ranges::fill(heads.frequencies, 0.0);
  for (std::size_t i = 0; i < rows.pairs.size(); ++i)
    heads.frequencies[static_cast<std::size_t>(rows.pairs[i])] = frequencies[i];
}

DoubleMatrix to_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                       const AttentionPlan& plan) {
  return take_rows(matrix, width, places_of_halves(width, rotated, plan));
}

DoubleMatrix from_halves(const DoubleMatrix& matrix, Index width, Index rotated,
                         const AttentionPlan& plan) {
  const std::vector<Index> places = places_of_halves(width, rotated, plan);
  std::vector<Index> back(places.size());
  for (Index i = 0; i < width; ++i)
    back[static_cast<std::size_t>(places[static_cast<std::size_t>(i)])] = i;
  return take_rows(matrix, width, back);
}

DoubleMatrix composed(const DoubleMatrix& outer, const DoubleMatrix& inner) {
  DoubleMatrix result = product(outer.column_part(0, inner.rows), inner);
  for (Index r = 0; outer.columns > inner.rows && r < outer.rows; ++r)
    result.row(r).back() += outer.row(r).back();
  return result;
}

LatentMatrices through_latent(const DoubleMatrix& matrix, Index rank, Index dim,
                              const std::string& setting, double factor) {
  require_setting(rank <= dim, "`", setting, "` ", rank, " is more than the model's width, ", dim);
  Factors best = factors(matrix.column_part(0, dim), rank);
  const Index biases = matrix.columns - dim;
  LatentMatrices latent{zero_padded(best.right, dim + biases), {}, {}};
  latent.whole = zero_padded(product(best.left, best.right), dim + biases);
  best.left *= 1 / factor;
  latent.up = zero_padded(best.left, rank + biases);
  for (Index r = 0; biases > 0 && r < matrix.rows; ++r)
    latent.up.row(r).back() = latent.whole.row(r).back() = matrix.row(r).back();
  return latent;
}

DoubleMatrix norm_of_ones(Index width) {
  DoubleMatrix weights(width, 1);
  std::ranges::fill(weights.values, 1.0);
  return weights;
}

DoubleMatrix queries(const LayerMatrices& weights, const QueryLatent& latent) {
  if (latent.rank == 0) return weights.of_z("q_proj");
  require_setting(!latent.normed, "its queries come from a normed latent and are not linear in x");
  DoubleMatrix down = weights.of_z("q_a_proj");
  down *= latent.factor;
  return composed(weights.get("q_b_proj"), down);
}

void make_queries(MadeLayer& made, const DoubleMatrix& q, const QueryLatent& latent) {
  if (latent.rank == 0) {
    made.of_z["q_proj"] = q;
    return;
  }
  LatentMatrices matrices = through_latent(q, latent.rank, made.heads.dim, "q-rank", latent.factor);
  made.of_z["q_a_proj"] = std::move(matrices.down);
  made.others["q_b_proj"] = std::move(matrices.up);
  if (latent.normed) made.others["q_a_layernorm"] = norm_of_ones(latent.rank);
}

double score_factor(const AttentionPlan& plan, Index from, Index to) {
  if (!plan.score_scale.by_width()) return 1;
  return std::sqrt(static_cast<double>(to) / static_cast<double>(from));
}

void require_width(const std::string& what, Index here, Index there) {
  require_setting(here == there, what, " is ", here, ", in the model it is ", there);
}

}  // namespace headcount
