#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/language_model.h"
#include "nn/attention/layer_cache.h"

namespace headcount {

/// Name of the form (see attention_forms) in which layers compute from their caches, by the name of
/// their kind:
/// {"mla", "absorbed"}.
using FormOfKind = std::map<std::string, std::string, std::less<>>;

/// Empty caches of a model, one per layer; the cache of a layer that shares stays empty. `forms`
/// chooses a form by kind. Throws ShapeError if the model has layers of the kind but none offers
/// the form.
std::vector<LayerCache> make_caches(const ModelPlan& plan, const CacheOptions& options,
                                    const FormOfKind& forms = {});

struct DecodeOptions {
  Index sequences = 1;  ///< sequences decoded together, one token of each at a time
  CacheRounding rounding = {};
  FormOfKind forms = {};  ///< of kinds that are not named, each layer chooses its form
};

/// Chunk size of a prefill: tokens of each sequence that go through the model at once. The last
/// chunk has up to twice as many, because few tokens are computed in another way than many. The
/// size is a multiple of attention's tiles, so that chunks change nothing but how products round,
/// with oneDNN on some processors, and sums of forget gates within a window.
inline constexpr Index kPrefillChunk = 512;

/// Decoder with a KV cache: each token goes through the model once. The cache holds the model's
/// context, or its attention window. The model must outlive the decoder.
class Decoder {
 public:
  Decoder(const LanguageModel& model, const DecodeOptions& options);

  /// Feeds the next tokens [sequences, T] and returns their logits [sequences, T, vocabulary],
  /// valid until the next call. With recent tokens that are not rounded, tokens are processed one
  /// by one: each sees others as recent. Many are processed in chunks of kPrefillChunk, which take
  /// the memory of one chunk and give the logits of all tokens at once. After the first call with T
  /// tokens, later ones allocate only what grows with the tokens held: logits, keys and values of
  /// one layer of expanded MLA and, for a chunk that ends beyond a window, its rows and the
  /// window's. Throws ShapeError if the tokens end beyond the context, and what
  /// LanguageModel::decode throws: after an exception from a layer, all tokens are forgotten.
  /// `stats` as in LanguageModel::logits.
  std::span<const Real> feed(std::span<const std::int32_t> tokens,
                             std::span<AttentionStats> stats = {});
  /// Decoder of `sequences` copies of the first sequence, which thus share one prefill.
  Decoder repeat(Index sequences) const;

  Index length() const { return caches_.front().length(); }  ///< tokens fed
  Index cache_bytes() const;  ///< bytes allocated for all layers and sequences
  /// Bytes allocated besides caches, weights and the logits that `feed` returns.
  std::size_t working_bytes() const { return tape_->memory_capacity(); }
  std::span<const LayerCache> caches() const { return caches_; }
  /// Heap allocations of tensors since construction.
  std::size_t heap_allocations() const { return tape_->heap_allocations(); }

 private:
  const LanguageModel* model_;
  DecodeOptions options_;
  std::unique_ptr<Tape> tape_;  // on the heap, because Vars have its address
  std::vector<LayerCache> caches_;
  std::vector<Real> logits_;  // logits of several chunks
};

}  // namespace headcount
