#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/story.h"
#include "models/language_model.h"
#include "train/ranks.h"

namespace headcount {

/// Of the answers (see Story), those told by a character that stands `from` to 2 `from` - 1
/// characters back.
struct AnswersAt {
  Index from = 0;  ///< a power of two
  Index asked = 0, right = 0;

  bool operator==(const AnswersAt&) const = default;
};

/// Losses over a text, each target counted once.
struct Evaluation {
  double loss = 0;       ///< nats per character that counts
  double accuracy = 0;   ///< share of these whose likeliest prediction is right
  Index characters = 0;  ///< how many count
  std::optional<double>
      attention_entropy;  ///< nats, mean over rows, heads and layers; if asked for
  /// The same over the answers, where the corpus marks them.
  std::optional<double> answer_accuracy;
  std::vector<AnswersAt> answers_by_distance;  ///< from near to far, those with any
};

/// "guesser 25.0 %, copier 30.6 %, commonest value 49.8 %".
std::string baselines_text(const Baselines& baselines);
/// The same for programs: an object of shares.
nlohmann::ordered_json to_json(const Baselines& baselines);

/// "answers right 97.1 % (guesser 25.0 %, copier 30.6 %, commonest value 49.8 %, ceiling 100 %)"
/// and a newline; empty where the corpus marks none, without a ceiling unless stories fit.
std::string answers_line(const Evaluation& evaluation, const std::optional<Baselines>& baselines,
                         bool stories_fit);

/// A sentence where stories of up to `longest` characters do not fit into a context of so many
/// tokens; empty where they do.
std::string cut_stories_note(Index longest, Index context);

/// An evaluation was asked to stop before its end.
class EvaluationStopped : public Error {
 public:
  EvaluationStopped() : Error("the evaluation was stopped") {}
};

/// How a text is evaluated.
struct EvaluationOptions {
  TextMarks marks = {};
  /// Reads keys and values from a cache of this type instead of as they were computed.
  std::optional<CacheType> cache_type = std::nullopt;
  /// Asked before each part of the text, on any thread: true stops.
  bool (*stop)() = nullptr;
  bool attention_stats = false;  ///< measure the entropy of attention; not through a cache
  Ranks* ranks = nullptr;        ///< who shares the windows; null: this process has all
};

/// The whole of `tokens` in order, in windows of the model's context that begin anew at each of
/// the marks' starts; without starts they do not overlap. Throws EvaluationStopped, at all ranks
/// when one of them was stopped.
Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options = {});

}  // namespace headcount
