#include "nn/attention/kinds/indexer.h"

#include <algorithm>
#include <cmath>

namespace headcount {

namespace {

// Width of what the indexer's queries are made of.
Index query_width(const AttentionPlan& c) {
  return c.whole("q-rank") > 0 ? c.whole("q-rank") : c.dim;
}

}  // namespace

Indexer::Indexer(LayerWeights& weights, const IndexerOptions& options)
    : heads_(weights.plan().whole("index-heads")),
      width_(weights.plan().whole("index-head-dim")),
      topk_(weights.plan().whole("index-topk")),
      tokens_(options.tokens),
      window_(options.window),
      loss_(weights.plan().number("index-loss")),
      q_proj_(weights.matrix(options.q_proj, query_width(weights.plan()), heads_ * width_)),
      weights_proj_(weights.matrix(options.weights_proj, weights.plan().dim, heads_)) {}

Var Indexer::queries(Var latent) const {
  return split_heads(q_proj_(latent.tape->detached(latent)), heads_);
}

bool Indexer::learns(const Memory& memory) const { return memory.losses() != nullptr && loss_ > 0; }

std::optional<Picks> Indexer::pick(Var x, Var queries, const std::optional<Rows>& keys,
                                   const Memory& memory) const {
  const Var weights = weights_proj_(x.tape->detached(x));
  if (!keys) return std::nullopt;
  const Index rows = keys->shape()[1];
  const Index seen = window_ > 0 ? std::min(window_, rows) : rows;
  if (seen <= topk_ && !learns(memory)) return std::nullopt;
  const auto width = static_cast<double>(heads_ * width_);
  Picks picks = pick_rows(queries, read_rows(*x.tape, *keys), weights,
                          static_cast<Real>(1 / std::sqrt(width)),
                          {.most = std::min(topk_, seen),
                           .tokens = tokens_,
                           .first_position = memory.first_position(),
                           .window = window_,
                           .first_row = keys->cache() ? keys->cache()->first_token() : 0});
  if (learns(memory)) picks.picked.weights = x.tape->scratch(picks.scores.shape().size());
  return picks;
}

std::optional<Rows> gathered(const Picks& picks, const Rows& rows, const Memory& memory) {
  if (!memory.is_cached() || picks.scores.shape()[1] > 1) return std::nullopt;
  return read_rows(*picks.scores.tape, rows, picks.picked);
}

void Indexer::learn(const Picks& picks, const Memory& memory) const {
  if (learns(memory))
    memory.losses()->push_back(scale(index_loss(picks), static_cast<Real>(loss_)));
}

SettingList index_settings(Index topk) {
  return {{"index-heads", "heads of the indexer", WholeRange{1},
           Default("half of heads",
                   [](const Given& v) { return std::max<Index>(1, v.whole("heads") / 2); })},
          {"index-head-dim", "dimensions per head of the indexer, of which RoPE rotates rope-dim",
           WholeRange{1},
           Default("half of head-dim, or rope-dim if that is more",
                   [](const Given& v) {
                     return std::max({Index{2}, v.whole("head-dim") / 4 * 2, v.whole("rope-dim")});
                   })},
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
  require_setting(width >= rope_dim,
                  "`index-head-dim` {} is less than the `rope-dim` {} that RoPE rotates", width,
                  rope_dim);
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
