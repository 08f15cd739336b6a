#pragma once

#include <span>
#include <vector>

#include "models/language_model.h"

namespace headcount {

struct DecodeOptions {
  Index sequences = 1;  ///< decoded side by side, one token of each at a time
  CacheType cache_type = CacheType::real;
  std::string form = {};  ///< of attention: see AttentionForm; empty: each layer chooses
};

/// Decodes with a KV cache: each token goes through the model once. Holds as many tokens as the
/// model's context, or as its attention window. The model must outlive it.
class Decoder {
 public:
  Decoder(const LanguageModel& model, const DecodeOptions& options);

  /// Feeds the next tokens [sequences, T] and returns their logits [sequences, T, vocabulary],
  /// valid until the next call. After the first call at a given T nothing is allocated, but what
  /// grows with the number of tokens held.
  /// Throws ShapeError if the tokens end beyond the context.
  std::span<const Real> feed(std::span<const std::int32_t> tokens);
  /// A decoder of `sequences` copies of the first sequence: they share one prefill.
  Decoder repeat(Index sequences) const;
  void clear();  ///< forgets all tokens, keeps the memory

  Index length() const { return caches_.front().length(); }  ///< tokens fed
  Index cache_bytes() const;  ///< allocated, all layers and sequences
  std::span<const LayerCache> caches() const { return caches_; }
  std::size_t heap_allocations() const { return tape_->heap_allocations(); }

 private:
  const LanguageModel* model_;
  DecodeOptions options_;
  std::unique_ptr<Tape> tape_;  // its address is in the Vars
  std::vector<LayerCache> caches_;
  std::vector<Real> logits_;  // of several feeds, where tokens must go one by one
};

}  // namespace headcount
