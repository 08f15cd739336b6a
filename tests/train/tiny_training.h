#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/random.h"
#include "data/batches.h"
#include "models/language_model.h"
#include "train/evaluation.h"
#include "train/options.h"
#include "train/trainer.h"

/// A model so small that a test can train it and compute again what it does.
namespace headcount {

using Tokens = std::vector<std::int32_t>;

inline constexpr Index kTinyVocabulary = 7, kTinyContext = 5;

/// Random ones, always the same.
inline Tokens tiny_tokens(Index count, Index vocabulary = kTinyVocabulary) {
  Tokens tokens;
  for (Index i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(random_below({6, 1, 0}, i, vocabulary)));
  return tokens;
}

/// Options of a training that takes milliseconds, one layer, 16 wide, 50 steps, with `more`
/// settings over them.
inline TrainOptions tiny_options(const nlohmann::json& more = nlohmann::json::object()) {
  Given given(training_settings(), {{"layers", 1},
                                    {"dim", 16},
                                    {"context", kTinyContext},
                                    {"batch", 4},
                                    {"steps", 50},
                                    {"warmup", 0},
                                    {"lr", 0.01}});
  given.put(more);
  return resolve_training(given);
}

inline LanguageModel tiny_model(const TrainOptions& options, Index vocabulary = kTinyVocabulary) {
  LanguageModel model(options.model, vocabulary);
  model.initialize(options.seed);
  return model;
}

/// What a training on random tokens leaves.
struct TinyTraining {
  std::vector<Real> weights;  ///< all of them, after all steps
  StepResult last;
  Evaluation evaluation;
};

/// Trains on 2000 random tokens to the end; evaluates on them if `evaluates`.
inline TinyTraining train_tiny(const TrainOptions& options, Index vocabulary,
                               Ranks& ranks = alone(), bool evaluates = false) {
  const Tokens tokens = tiny_tokens(2000, vocabulary);
  LanguageModel model = tiny_model(options, vocabulary);
  Trainer trainer(model, options, tokens, 0, {}, ranks);
  TinyTraining result;
  while (trainer.steps_done() < options.steps) result.last = trainer.step();
  const std::span<const Real> weights = model.parameters().all_values();
  result.weights.assign(weights.begin(), weights.end());
  if (evaluates) result.evaluation = evaluate(model, tokens, {.ranks = &ranks});
  return result;
}

}  // namespace headcount
