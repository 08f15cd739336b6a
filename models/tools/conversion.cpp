#include "models/tools/conversion.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "nn/attention/costs.h"

namespace headcount {

namespace {

using Eigen::MatrixXd;
using Json = nlohmann::ordered_json;
using RealMatrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::string_view kLatent = "mla";

bool lists(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void require_kind(std::span<const std::string_view> kinds, const std::string& attention,
                  const char* direction) {
  require_setting(lists(kinds, attention),
                  "no conversion {} `attention` {}; conversions are from mha, gqa or mqa to one of "
                  "these or to mla, the same in all layers",
                  direction, attention);
}

// Dimensions per head that RoPE rotates.
Index rotated_width(const AttentionPlan& layer) {
  return layer.rotary ? layer.values().at("rope-dim").get<Index>() : 0;
}

Index key_width(const AttentionPlan& layer) { return layer.values().at("key-dim").get<Index>(); }

// Plan of the converted model. Settings that `to` lacks suit the heads of `from`.
ModelPlan fitted(const ModelPlan& from, Given to) {
  const std::string attention = to.text("attention");
  constexpr std::string_view kinds[] = {"mha", "gqa", "mqa", kLatent};
  require_kind(std::span(kinds).first(3), from->attention, "from");
  require_kind(kinds, attention, "to");
  const AttentionPlan& heads = from->cycle.front();
  const auto fit = [&](const std::string& name, Index value) {
    if (!to.has(name)) to.put(name, value);
  };
  if (attention == kLatent) {
    fit("rope-dim", std::min(rotated_width(heads), half_of_head(heads)));
    fit("nope-dim", std::max<Index>(1, key_width(heads) - to.whole("rope-dim")));
    fit("v-dim", heads.head_dim);
  } else {
    for (const char* const name : {"key-dim", "rope-dim"}) fit(name, from->settings[name]);
  }
  return resolve_model(to);
}

void require_same_rest(const ModelPlan& from, const ModelPlan& to) {
  for (const Setting& setting : model_settings()) {
    const std::string& name = setting.name;
    // Heads of grouped attentions keep their RoPE.
    const bool same = to->attention != kLatent &&
                      (name == "key-dim" || name == "rope-dim" || name == "rope-layout");
    if (lists(kConvertedSettings, name) && !same) continue;
    const Json neutral = setting.standard.value.is_null() ? Json(0) : Json(setting.standard.value);
    const Json before = from->settings.value(name, neutral),
               after = to->settings.value(name, neutral);
    require_setting(before == after,
                    "`{}` is {}, in the model it is {}; a conversion changes keys and values only",
                    name, setting_text(after), setting_text(before));
  }
}

// Throws ShapeError unless the heads of `to`, which has latents, are as wide as those of `from`.
void require_same_widths(const AttentionPlan& from, const AttentionPlan& to) {
  const Json sizes = to.values();
  const Index rope = sizes["rope-dim"], rank = sizes["kv-rank"], rotated = rotated_width(from);
  require_setting(
      rope <= rotated,
      "`rope-dim` {} is more than the {} dimensions of each head that RoPE rotates in the model",
      rope, rotated);
  require_setting(
      sizes["nope-dim"] == key_width(from) - rope && sizes["v-dim"] == from.head_dim,
      "`nope-dim` plus `rope-dim` must be {}, and `v-dim` {}, as wide as the model's heads",
      key_width(from), from.head_dim);
  require_setting(rank <= from.dim, "`kv-rank` {} is more than the model's width, {}", rank,
                  from.dim);
}

// Row in a head of `width` rows of the first (0) or second (1) dimension of a pair that RoPE
// rotates.
Index row_of(RotaryLayout layout, Index width, Index pairs, Index pair, Index second) {
  const Index in_part =
      layout == RotaryLayout::interleaved ? 2 * pair + second : second * pairs + pair;
  return width - 2 * pairs + in_part;
}

// Conversion of one layer. A projection with a bias is read and written as a matrix with one more
// column.
class LayerConversion {
 public:
  LayerConversion(const LanguageModel& from, LanguageModel& to, Index layer)
      : from_(from.parameters()),
        to_(to.parameters()),
        old_(from.plan()->layer_attention(layer)),
        new_(to.plan()->layer_attention(layer)),
        prefix_("model.layers." + std::to_string(layer) + ".") {
    scale_ = read("input_layernorm.weight");
    const bool shifts = from.plan()->norm == NormKind::layer && old_.bias;
    shift_ = shifts ? read("input_layernorm.bias") : MatrixXd::Zero(old_.dim, 1);
  }

  void run() {
    if (new_.kind().name == kLatent) {
      make_latent();
      return;
    }
    for (const char* const name : {"k_proj", "v_proj"})
      write(name, regrouped(projection(name), cache_parts(new_).front().heads));
  }

 private:
  MatrixXd read(const std::string& name) const {
    const ParameterId id = from_.find(prefix_ + name);
    const Index rows = from_.shape(id)[0];
    return Eigen::Map<const RealMatrix>(from_.value(id).data(), rows, from_.shape(id).size() / rows)
        .cast<double>();
  }
  MatrixXd projection(const std::string& name) const {
    MatrixXd matrix = read("self_attn." + name + ".weight");
    if (old_.bias) {
      matrix.conservativeResize(Eigen::NoChange, matrix.cols() + 1);
      matrix.rightCols(1) = read("self_attn." + name + ".bias");
    }
    return matrix;
  }
  void write(const std::string& name, const MatrixXd& matrix) {
    const auto put = [&](const char* part, const MatrixXd& values) {
      const std::span<Real> to = to_.value(to_.find(prefix_ + "self_attn." + name + part));
      Eigen::Map<RealMatrix>(to.data(), values.rows(), values.cols()) = values.cast<Real>();
    };
    put(".weight", matrix.leftCols(matrix.cols() - (old_.bias ? 1 : 0)));
    if (old_.bias) put(".bias", matrix.rightCols(1));
  }
  // KV heads `rows` as `to` KV heads: each is the mean of those that its query heads had. If there
  // were fewer, heads are repeated.
  MatrixXd regrouped(const MatrixXd& rows, Index to) const {
    const Index heads = old_.heads, from = cache_parts(old_).front().heads,
                width = rows.rows() / from;
    MatrixXd sums = MatrixXd::Zero(to * width, rows.cols());
    for (Index head = 0; head < heads; ++head)
      sums.middleRows(head * to / heads * width, width) +=
          rows.middleRows(head * from / heads * width, width);
    return sums / static_cast<double>(heads / to);
  }
  // For each row of a head of `to` the row of the model's head: first those without RoPE. The pairs
  // that RoPE rotates are evenly spaced, so that frequencies stay where `rope-dim` divides the
  // model's.
  std::vector<Index> latent_rows() const {
    const Index rotated = rotated_width(new_), pairs = rotated / 2, had = rotated_width(old_) / 2;
    std::vector<Index> rotary(static_cast<std::size_t>(rotated)), order;
    for (Index i = 0; i < rotated; ++i) {
      const Index pair = i / 2, second = i % 2;
      rotary[static_cast<std::size_t>(row_of(new_.rotary_layout, rotated, pairs, pair, second))] =
          row_of(old_.rotary_layout, key_width(old_), had, pair * had / pairs, second);
    }
    for (Index row = 0; row < key_width(old_); ++row) {
      if (std::ranges::find(rotary, row) == rotary.end()) order.push_back(row);
    }
    order.insert(order.end(), rotary.begin(), rotary.end());
    return order;
  }

  // Queries keep their rows. All heads share the mean of their rotary keys; the rest of the keys
  // and the values are approximated as U D z by the greatest singular values, where z is the norm's
  // output before its weights. Elements of the latent D z are as large as those of z, so that the
  // latent's norm changes little.
  void make_latent() {
    const MatrixXd keys = regrouped(projection("k_proj"), old_.heads),
                   values = regrouped(projection("v_proj"), old_.heads);
    const Json sizes = new_.values();
    const Index rank = sizes["kv-rank"], nope = sizes["nope-dim"], rope = sizes["rope-dim"];
    const Index dim = old_.dim, width = old_.head_dim, key = key_width(old_), columns = keys.cols();
    const std::vector<Index> order = latent_rows();
    MatrixXd q = projection("q_proj"), kv(old_.heads * (nope + width), columns),
             rope_key = MatrixXd::Zero(rope, columns);
    for (Index head = 0; head < old_.heads; ++head) {
      const Index row = head * key, kv_row = head * (nope + width);
      const MatrixXd k = keys.middleRows(row, key)(order, Eigen::all);
      kv.middleRows(kv_row, nope) = k.topRows(nope);
      kv.middleRows(kv_row + nope, width) = values.middleRows(head * width, width);
      rope_key += k.bottomRows(rope) / static_cast<double>(old_.heads);
      q.middleRows(row, key) = MatrixXd(q.middleRows(row, key)(order, Eigen::all));
    }

    // Right singular vectors are eigenvectors of the transpose times the matrix, which is accurate
    // for singular values above 1e-8 of the greatest.
    const MatrixXd of_z = kv.leftCols(dim) * scale_.asDiagonal();
    const Eigen::SelfAdjointEigenSolver<MatrixXd> squares(of_z.transpose() * of_z);
    const MatrixXd basis = squares.eigenvectors().rightCols(rank);
    MatrixXd up = MatrixXd::Zero(kv.rows(), rank + columns - dim);
    MatrixXd down = MatrixXd::Zero(rank + rope, columns);
    up.leftCols(rank) = of_z * basis;
    const Eigen::VectorXd inverse = (scale_.array() == 0).select(0, scale_.cwiseInverse());
    down.topLeftCorner(rank, dim) = basis.transpose() * inverse.asDiagonal();
    down.bottomRows(rope) = rope_key;
    if (old_.bias) {
      up.rightCols(1) = kv.rightCols(1) + kv.leftCols(dim) * shift_;
      down.topRightCorner(rank, 1) = -down.topLeftCorner(rank, dim) * shift_;
    }
    write("q_proj", q);
    write("kv_a_proj_with_mqa", down);
    write("kv_b_proj", up);
    if (sizes["latent-norm"] == "on")
      std::ranges::fill(to_.value(to_.find(prefix_ + "self_attn.kv_a_layernorm.weight")), Real{1});
  }

  const ParameterStore& from_;
  ParameterStore& to_;
  const AttentionPlan &old_, &new_;
  std::string prefix_;
  Eigen::VectorXd scale_, shift_;  // weights of the norm before the layer
};

// Copies the weights that a conversion leaves as they are.
void copy_rest(const ParameterStore& from, ParameterStore& to) {
  constexpr std::string_view mark = ".self_attn.";
  constexpr std::string_view made[] = {"k_proj", "v_proj", "kv_a_proj_with_mqa", "kv_a_layernorm",
                                       "kv_b_proj"};
  constexpr std::string_view copied[] = {"q_proj", "o_proj", "gate_proj",
                                         "sinks",  "q_norm", "k_norm"};
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::string& name = to.name({i});
    if (const std::size_t at = name.find(mark); at != name.npos) {
      const std::string weight = name.substr(at + mark.size());
      const std::string module = weight.substr(0, weight.rfind('.'));
      if (lists(made, module)) continue;
      require_setting(lists(copied, module) && to.shape({i}) == from.shape(from.find(name)),
                      "conversion does not support the weights '{}'", module);
    }
    std::ranges::copy(from.value(from.find(name)), to.value({i}).begin());
  }
}

}  // namespace

std::unique_ptr<LanguageModel> convert(const LanguageModel& from, const Given& to) {
  const ModelPlan plan = fitted(from.plan(), to);
  require_same_rest(from.plan(), plan);
  if (plan->attention == kLatent)
    require_same_widths(from.plan()->cycle.front(), plan->cycle.front());
  auto model = std::make_unique<LanguageModel>(plan, from.vocabulary());
  model->parameters().allocate();
  copy_rest(from.parameters(), model->parameters());
  for (Index layer = 0; layer < plan->layers; ++layer) LayerConversion(from, *model, layer).run();
  return model;
}

}  // namespace headcount
