#include "models/language_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/no_target.h"

namespace headcount {

LanguageModel::LanguageModel(const ModelPlan& plan, Index vocabulary)
    : plan_(plan),
      vocabulary_(vocabulary),
      embed_tokens_(parameters_, "model.embed_tokens", vocabulary, plan_->dim,
                    WeightInit{}.deviation),
      embed_positions_(plan_->positions == Positions::learned
                           ? std::optional<Embedding>(std::in_place, parameters_,
                                                      "model.embed_positions", plan_->context,
                                                      plan_->dim, WeightInit{}.deviation)
                           : std::nullopt),
      blocks_([this] {
        std::vector<Block> blocks;
        for (Index layer = 0; layer < plan_->layers; ++layer) blocks.push_back(make_block(layer));
        return blocks;
      }()),
      norm_(parameters_, "model.norm", plan_->dim,
            {plan_->norm, plan_->bias, plan_->norm_epsilon}) {
  if (!plan_->tie_embeddings) {
    head_.emplace(parameters_, "lm_head",
                  Linear::Size{.in = plan_->dim, .out = vocabulary, .rows = MatrixRows::entries},
                  WeightInit{}.deviation);
  }
}

LanguageModel::LanguageModel(const ModelPlan& plan, const LanguageModel& from)
    : LanguageModel(plan, from.vocabulary()) {
  parameters_.allocate();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::span<Real> to = parameters_.value({i});
    std::ranges::copy(from.parameters().value({i}).first(to.size()), to.begin());
  }
}

void LanguageModel::initialize(std::uint64_t seed) {
  parameters_.allocate();
  parameters_.initialize(seed);
}

LanguageModel::Block LanguageModel::make_block(Index layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const WeightInit init = WeightInit::for_layers(plan_->layers);
  const auto norm = [&](const char* name) {
    return Norm(parameters_, prefix + name, plan_->dim,
                {plan_->norm, plan_->bias, plan_->norm_epsilon});
  };
  AttentionPlan attention = plan_->layer_attention(layer);
  attention.layer = layer;
  const auto canon = [&](char place) -> std::optional<CausalConvolution> {
    if (!attention.canon.has(place)) return std::nullopt;
    return canon_layer(parameters_, prefix + "canon" + place, plan_->dim, attention.canon_taps);
  };
  const Mlp::Options mlp = {.width = plan_->dim,
                            .hidden = plan_->ffn_dim,
                            .activation = plan_->activation,
                            .bias = plan_->bias,
                            .canon_taps = attention.canon.has('D') ? attention.canon_taps : 0};
  const bool has_mlp = plan_->ffn_dim > 0;
  // Braces evaluate in order: parameters are added as they are named here.
  return {norm("input_layernorm"),
          make_attention(parameters_, prefix + "self_attn", attention, init),
          has_mlp ? std::optional(norm("post_attention_layernorm")) : std::nullopt,
          has_mlp ? std::optional(Mlp(parameters_, prefix + "mlp", mlp, init)) : std::nullopt,
          canon('A'),
          canon('C')};
}

Var LanguageModel::run(
    Tape& tape, std::span<const std::int32_t> tokens, Index sequences, Index first,
    const std::function<Memory(Index layer)>& memory_of,
    const std::function<void(std::span<Var* const> read_later)>& after_layer) const {
  const Index length = std::ssize(tokens) / sequences;
  if (first + length > plan_->context) {
    throw ShapeError("a sequence of {} tokens is longer than the context of {}", first + length,
                     plan_->context);
  }
  const auto drop = [&](Var x) { return dropout(x, tape.dropout()); };
  Var x = embed_tokens_(tape, tokens, {sequences, length});
  if (embed_positions_) {
    auto* const positions = tape.scratch_of<std::int32_t>(length);
    std::iota(positions, positions + length, static_cast<std::int32_t>(first));
    x = add(x, (*embed_positions_)(tape, std::span(positions, length), {length}));
  }
  x = drop(x);
  std::vector<Memory> kept(plan_->cycle.size());  // of the layers that others may share
  std::optional<Var> first_values;
  std::vector<Var*> read_later = {&x};
  for (Index layer = 0; layer < plan_->layers; ++layer) {
    const Block& block = blocks_[layer];
    const Index index = plan_->cycle_index(layer), writer = plan_->writers[index];
    Memory memory = memory_of(layer);
    if (writer != index) memory = Memory::sharing(kept[writer], memory, plan_->cycle[index]);
    memory.set_first_values(first_values);
    Var h = block.attention_norm(x);
    if (block.canon_a) h = (*block.canon_a)(h, "canonA", memory);
    x = add(x, drop(block.attention->forward(h, memory)));
    // The first layer's values outlive its tape where a later layer mixes them with its own
    // values.
    const auto mixes = [](const AttentionPlan& a) { return a.value_residual > 0; };
    if (layer == 0 && std::ranges::any_of(plan_->cycle, mixes)) {
      first_values = memory.first_values();
      read_later.push_back(&*first_values);
    }
    if (block.mlp) {
      h = (*block.mlp_norm)(x);
      if (block.canon_c) h = (*block.canon_c)(h, "canonC", memory);
      x = add(x, drop((*block.mlp)(h, memory)));
    }
    kept[index] = std::move(memory);
    if (after_layer) after_layer(read_later);
  }
  return x;
}

Var LanguageModel::head(Var x) const {
  x = norm_(x);
  const Var logits = head_ ? (*head_)(x) : linear(x, embed_tokens_.weight(*x.tape));
  return plan_->logit_cap > 0 ? soft_cap(logits, static_cast<Real>(plan_->logit_cap)) : logits;
}

namespace {

// Rows of x [..., dim] whose targets count, and these targets; all if none does.
std::pair<Var, std::span<const std::int32_t>> counted_rows(Var x,
                                                           std::span<const std::int32_t> targets) {
  const Index rows = std::ssize(targets), count = rows - std::ranges::count(targets, kNoTarget);
  if (count == rows || count == 0) return {x, targets};
  auto* const row_numbers = x.tape->scratch_of<std::int32_t>(2 * count);
  auto* const counted = row_numbers + count;
  for (Index row = 0, next = 0; row < rows; ++row) {
    const std::int32_t target = targets[row];
    if (target == kNoTarget) continue;
    row_numbers[next] = static_cast<std::int32_t>(row);
    counted[next++] = target;
  }
  return {embedding(reshape(x, {rows, x.shape().last()}), std::span(row_numbers, count), {count}),
          std::span(counted, count)};
}

}  // namespace

Var LanguageModel::logits(Tape& tape, std::span<const std::int32_t> tokens, Index sequences,
                          std::span<AttentionStats> stats,
                          std::span<const std::int32_t> targets) const {
  const auto memory_of = [&](Index layer) {
    return Memory({}, stats.empty() ? nullptr : &stats[layer]);
  };
  const Var x = run(tape, tokens, sequences, 0, memory_of);
  return finite_head(counted_rows(x, targets).first);
}

LanguageModel::Loss LanguageModel::loss(Tape& tape, std::span<const std::int32_t> tokens,
                                        std::span<const std::int32_t> targets,
                                        Index sequences) const {
  std::vector<Var> of_layers;
  const auto memory_of = [&](Index) {
    Memory memory;
    memory.collect_losses_in(of_layers);
    return memory;
  };
  const Var x = run(tape, tokens, sequences, 0, memory_of);
  const auto [rows, counted] = counted_rows(x, targets);
  Loss losses{cross_entropy(head(rows), counted), {}};
  for (const Var loss : of_layers)
    losses.of_layers = losses.of_layers ? add(*losses.of_layers, loss) : loss;
  return losses;
}

}  // namespace headcount
