#pragma once

#include <span>
#include <vector>

#include "models/language_model.h"

namespace headcount {

struct DecodeOptions {
  Index sequences = 1;  ///< sequences decoded together, one token of each at a time
  CacheType cache_type = CacheType::real;
  std::string form = {};  ///< form of attention: see AttentionForm; empty: each layer chooses
};

/// Chunk size of a prefill: tokens of each sequence that go through the model at once. The last
/// chunk has up to twice as many, because one or few tokens would be computed in another way than
/// many. It is a multiple of attention's tiles and of the delta rule's chunks, so that these are
/// the same in every chunk.
inline constexpr Index kPrefillChunk = 512;

/// Decodes with a KV cache: each token goes through the model once. Holds as many tokens as the
/// model's context, or as its attention window. The model must outlive it.
class Decoder {
 public:
  Decoder(const LanguageModel& model, const DecodeOptions& options);

  /// Feeds the next tokens [sequences, T] and returns their logits [sequences, T, vocabulary],
  /// valid until the next call. Many tokens are processed in chunks of kPrefillChunk, which take
  /// the memory of one chunk and give the same bits as all tokens at once. After the first call at
  /// a given T nothing is allocated except memory that grows with the number of tokens held: the
  /// logits, and k and v of one layer of expanded MLA. Throws ShapeError if the tokens end beyond
  /// the context.
  std::span<const Real> feed(std::span<const std::int32_t> tokens);
  /// A decoder of `sequences` copies of the first sequence: they share one prefill.
  Decoder repeat(Index sequences) const;
  void clear();  ///< forgets all tokens, keeps the memory

  Index length() const { return caches_.front().length(); }  ///< tokens fed
  Index cache_bytes() const;  ///< allocated, all layers and sequences
  /// Bytes allocated besides caches, weights and the logits that `feed` returns.
  std::size_t working_bytes() const { return tape_->memory_capacity(); }
  std::span<const LayerCache> caches() const { return caches_; }
  std::size_t heap_allocations() const { return tape_->heap_allocations(); }

 private:
  const LanguageModel* model_;
  DecodeOptions options_;
  std::unique_ptr<Tape> tape_;  // its address is in the Vars
  std::vector<LayerCache> caches_;
  std::vector<Real> logits_;  // logits of several chunks
};

}  // namespace headcount
