#include "nn/attention/kinds/indexer.h"

#include <algorithm>
#include <cmath>

namespace headcount {

Indexer::Indexer(LayerWeights& weights, const IndexSizes& sizes, const IndexerOptions& options)
    : s_(sizes), o_(options), shares_(weights.plan().shared().picks) {
  if (shares_) return;
  const Index dim = weights.plan().dim;
  q_proj_ = weights.matrix(o_.q_proj, o_.query_width, s_.heads * s_.head_dim);
  if (!o_.weights_proj.empty()) weights_proj_ = weights.matrix(o_.weights_proj, dim, s_.heads);
  if (!o_.q_norm.empty()) q_norm_ = weights.norm(o_.q_norm, s_.head_dim);
  if (o_.k_proj.empty()) return;
  k_proj_ = weights.row_matrix(o_.k_proj, dim, s_.head_dim);
  k_norm_ = weights.for_rows([&] { return weights.norm(o_.k_norm, s_.head_dim, o_.norm); });
}

Var Indexer::queries(Var latent) const {
  const Var q = split_heads((*q_proj_)(latent.tape->detached(latent)), s_.heads);
  return q_norm_ ? (*q_norm_)(q) : q;
}

bool Indexer::learns(const Memory& memory) const {
  return memory.losses() != nullptr && s_.loss > 0 && !shares_;
}

std::optional<Picks> Indexer::pick(Var x, Var queries, const std::optional<Rows>& keys,
                                   Memory& memory) const {
  memory.keep_picked({}, 0);
  std::optional<Var> weights;
  if (weights_proj_) weights = (*weights_proj_)(x.tape->detached(x));
  if (!keys) return std::nullopt;
  const Index rows = keys->shape()[1];
  // A window that slides may begin and end within blocks.
  const bool slides = o_.window > 0 && o_.window <= rows;
  const Index seen =
      slides ? (o_.window + 2 * o_.block - 2) / o_.block : (rows + o_.block - 1) / o_.block;
  if (seen <= s_.topk && !learns(memory)) return std::nullopt;
  const auto width = static_cast<double>(weights ? s_.heads * s_.head_dim : s_.head_dim);
  Picks picks = pick_rows(queries, read_rows(*x.tape, *keys), weights,
                          static_cast<Real>(1 / std::sqrt(width)),
                          {.most = std::min(s_.topk, seen),
                           .tokens = o_.tokens,
                           .first_position = memory.first_position(),
                           .window = o_.window,
                           .first_row = keys->cache() ? keys->tokens() - rows : 0,
                           .block = o_.block,
                           .lists = o_.lists});
  memory.keep_picked(picks.picked, picks.scores.shape().size());
  if (learns(memory)) picks.picked.weights = x.tape->scratch(picks.scores.shape().size());
  return picks;
}

std::optional<Picks> Indexer::pick_tokens(Var x, Var latent, const std::function<Var(Var)>& rotate,
                                          Memory& memory) const {
  if (shares_) return shared(memory);
  require_setting(memory.key_mask().empty(),
                  "`index-topk` picks among all tokens before the query; it has no key mask");
  const Rows keys = memory.keep("index_key", [&] {
    return rotate(split_heads((*k_norm_)((*k_proj_)(x.tape->detached(x))), 1));
  });
  return pick(x, rotate(queries(latent)), keys, memory);
}

std::optional<Picks> Indexer::shared(const Memory& memory) {
  if (!memory.picked()) return std::nullopt;
  return Picks{*memory.picked(), Var()};
}

// Blocks that a window cuts have different numbers of rows: they are read in place.
std::optional<PickedRows> Indexer::read(Var x, const std::optional<Picks>& picks,
                                        std::initializer_list<Rows*> rows,
                                        const Memory& memory) const {
  if (!picks) return std::nullopt;
  const bool one = memory.is_cached() && x.shape()[1] == 1;
  if (!one || (o_.block > 1 && o_.window > 0)) return picks->picked;
  for (Rows* const of_all : rows) *of_all = read_rows(*x.tape, *of_all, picks->picked);
  return std::nullopt;
}

void Indexer::learn(const std::optional<Picks>& picks, const Memory& memory) const {
  if (picks && learns(memory))
    memory.losses()->push_back(scale(index_loss(*picks), static_cast<Real>(s_.loss)));
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
