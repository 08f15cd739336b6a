#include "nn/attention/indexer.h"

#include <algorithm>
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

SettingList index_settings(Index topk) {
  return {
      {"index-heads",
       "heads of the indexer",
       WholeRange{1},
       {"half of heads", [](const Given& v) { return std::max<Index>(1, v.whole("heads") / 2); }}},
      {"index-head-dim",
       "dimensions per head of the indexer, of which RoPE rotates rope-dim",
       WholeRange{1},
       {"half of head-dim, or rope-dim if that is more",
        [](const Given& v) {
          return std::max({Index{2}, v.whole("head-dim") / 4 * 2, v.whole("rope-dim")});
        }}},
      {"index-topk",
       "rows that a token reads, tokens or compressed rows, those with the greatest scores of "
       "the indexer",
       WholeRange{1}, of_owner(topk)},
      {"index-loss",
       "weight of the loss that trains the indexer, its divergence from the weights of "
       "attention; 0: the indexer stays random",
       NumberRange{0}, 1.0}};
}

void require_index_width(const AttentionPlan& plan) {
  const Index width = plan.whole("index-head-dim"), rope_dim = plan.whole("rope-dim");
  require_setting(width >= rope_dim, "`index-head-dim` ", width, " is less than the `rope-dim` ",
                  rope_dim, " that RoPE rotates");
}

std::vector<std::string> index_notes(const AttentionPlan& plan, Index rows) {
  const Index topk = plan.whole("index-topk");
  const std::string kind(plan.kind().name);
  if (rows > 0 && topk >= rows) {
    return {"`index-topk` " + std::to_string(topk) + " leaves out none of the at most " +
            std::to_string(rows) + " rows that the indexer of " + kind +
            " picks from; lower `index-topk` or raise `context`"};
  }
  if (plan.number("index-loss") > 0) return {};
  return {"`index-loss` is 0: nothing trains the indexer of " + kind +
          ", which picks rows at random"};
}

}  // namespace headcount
