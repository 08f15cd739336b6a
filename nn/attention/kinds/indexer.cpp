#include "nn/attention/kinds/indexer.h"

#include <algorithm>
#include <cmath>

namespace headcount {

Indexer::Indexer(LayerWeights& weights, const IndexSizes& sizes, const IndexerOptions& options)
    : s_(sizes),
      tokens_(options.tokens),
      window_(options.window),
      q_proj_(weights.matrix(options.q_proj, options.query_width, s_.heads * s_.head_dim)),
      weights_proj_(weights.matrix(options.weights_proj, weights.plan().dim, s_.heads)) {}

Var Indexer::queries(Var latent) const {
  return split_heads(q_proj_(latent.tape->detached(latent)), s_.heads);
}

bool Indexer::learns(const Memory& memory) const {
  return memory.losses() != nullptr && s_.loss > 0;
}

std::optional<Picks> Indexer::pick(Var x, Var queries, const std::optional<Rows>& keys,
                                   const Memory& memory) const {
  const Var weights = weights_proj_(x.tape->detached(x));
  if (!keys) return std::nullopt;
  const Index rows = keys->shape()[1];
  const Index seen = window_ > 0 ? std::min(window_, rows) : rows;
  if (seen <= s_.topk && !learns(memory)) return std::nullopt;
  const auto width = static_cast<double>(s_.heads * s_.head_dim);
  Picks picks = pick_rows(queries, read_rows(*x.tape, *keys), weights,
                          static_cast<Real>(1 / std::sqrt(width)),
                          {.most = std::min(s_.topk, seen),
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
    memory.losses()->push_back(scale(index_loss(picks), static_cast<Real>(s_.loss)));
}

void require_index_width(const IndexSizes& sizes, Index rope_dim) {
  require_setting(sizes.head_dim >= rope_dim,
                  "`index-head-dim` {} is less than the `rope-dim` {} that RoPE rotates",
                  sizes.head_dim, rope_dim);
}

std::vector<std::string> index_notes(std::string_view kind, const IndexSizes& sizes, Index rows) {
  if (rows > 0 && sizes.topk >= rows) {
    return {
        message_of("`index-topk` {} leaves out none of the at most {} rows that the indexer of "
                   "{} picks from; lower `index-topk` or raise `context`",
                   sizes.topk, rows, kind)};
  }
  if (sizes.loss > 0) return {};
  return {message_of(
      "`index-loss` is 0: nothing trains the indexer of {}, which picks rows at random", kind)};
}

}  // namespace headcount
