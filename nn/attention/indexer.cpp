#include "nn/attention/indexer.h"

#include <algorithm>
#include <cmath>

namespace headcount {

namespace {

// Width of what the indexer's queries are made of.
Index query_width(const AttentionPlan& c) {
  return c.whole("q-rank") > 0 ? c.whole("q-rank") : c.dim;
}

constexpr Index kPiece = 64;  // queries of which the scores of all rows are held at a time

// Picks of many queries, piece by piece on a tape of their own: nobody reads their scores again.
PickedRows pick_in_pieces(Var queries, Var keys, Var weights, Real factor, TopK sizes) {
  const Shape s = queries.shape();  // [B, T, I, D]
  auto* const lists = queries.tape->scratch_of<std::int32_t>(s[0] * s[1] * sizes.most);
  Tape tape;
  for (Index t = 0; t < s[1]; t += kPiece, sizes.first_position += kPiece) {
    const Index count = std::min(kPiece, s[1] - t);
    for (Index b = 0; b < s[0]; ++b) {
      tape.reset();
      const auto piece = [&](Var x, Index first, Index rows, Index width, const Shape& shape) {
        return tape.constant(
            shape, {x.value().data() + first * width, static_cast<std::size_t>(rows * width)});
      };
      const Index at = b * s[1] + t, rows = keys.shape()[1];
      const Var scores =
          index_scores(piece(queries, at, count, s[2] * s[3], {1, count, s[2], s[3]}),
                       piece(keys, b * rows, rows, s[3], {1, rows, 1, s[3]}),
                       piece(weights, at, count, s[2], {1, count, s[2]}), factor);
      std::copy_n(top_k(scores, sizes).rows, count * sizes.most, lists + at * sizes.most);
    }
  }
  return {lists, sizes.most};
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
  const Var all_keys = read_rows(*x.tape, *keys);
  TopK sizes = {.most = std::min(topk_, seen),
                .tokens = tokens_,
                .first_position = memory.first_position(),
                .window = window_,
                .first_row = keys->cache() ? keys->cache()->first_token() : 0};
  const auto factor = static_cast<Real>(1 / std::sqrt(width));
  if (!learns(memory) && x.shape()[1] > kPiece && !x.tape->is_dry())
    return Picks{std::nullopt, pick_in_pieces(queries, all_keys, weights, factor, sizes)};
  const Var scores = index_scores(queries, all_keys, weights, factor);
  PickedRows picked = top_k(scores, sizes);
  if (learns(memory)) picked.weights = x.tape->scratch(scores.shape().rows() * picked.most);
  return Picks{scores, picked};
}

std::optional<Rows> Picks::gathered(const Rows& rows, const Memory& memory) const {
  if (!memory.is_cached() || !scores || scores->shape()[1] > 1) return std::nullopt;
  return read_rows(*scores->tape, rows, picked);
}

void Indexer::learn(const Picks& picks, const Memory& memory) const {
  if (!learns(memory)) return;
  memory.losses()->push_back(
      scale(index_loss(*picks.scores, picks.picked), static_cast<Real>(loss_)));
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
