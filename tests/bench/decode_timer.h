#pragma once

#include <memory>
#include <vector>

#include "models/decoder.h"

namespace headcount {

/// Times the decoding of the token that fills a context, with a cache like that of Decoder. Weights
/// and cached numbers are random, since their values do not change the time.
class DecodeTimer {
 public:
  /// `model` is used with the given context.
  DecodeTimer(const ModelPlan& model, Index vocabulary, Index context,
              const DecodeOptions& options = {});

  /// Decodes token number `context` of each sequence, which sees all earlier tokens within its
  /// window. Returns milliseconds.
  double decode();

  const LanguageModel& model() const { return *model_; }
  Index cache_bytes() const;  ///< bytes allocated
  Index context() const { return context_; }

 private:
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tape> tape_;
  std::vector<LayerCache> caches_;
  Index context_;
  std::vector<std::int32_t> tokens_;  // one of each sequence
};

/// Median milliseconds per token of each timer over `rounds` rounds. Timers take turns, so that a
/// slow moment of the machine slows all of them. A turn is 16 tokens, one after the other as in
/// sampling. The first 8 warm the processor's caches, which hold another timer's data, and do not
/// count.
std::vector<double> median_milliseconds(std::vector<DecodeTimer>& timers, int rounds);

}  // namespace headcount
