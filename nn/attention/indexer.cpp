#include "nn/attention/indexer.h"

#include <cmath>
#include <utility>

namespace headcount {

Indexer::Indexer(const LayerWeights& weights, IndexerPlan plan)
    : plan_(std::move(plan)),
      q_proj_(weights.get<Linear>(plan_.q_proj)),
      weights_proj_(weights.get<Linear>(plan_.weights_proj)) {}

Var Indexer::queries(Var latent) const {
  return split_heads(q_proj_(latent.tape->detached(latent)), plan_.heads);
}

bool Indexer::learns(const Memory& memory) const {
  return memory.losses() != nullptr && plan_.loss > 0;
}

std::optional<Picks> Indexer::pick(Var x, Var queries, const std::optional<Rows>& keys,
                                   const Memory& memory) const {
  const Var weights = weights_proj_(x.tape->detached(x));
  if (!keys) return std::nullopt;
  const Index rows = keys->shape()[1];
  const Index seen = plan_.window > 0 ? std::min(plan_.window, rows) : rows;
  if (seen <= plan_.topk && !learns(memory)) return std::nullopt;
  const auto width = static_cast<double>(plan_.heads * plan_.width);
  return pick_rows(queries, *keys, weights,
                   {.scale = static_cast<Real>(1 / std::sqrt(width)),
                    .most = std::min(plan_.topk, seen),
                    .tokens = plan_.tokens,
                    .first_position = memory.first_position(),
                    .window = plan_.window});
}

Selection Indexer::selection(const Picks& picks, const Memory& memory) const {
  Tape& tape = *picks.scores.tape;
  return {picks.rows, learns(memory) ? tape.scratch(picks.scores.shape().size()) : nullptr};
}

void Indexer::learn(const Picks& picks, const Selection& selection, const Memory& memory) const {
  if (!learns(memory)) return;
  memory.losses()->push_back(
      scale(index_loss(picks, selection.weights), static_cast<Real>(plan_.loss)));
}

void Indexer::declare(const IndexerPlan& plan, AttentionForm& form) {
  form.projections.push_back({plan.q_proj, plan.q_rank, plan.heads * plan.width});
  form.projections.push_back({plan.weights_proj, plan.dim, plan.heads});
  form.index_macs_per_pair = Count(plan.heads) * (plan.width + 1);
  form.picks = plan.topk;
}

void require_index_width(Index index_head_dim, Index rope_dim) {
  require_setting(index_head_dim >= rope_dim, "`index-head-dim` ", index_head_dim,
                  " is less than the `rope-dim` ", rope_dim, " that RoPE rotates");
}

std::vector<std::string> index_notes(std::string_view kind, double loss, Index topk, Index rows) {
  std::vector<std::string> notes;
  if (rows > 0 && topk >= rows) {
    notes.push_back("`index-topk` " + std::to_string(topk) + " leaves out none of the at most " +
                    std::to_string(rows) + " rows that the indexer of " + std::string(kind) +
                    " picks from; lower `index-topk` or raise `context`");
  } else if (loss == 0) {
    notes.push_back("`index-loss` is 0: nothing trains the indexer of " + std::string(kind) +
                    ", which picks rows at random");
  }
  return notes;
}

}  // namespace headcount
