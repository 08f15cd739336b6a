#include "models/decoder.h"

#include <algorithm>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/checks/trap.h"
#include "models/cost/model_cache.h"
#include "nn/attention/costs.h"

namespace headcount {

namespace {

// Resets the tape of `values`, which become constants: all layers use the memory of one.
void keep_only(std::span<Var* const> values) {
  Tape& tape = *values.front()->tape;
  std::vector<std::pair<Shape, std::vector<Real>>> carried;
  for (const Var* x : values)
    carried.emplace_back(x->shape(), std::vector<Real>(x->value().begin(), x->value().end()));
  tape.reset();
  for (std::size_t i = 0; i < values.size(); ++i)
    *values[i] = tape.constant(carried[i].first, carried[i].second);
}

}  // namespace

Var LanguageModel::decode(Tape& tape, std::span<const std::int32_t> tokens, Index sequences,
                          std::span<LayerCache> caches, std::span<AttentionStats> stats) const {
  const Index count = std::ssize(tokens) / sequences;
  for (const LayerCache& cache : caches) cache.require_takes(count);
  bool begun = false;  // what is refused before the first layer changes no cache
  const auto memory_of = [&](Index layer) {
    begun = true;
    return Memory(caches[layer], count, stats.empty() ? nullptr : &stats[layer]);
  };
  const Index before = caches.front().length();
  const auto set_length = [&](Index length) {
    for (LayerCache& cache : caches) cache.set_length(length);
  };
  try {
    const Var y = finite_head(run(tape, tokens, sequences, before, memory_of, keep_only));
    set_length(before + count);
    return y;
  } catch (...) {
    if (begun) set_length(0);
    throw;
  }
}

Var LanguageModel::finite_head(Var x) const {
  const Var logits = head(x);
  const auto wrong = non_finite(logits.value());
  if (!wrong) return logits;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (const auto weight = non_finite(parameters_.value({i})))
      throw NonFiniteError("the logits are not finite, because {} {}; take an earlier checkpoint",
                           parameters_.name({i}), *weight);
  }
  throw NonFiniteError(
      "the logits are not finite although all weights are: numbers grow too large on the way; take "
      "an earlier checkpoint, or train again with a lower `lr`");
}

std::vector<LayerCache> make_caches(const ModelPlan& plan, const CacheOptions& options,
                                    const FormOfKind& forms) {
  cache_of(plan).require_fit(options.rounding);
  std::vector<LayerCache> caches;
  for (Index layer = 0; layer < plan->layers; ++layer) {
    const AttentionPlan& attention = plan->layer_attention(layer);
    const std::vector<Kept> of_block = kept_by_block(*plan, attention);
    CacheOptions own = options;
    own.rounding = options.rounding.of_layer(layer);
    const auto wanted = forms.find(attention.kind().name);
    const auto has_it = [&](const AttentionPlan& other) {
      const std::vector<std::string_view> all = attention_forms(other);
      return &other.kind() == &attention.kind() &&
             std::ranges::find(all, wanted->second) != all.end();
    };
    // A form that no layer of the kind has is left for `make_cache` to refuse.
    if (wanted != forms.end() && (has_it(attention) || std::ranges::none_of(plan->cycle, has_it)))
      own.form = wanted->second;
    caches.push_back(make_cache(attention, own, of_block));
  }
  return caches;
}

Decoder::Decoder(const LanguageModel& model, const DecodeOptions& options)
    : model_(&model),
      options_(options),
      tape_(std::make_unique<Tape>(model.parameters())),
      caches_(make_caches(model.plan(),
                          {options.sequences, model.plan()->context, options.rounding},
                          options.forms)) {}

std::span<const Real> Decoder::feed(std::span<const std::int32_t> tokens,
                                    std::span<AttentionStats> stats) {
  const Index sequences = options_.sequences, count = std::ssize(tokens) / sequences;
  const auto chunk_at = [&](Index t) {
    const Index left = count - t;
    if (options_.rounding.all.recent > 0) return std::min<Index>(left, 1);
    return left < 2 * kPrefillChunk ? left : kPrefillChunk;
  };
  const auto decode = [&](std::span<const std::int32_t> next) {
    tape_->reset();
    return model_->decode(*tape_, next, sequences, caches_, stats).value();
  };
  // If the tokens end beyond the context, `decode` refuses all of them before the first is
  // processed.
  if (length() + count > model_->plan()->context || chunk_at(0) == count) return decode(tokens);
  const Index width = model_->vocabulary();
  logits_.resize(tokens.size() * width);
  std::vector<std::int32_t> next;
  for (Index t = 0, n = 0; t < count; t += n) {
    n = chunk_at(t);
    next.clear();
    for (Index b = 0; b < sequences; ++b) {
      const auto first = tokens.begin() + b * count + t;
      next.insert(next.end(), first, first + n);
    }
    const std::span<const Real> logits = decode(next);
    for (Index b = 0; b < sequences; ++b)
      std::copy_n(logits.begin() + b * n * width, n * width,
                  logits_.begin() + (b * count + t) * width);
  }
  return logits_;
}

Decoder Decoder::repeat(Index sequences) const {
  DecodeOptions options = options_;
  options.sequences = sequences;
  Decoder copy(*model_, options);
  for (std::size_t layer = 0; layer < caches_.size(); ++layer)
    copy.caches_[layer].copy_first(caches_[layer]);
  return copy;
}

Index Decoder::cache_bytes() const {
  Index total = 0;
  for (const LayerCache& cache : caches_) total += cache.bytes();
  return total;
}

}  // namespace headcount
