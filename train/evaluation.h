#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/texts/story.h"
#include "models/decoder.h"
#include "train/ranks.h"
#include "train/show/fields.h"

namespace headcount {

/// Accuracy over the answers (see Story) that were told `from` to 2 `from` - 1 characters before
/// they are asked for.
struct AnswersAt {
  Index from = 0;  ///< least distance in characters, a power of two
  Index asked = 0, right = 0;

  bool operator==(const AnswersAt&) const = default;
  static void fields(auto& io, auto& s) {
    io({}, "from", s.from, "asked", s.asked, "right", s.right);
  }
};

/// Accuracy over the answers whose questions ask in one direction: see TextMarks::directions.
struct AnswersIn {
  Index direction = 0;
  Index asked = 0, right = 0;

  bool operator==(const AnswersIn&) const = default;
  static void fields(auto& io, auto& s) {
    io({}, "direction", s.direction, "asked", s.asked, "right", s.right);
  }
};

/// Mean loss of the predictions that could read `from` + 1 characters or more, and fewer than those
/// of the next range: ranges begin at 0, 32, 64, 128, ... characters into a window.
struct LossAt {
  Index from = 0;
  Index characters = 0;  ///< number of these predictions that count
  double loss = 0;       ///< nats per character that counts

  bool operator==(const LossAt&) const = default;
  static void fields(auto& io, auto& s) {
    io({}, "from", s.from, "characters", s.characters, "loss", s.loss);
  }
};

/// What reading keys and values from a cache that rounds them changes in predictions that count.
struct RoundingChange {
  double exact_loss = 0;    ///< loss of the same model unrounded, as Evaluation::loss
  double divergence = 0;    ///< see row_divergence: mean, nats
  double divergence99 = 0;  ///< its 99th percentile: at least 99 % of the predictions have no more
  double same_choice = 0;   ///< share of predictions whose likeliest token stays
  double largest_change = 0;         ///< of a logit
  std::optional<Index> lost = {};    ///< answers that turn wrong; none if the corpus marks none
  std::optional<Index> gained = {};  ///< answers that turn right

  static void fields(auto& io, auto& s) {
    io({}, "exact_loss", s.exact_loss, "kl_mean", s.divergence, "kl_p99", s.divergence99,
       "first_choice_kept", s.same_choice, "largest_logit_change", s.largest_change);
    io(Presence::known, "answers_lost", s.lost, "answers_gained", s.gained);
  }
};

/// Where a model is right and wrong in a text.
struct EvaluationDetails {
  /// Accuracy over the answers; none if the corpus marks none.
  std::optional<double> answer_accuracy;
  std::vector<AnswersAt> answers_by_distance;  ///< from near to far, without empty distances
  /// Accuracy by direction, of the directions in which questions asked; empty if the corpus has
  /// none.
  std::vector<AnswersIn> answers_by_direction;
  /// Loss by position in the window, from the first on, without empty ranges.
  std::vector<LossAt> loss_by_position;
  /// Mean losses of 16 equal stretches of the text, one after the other; none if one of them has no
  /// character that counts. They differ as the text does from stretch to stretch.
  std::vector<double> loss_by_block;

  Index answers_asked() const;
  /// Accuracy in the direction where it is least; over all answers if there are no directions, none
  /// if the corpus marks no answers.
  std::optional<double> least_answer_accuracy() const;
};

/// Losses and accuracies over a text, each target counted once.
struct Evaluation : EvaluationDetails {
  double loss = 0;       ///< nats per character that counts
  double accuracy = 0;   ///< share of these characters that the likeliest prediction gets right
  Index characters = 0;  ///< number of characters that count
  /// Entropy of attention in nats, mean over rows, heads and layers; none if it was not measured.
  std::optional<double> attention_entropy;
  std::optional<RoundingChange> change = {};  ///< with EvaluationOptions::rounding
};

/// The evaluation of a training run with the lowest loss so far.
struct BestEvaluation {
  Index step = 0;  ///< after which it was made; 0: there is none yet
  double loss = std::numeric_limits<double>::infinity();
};

/// Share of its lowest loss by which the last validation loss of a run may lie above it.
inline constexpr double kOverfit = 0.01;
/// Returns true if a run with these validation losses overfits: more training made it worse.
inline bool overfits(double lowest, double last) { return last > (1 + kOverfit) * lowest; }

/// A guess and the better of the other baselines: "guessing 25.0 %, commonest value shown 49.8 %".
std::string baselines_text(const Baselines& baselines);

/// Line of text, with its newline, on the loss by position: "loss by position 0-31: 2.0312, 32-63:
/// 1.7206, ...", the last range up to the context. Empty if there are fewer than two ranges.
std::string loss_by_position_line(std::span<const LossAt> losses, Index context);

/// Line of text, with its newline, on the share of right answers: "answers right 97.1 %
/// (guessing 25.0 %, commonest value shown 49.8 %, at most 100 %)". Empty if
/// the corpus marks no answers; without the last number unless stories fit.
std::string answers_line(const Evaluation& evaluation, const std::optional<Baselines>& baselines,
                         bool stories_fit);

/// Warning that stories of up to `longest` characters do not fit into a context of `context`
/// tokens; empty if they do.
std::string cut_stories_note(Index longest, Index context);

/// -log softmax(row)[target], nats.
double row_loss(std::span<const Real> row, std::int32_t target);
/// Kullback-Leibler divergence of softmax(rounded) from softmax(exact), nats: sum over p_i of
/// softmax(exact) of p_i log(p_i / q_i).
double row_divergence(std::span<const Real> exact, std::span<const Real> rounded);
/// Line of text, with its newline, on what rounding the cache changes.
std::string change_line(const Evaluation& evaluation);

/// Options of `evaluate`.
struct EvaluationOptions {
  TextMarks marks = {};
  /// Reads keys and values from a cache that rounds so, and compares with those as computed; none:
  /// as they were computed.
  std::optional<CacheRounding> rounding = std::nullopt;
  bool attention_stats = false;  ///< measure the entropy of attention
  Ranks* ranks = nullptr;        ///< ranks that share the windows; null: this process alone
};

/// Evaluates all of `tokens`, in windows of the model's context that do not overlap; a new window
/// begins at each position in `TextMarks::starts`. Throws NonFiniteError at all ranks if a logit,
/// a loss or an entropy is NaN or infinite, or a number is too large for the cache.
Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options = {});

}  // namespace headcount
