// programs: models reference
// Outputs, gradients and caches of attention layers against their fixtures.
#include <algorithm>
#include <utility>

#include "models/reference.h"

namespace headcount::reference {

void Reference::check_attention() {
  const std::string prefix = "layer.";
  LayerConfig config;
  set_attention(config_, config.given);
  config.kind = kind_of(config_);
  config.dim = config_.at("d_model");
  config.rotary = config_.at("positions") == "rope";
  config.bias = config_.at("bias");
  config.causal = config_.value("causal", true);
  config.norm_epsilon = config_.value("norm_eps", 0.0);
  const TensorView& x = file_.at("x");
  config.max_positions = x.shape[1];
  ParameterStore parameters;
  const auto layer = make_attention(parameters, "layer", resolved(config), {});
  parameters.allocate();
  copy_weights(parameters, prefix);
  std::vector<std::uint8_t> mask;
  if (file_.contains("key_mask")) {
    for (const double keep : file_.at("key_mask").to_doubles()) mask.push_back(keep != 0);
  }
  Tape tape(&parameters);
  const Var input = tape.leaf(shape_of(x), reals(x));
  AttentionStats stats;
  stats.keeps_weights = true;
  Memory memory(mask, &stats);
  const Var y = layer->forward(input, memory);
  ASSERT_EQ(y.shape(), shape_of(file_.at("y")));
  expect_close(y.value(), file_.at("y"), kOutputTolerance);
  tape.backward(y, reals(file_.at("dy")));
  expect_close(input.gradient(), file_.at("dx"), kOutputTolerance);
  expect_parameters("dw.", prefix, parameters, true, kOutputTolerance);
  if (holds_a_cache()) check_cache(resolved(config), *layer, parameters);
  if (file_.contains("visible")) check_visible(resolved(config), stats);
}

bool Reference::holds_a_cache() const {
  return std::ranges::any_of(file_.tensors(), [](const TensorView& tensor) {
    // That of MLA belongs to the form in which it decodes; a test of decoding compares it.
    return tensor.name.starts_with("cache.") && tensor.name != "cache.latent" &&
           tensor.name != "cache.rope_key";
  });
}

// Outputs of decoding token by token, and what is then in the cache.
void Reference::check_cache(const AttentionPlan& plan, const Attention& layer,
                            const ParameterStore& store) {
  const TensorView& x = file_.at("x");
  const Index batch = x.shape[0], length = x.shape[1], dim = x.shape[2];
  const std::vector<Real> inputs = reals(x);
  std::vector<Real> outputs(inputs.size());
  LayerCache cache = make_cache(plan, {.sequences = batch, .capacity = length});
  Tape tape(store);
  for (Index t = 0; t < length; ++t) {
    tape.reset();
    std::vector<Real> token;
    for (Index b = 0; b < batch; ++b)
      token.insert(token.end(), inputs.begin() + (b * length + t) * dim,
                   inputs.begin() + (b * length + t + 1) * dim);
    Memory memory(cache, 1);
    const auto y = layer.forward(tape.constant({batch, 1, dim}, token), memory).value();
    cache.set_length(t + 1);
    for (Index b = 0; b < batch; ++b)
      std::copy_n(y.begin() + b * dim, dim, outputs.begin() + (b * length + t) * dim);
  }
  expect_close(outputs, file_.at(file_.contains("y_decode") ? "y_decode" : "y"), kOutputTolerance);
  check_inputs(cache);
  if (file_.contains("cache.state"))
    expect_close(cache.state("state"), file_.at("cache.state"), kOutputTolerance);
  check_rows(cache, length);
  if (file_.contains("cache.rows")) check_blocks(plan, cache, store);
}

// The last inputs of convolutions: a tensor [B, channels, taps] has those of one or more of them
// side by side. Later tokens do not see the first of the taps.
void Reference::check_inputs(LayerCache& cache) {
  using Names = std::vector<std::string>;
  for (const auto& [tensor, names] :
       {std::pair<std::string, Names>{"canonB", {"canonB_q", "canonB_k", "canonB_v"}},
        {"conv", {"q_inputs", "k_inputs", "v_inputs"}},
        {"conv_q", {"q_inputs"}},
        {"conv_k", {"k_inputs"}},
        {"conv_v", {"v_inputs"}}}) {
    if (!file_.contains("cache." + tensor)) continue;
    const TensorView& expected = file_.at("cache." + tensor);
    const Index batch = expected.shape[0], channels = expected.shape[1], taps = expected.shape[2];
    std::vector<Real> inputs = reals(expected);
    Index first = 0;
    for (const std::string& name : names) {
      const std::span<const Real> state = cache.state(name);
      const Index width = taps > 1 ? std::ssize(state) / batch / (taps - 1) : 0;
      for (Index i = 0; i < std::ssize(state); ++i) {
        const Index b = i / width / (taps - 1), tap = i / width % (taps - 1) + 1;
        const Index channel = first + i % width;
        inputs[static_cast<std::size_t>((b * channels + channel) * taps + tap)] =
            state[static_cast<std::size_t>(i)];
      }
      first += width;
    }
    EXPECT_EQ(first, taps > 1 ? channels : 0);
    expect_close(inputs, expected, kOutputTolerance);
  }
}

// Rows of all sequences, of one head; of a window the last ones.
void Reference::check_rows(LayerCache& cache, Index length) {
  for (const auto& [name, part] : {std::pair<std::string, std::string>{"kv", "window"},
                                   {"index_key", "indexer"},
                                   {"compressed", "compressed"},
                                   {"indexer_compressed", "indexer.compressed"}}) {
    if (!file_.contains("cache." + part)) continue;
    const TensorView& expected = file_.at("cache." + part);
    const Index batch = expected.shape[0];
    const RowCache& kept = cache.rows(name);
    const Index count = expected.shape[1], first = part == "window" ? length - count : 0;
    std::vector<Real> all;
    for (Index b = 0; b < batch; ++b) {
      for (Index row = first; row < first + count; ++row) {
        const Real* const from =
            kept.read(b, 0, row % kept.capacity(), 1, 0, kept.width(), nullptr).data;
        all.insert(all.end(), from, from + kept.width());
      }
    }
    expect_close(all, expected, kOutputTolerance);
  }
}

// The tokens of an open block, and of rows pooled over two blocks those of the block before. Of
// these, caches keep the first half of the channels one block late: behind `open_` are the last
// tokens of [that half of the block before | second half], behind `overlap_` the last first halves.
// The gates of a block before are there with the bias that is added to them.
void Reference::check_blocks(const AttentionPlan& plan, LayerCache& cache,
                             const ParameterStore& store) {
  const std::vector<double> counts = file_.at("cache.rows").to_doubles();
  for (std::size_t t = 0; t < counts.size(); ++t)
    EXPECT_EQ(counts[t], static_cast<double>((static_cast<Index>(t) + 1) / get(plan, "compress")));
  const Index block = get(plan, "compress"), open = std::ssize(counts) % block;
  const bool overlaps = file_.contains("cache.overlap_kv");
  for (const TensorView& expected : file_.tensors()) {
    const std::string& name = expected.name;
    const bool pending = name.find(".pending_") != std::string::npos;
    if (!pending && name.find(".overlap_") == std::string::npos) continue;
    const bool of_indexer = name.find(".indexer.") != std::string::npos;
    const Index batch = expected.shape[0], tokens = expected.shape[1], width = expected.shape[2];
    std::vector<Real> held;
    const auto add = [&](const std::string& kept, Index b, Index row, Index first, Index count) {
      const std::span<const Real> state = cache.state((of_indexer ? "indexer_" : "") + kept +
                                                      (name.ends_with("gate") ? "gate" : "kv"));
      const Index rows = kept == "open_" ? block - 1 : block,
                  channels = std::ssize(state) / batch / rows;
      const auto from = state.begin() + (b * rows + row) * channels + first;
      held.insert(held.end(), from, from + count);
    };
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < tokens; ++i) {
        const Index row = block - 1 - open + i, half = width / 2;
        if (!overlaps) {
          add("open_", b, row, 0, width);
        } else if (pending) {
          add("overlap_", b, row + 1, 0, half);
          add("open_", b, row, half, half);
        } else if (i < open) {
          add("open_", b, row, 0, width);
        } else {
          add("overlap_", b, i - open, 0, width);
        }
      }
    }
    if (name.ends_with("overlap_gate")) {
      const std::string indexer = of_indexer ? "indexer." : "";
      const std::span<const Real> bias =
          store.value(store.find("layer.compressor." + indexer + "position_bias"));
      for (Index i = 0; i < std::ssize(held); ++i) {
        const Index at = i / width % tokens * 2 * width + i % width;
        held[static_cast<std::size_t>(i)] += bias[static_cast<std::size_t>(at)];
      }
    }
    expect_close(held, expected, kOutputTolerance);
  }
}

// Checks which queries read which rows, pooled ones if there are any: each head gives them a
// weight.
void Reference::check_visible(const AttentionPlan& plan, const AttentionStats& stats) {
  const TensorView& visible = file_.at("visible");
  const std::vector<double> wanted = visible.to_doubles();
  const Index batch = visible.shape[0], length = visible.shape[1], rows = visible.shape[2];
  const std::vector<Real>& weights =
      file_.contains("cache.compressed") ? stats.pooled_weights : stats.weights;
  ASSERT_EQ(std::ssize(weights), batch * plan.heads * length * rows);
  for (Index i = 0; i < batch * length * rows; ++i) {
    const Index b = i / rows / length, t = i / rows % length;
    const Index at = (b * plan.heads * length + t) * rows + i % rows;
    EXPECT_EQ(weights[static_cast<std::size_t>(at)] > 0, wanted[static_cast<std::size_t>(i)] != 0)
        << "token " << t << ", row " << i % rows;
  }
}

}  // namespace headcount::reference
