#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/plan.h"
#include "nn/attention/attention.h"
#include "nn/layers.h"

namespace headcount {

/// A decoder-only transformer over a vocabulary of characters, pre-norm:
///   x = embed(tokens) [+ embed_positions]
///   for each layer: x += attention(norm(x)); x += mlp(norm(x)), with Canon layers on the normed x
///   logits = norm(x) head^T [, softly capped]
class LanguageModel {
 public:
  /// Parameters are named and shaped, but take no memory before `initialize` or `read_weights`.
  LanguageModel(const ModelPlan& plan, Index vocabulary);
  /// Copy of the model `from` with a plan that gives its parameters the same shapes, but for
  /// learned positions, of which it may have fewer.
  LanguageModel(const ModelPlan& plan, const LanguageModel& from);

  /// Draws fresh weights. Matrices, embeddings and short convolutions are normal with standard
  /// deviation 0.02, projections to the residual stream with 0.02 / sqrt(2 layers). Weights of
  /// norms are 1 and biases 0, and Canon layers are uniform (see canon_layer). Vectors and tables
  /// of an attention start as its kind declares, by an Initializer.
  void initialize(std::uint64_t seed);

  const ModelPlan& plan() const { return plan_; }
  Index vocabulary() const { return vocabulary_; }
  ParameterStore& parameters() { return parameters_; }
  const ParameterStore& parameters() const { return parameters_; }

  /// Logits [sequences, length, vocabulary] of the next token at each position; `tokens` is
  /// [sequences, length] and `tape` must have been made with `parameters()`.
  /// Each layer's attention adds to its element of `stats` [layers], if given. With `targets`
  /// [sequences, length] of which only some count (are not kNoTarget), there are logits [count,
  /// vocabulary] of these positions alone. Throws ShapeError if the length exceeds the context, and
  /// NonFiniteError if a logit is NaN or infinite.
  Var logits(Tape& tape, std::span<const std::int32_t> tokens, Index sequences,
             std::span<AttentionStats> stats = {},
             std::span<const std::int32_t> targets = {}) const;
  /// What training minimises: the mean cross-entropy in nats over the targets that count, a scalar,
  /// and, of layers that have losses of their own (see Memory::collect_losses_in), the sum of these
  /// means over all tokens.
  struct Loss {
    Var cross_entropy;
    std::optional<Var> of_layers;
  };
  /// Loss of `targets` [sequences, length]. Logits are computed for the targets that count alone.
  Loss loss(Tape& tape, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
            Index sequences) const;

  /// Appends `tokens` [sequences, length] to `caches`, one per layer (see make_caches), and returns
  /// their logits [sequences, length, vocabulary]. `tape`, made with the const `parameters()`, is
  /// reset after each layer, so that all use the memory of one. Throws ShapeError, with the caches
  /// as before, if the tokens end beyond the context or are several where caches take one at a
  /// time; NonFiniteError as `logits`. After any exception from a layer the caches are empty: their
  /// states and overwritten rows belong to no text any more.
  Var decode(Tape& tape, std::span<const std::int32_t> tokens, Index sequences,
             std::span<LayerCache> caches, std::span<AttentionStats> stats = {}) const;

 private:
  struct Block {
    Norm attention_norm;
    std::unique_ptr<Attention> attention;
    std::optional<Norm> mlp_norm;  // absent, like the MLP, with `ffn-dim` 0
    std::optional<Mlp> mlp;
    std::optional<CausalConvolution> canon_a, canon_c;
  };
  Block make_block(Index layer);
  // Residual stream [sequences, length, dim] after the last block, of tokens at positions from
  // `first` on; `memory_of(layer)` is the layer's memory. After each layer, `after_layer` gets what
  // later layers read.
  Var run(Tape& tape, std::span<const std::int32_t> tokens, Index sequences, Index first,
          const std::function<Memory(Index layer)>& memory_of,
          const std::function<void(std::span<Var* const> read_later)>& after_layer = {}) const;
  Var head(Var x) const;         // logits from the residual stream
  Var finite_head(Var x) const;  // the same; throws NonFiniteError with the likely cause

  ModelPlan plan_;
  Index vocabulary_;
  ParameterStore parameters_;
  Embedding embed_tokens_;
  std::optional<Embedding> embed_positions_;
  std::vector<Block> blocks_;
  Norm norm_;
  std::optional<Linear> head_;  // absent when tied to the embedding
};

}  // namespace headcount
