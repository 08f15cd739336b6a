#include "train/evaluation.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "autograd/base/text.h"
#include "autograd/parallel.h"
#include "models/decoder.h"

namespace headcount {

Index EvaluationDetails::answers_asked() const {
  Index asked = 0;
  for (const AnswersAt& at : answers_by_distance) asked += at.asked;
  return asked;
}

std::optional<double> EvaluationDetails::least_answer_accuracy() const {
  std::optional<double> least = answer_accuracy;
  for (const AnswersIn& in : answers_by_direction)
    least = std::min(*least, static_cast<double>(in.right) / static_cast<double>(in.asked));
  return least;
}

std::string baselines_text(const Baselines& baselines) {
  const double best = std::max(baselines.copier, baselines.commonest);
  return formatted("guessing %.1f %%, commonest %s %.1f %%", 100 * baselines.guesser,
                   best > baselines.commonest ? "answer so far" : "value shown", 100 * best);
}

std::string loss_by_position_line(std::span<const LossAt> losses, Index context) {
  if (losses.size() < 2) return "";
  std::string line = "loss by position";
  for (const LossAt& at : losses) {
    const Index end = std::min(context, at.from == 0 ? 32 : 2 * at.from);
    line += (at.from == 0 ? " " : ", ") + std::to_string(at.from) + "-" + std::to_string(end - 1) +
            formatted(": %.4f", at.loss);
  }
  return line + "\n";
}

std::string answers_line(const Evaluation& evaluation, const std::optional<Baselines>& baselines,
                         bool stories_fit) {
  if (!evaluation.answer_accuracy) return "";
  std::string line = formatted("answers right %.1f %%", 100 * *evaluation.answer_accuracy);
  if (const std::size_t directions = evaluation.answers_by_direction.size(); directions > 1)
    line += formatted(", in the worst of %zu directions %.1f %%", directions,
                      100 * *evaluation.least_answer_accuracy());
  if (baselines)
    line += " (" + baselines_text(*baselines) + (stories_fit ? ", at most 100 %)" : ")");
  return line + "\n";
}

std::string cut_stories_note(Index longest, Index context) {
  if (longest <= context) return "";
  return "Stories of up to " + std::to_string(longest) +
         " characters do not fit into the context of " + std::to_string(context) +
         " and are read in parts: how much of them can be known is open.";
}

namespace {

// Predictions that count.
struct Predictions {
  double loss = 0;  // sum
  Index count = 0, right = 0;

  void add(const Predictions& more) {
    loss += more.loss;
    count += more.count;
    right += more.right;
  }
  double share_of(double sum) const { return sum / static_cast<double>(std::max<Index>(1, count)); }
  double mean_loss() const { return share_of(loss); }
  double accuracy() const { return share_of(static_cast<double>(right)); }
};

// Sums over a part of a text, or over several parts.
struct EvaluatedPart {
  Predictions total;
  std::array<Predictions, 32> answers = {};  // by the logarithm of the distance
  std::array<Predictions, kMostDirections> directions = {};
  std::array<Predictions, 20> positions = {};  // by the range in the window: see `range_of`
  Predictions exact;                           // unrounded, if that is compared
  Index same_choice = 0, lost = 0, gained = 0;
  Real largest_change = 0;  // of a logit
  double entropy_sum = 0;   // of attention, over layers and rows, if measured
  Index rows = 0;           // number of these rows

  void add(const EvaluatedPart& part) {
    total.add(part.total);
    for (std::size_t i = 0; i < answers.size(); ++i) answers[i].add(part.answers[i]);
    for (std::size_t i = 0; i < directions.size(); ++i) directions[i].add(part.directions[i]);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i].add(part.positions[i]);
    exact.add(part.exact);
    same_choice += part.same_choice, lost += part.lost, gained += part.gained;
    largest_change = std::max(largest_change, part.largest_change);
    entropy_sum += part.entropy_sum;
    rows += part.rows;
  }
};

EvaluatedPart sum_of(std::span<const EvaluatedPart> parts) {
  EvaluatedPart sum;
  for (const EvaluatedPart& part : parts) sum.add(part);
  return sum;
}

// Ranges of positions: 0 to 31, 32 to 63, 64 to 127, ...; the last one has no end.
std::size_t range_of(std::size_t position) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(position / 32)), 19);
}

Index likeliest(std::span<const Real> row) { return std::ranges::max_element(row) - row.begin(); }

// Counts losses and right predictions of a batch of windows that begin at `starts` of the text.
// `logits` has a row for each target, or one for each that counts. If there are `exact` ones, a row
// for each target, counts what differs from them: `divergences` gets a number a prediction.
void count_predictions(std::span<const Real> logits, std::span<const Real> exact, std::size_t width,
                       const Batch& batch, std::span<const Index> starts, const TextMarks& marks,
                       EvaluatedPart& part, std::span<double>& divergences) {
  const bool all = logits.size() == batch.targets.size() * width;
  const auto length = static_cast<std::size_t>(batch.length);
  const auto scored = [&](std::span<const Real> row, std::size_t i) {
    return Predictions{row_loss(row, batch.targets[i]), 1, likeliest(row) == batch.targets[i]};
  };
  std::size_t next = 0;  // row of the logits
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    if (batch.targets[i] == kNoTarget) {
      next += all;
      continue;
    }
    const auto row = logits.subspan(next++ * width, width);
    const Predictions one = scored(row, i);
    part.total.add(one);
    part.positions[range_of(i % length)].add(one);
    const std::size_t position = static_cast<std::size_t>(starts[i / length]) + i % length + 1;
    const bool is_answer = !marks.distances.empty() && marks.distances[position] != 0;
    if (!exact.empty()) {
      const auto before = exact.subspan(i * width, width);
      const Predictions was = scored(before, i);
      part.exact.add(was);
      part.same_choice += likeliest(before) == likeliest(row);
      part.lost += is_answer && was.right > one.right;
      part.gained += is_answer && was.right < one.right;
      for (std::size_t k = 0; k < width; ++k)
        part.largest_change = std::max(part.largest_change, std::abs(row[k] - before[k]));
      divergences.front() = row_divergence(before, row);
      divergences = divergences.subspan(1);
    }
    if (!is_answer) continue;
    const auto distance = static_cast<std::uint32_t>(marks.distances[position]);
    part.answers[static_cast<std::size_t>(std::bit_width(distance) - 1)].add(one);
    if (marks.directions.empty()) continue;
    const Index direction = marks.directions[static_cast<std::size_t>(batch.inputs[i])];
    if (direction >= 0) part.directions[static_cast<std::size_t>(direction)].add(one);
  }
}

// Evaluates windows [begin, end) of the text.
EvaluatedPart evaluate_windows(const LanguageModel& model, std::span<const std::int32_t> tokens,
                               std::span<const Index> windows, const EvaluationOptions& options,
                               Index begin, Index end, Tape& tape, std::span<double> divergences) {
  const Index context = model.plan()->context;
  EvaluatedPart part;
  std::vector<AttentionStats> attention(
      static_cast<std::size_t>(options.attention_stats ? model.plan()->layers : 0));
  Batch batch;
  for (Index w = begin; w < end; w += batch.sequences) {
    evaluation_window_batch(tokens, windows, w, end - w, context, batch, options.marks);
    tape.reset();
    const auto count = [&](std::span<const Real> logits, std::span<const Real> exact) {
      count_predictions(logits, exact, static_cast<std::size_t>(model.vocabulary()), batch,
                        windows.subspan(static_cast<std::size_t>(w)), options.marks, part,
                        divergences);
    };
    if (!options.rounding) {
      count(model.logits(tape, batch.inputs, batch.sequences, attention, batch.targets).value(),
            {});
      continue;
    }
    Decoder decoder(model, {.sequences = batch.sequences, .rounding = *options.rounding});
    const Var exact = model.logits(tape, batch.inputs, batch.sequences);
    count(decoder.feed(batch.inputs, attention), exact.value());
  }
  for (const AttentionStats& layer : attention) {
    part.entropy_sum += layer.entropy_sum;
    part.rows += layer.rows;
  }
  return part;
}

// Evaluates the parts of this rank. Windows begin at `starts`; a part has `per_part` of them.
void evaluate_own(const LanguageModel& model, std::span<const std::int32_t> tokens,
                  std::span<const Index> starts, const EvaluationOptions& options, Index per_part,
                  Part own, std::span<EvaluatedPart> parts, std::span<double> divergences) {
  constexpr Index kLongWindow = 1024;
  // Long windows come one by one: each of their ops runs on all threads, and several windows at a
  // time would take several times the memory.
  const bool one_by_one = model.plan()->context >= kLongWindow;
  std::vector<std::unique_ptr<Tape>> tapes;
  for (Index i = 0; i < (one_by_one ? 1 : std::min<Index>(own.size(), threads())); ++i)
    tapes.push_back(std::make_unique<Tape>(model.parameters()));
  const std::size_t of_part = divergences.size() / parts.size();
  const auto evaluate_part = [&](Index i, int thread) {
    const Index part = own.first + i;
    parts[static_cast<std::size_t>(part)] =
        evaluate_windows(model, tokens, starts, options, part * per_part,
                         std::min(std::ssize(starts), (part + 1) * per_part),
                         *tapes[static_cast<std::size_t>(thread)],
                         divergences.subspan(static_cast<std::size_t>(part) * of_part, of_part));
  };
  if (one_by_one) {
    for (Index i = 0; i < own.size(); ++i) evaluate_part(i, 0);
  } else {
    parallel_tasks(own.size(), threads(), evaluate_part, std::ssize(parts));
  }
}

// What differs from the unrounded model in all parts.
RoundingChange change_of(const EvaluatedPart& all, std::vector<double> divergences) {
  RoundingChange change = {.exact_loss = all.exact.mean_loss(),
                           .same_choice = all.exact.share_of(static_cast<double>(all.same_choice)),
                           .largest_change = static_cast<double>(all.largest_change)};
  std::erase_if(divergences, [](double one) { return std::isnan(one); });
  for (const double one : divergences) change.divergence += one;
  change.divergence = all.exact.share_of(change.divergence);
  const auto count = std::ssize(divergences);
  if (count > 0) {
    const auto nearest = divergences.begin() + ((99 * count + 99) / 100 - 1);
    std::ranges::nth_element(divergences, nearest);
    change.divergence99 = *nearest;
  }
  if (std::ranges::any_of(all.answers, [](const Predictions& at) { return at.count > 0; })) {
    change.lost = all.lost;
    change.gained = all.gained;
  }
  return change;
}

// Fills in the accuracies over answers.
void add_answers(const EvaluatedPart& all, Evaluation& result) {
  Predictions answers;
  for (std::size_t i = 0; i < all.answers.size(); ++i) {
    const Predictions& at = all.answers[i];
    if (at.count > 0) result.answers_by_distance.push_back({Index{1} << i, at.count, at.right});
    answers.add(at);
  }
  if (answers.count > 0) result.answer_accuracy = answers.accuracy();
  for (Index i = 0; i < kMostDirections; ++i) {
    const Predictions& in = all.directions[static_cast<std::size_t>(i)];
    if (in.count > 0) result.answers_by_direction.push_back({i, in.count, in.right});
  }
}

std::vector<LossAt> losses_by_position(const EvaluatedPart& all) {
  std::vector<LossAt> losses;
  for (std::size_t i = 0; i < all.positions.size(); ++i) {
    const Predictions& at = all.positions[i];
    if (at.count > 0) losses.push_back({i == 0 ? 0 : Index{16} << i, at.count, at.mean_loss()});
  }
  return losses;
}

// Mean losses of equal stretches of the text; none if one of them has no character that counts.
std::vector<double> losses_by_block(std::span<const EvaluatedPart> parts) {
  constexpr std::size_t kBlocks = 16;
  std::vector<double> losses;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const std::size_t begin = block * parts.size() / kBlocks;
    const Predictions sum =
        sum_of(parts.subspan(begin, (block + 1) * parts.size() / kBlocks - begin)).total;
    if (sum.count == 0) return {};
    losses.push_back(sum.mean_loss());
  }
  return losses;
}

}  // namespace

double row_loss(std::span<const Real> row, std::int32_t target) {
  using Numbers = Eigen::Array<Real, Eigen::Dynamic, 1>;
  // A buffer of its own, always aligned alike, makes the sum independent of where the row lies.
  thread_local Numbers exponentials;
  const Eigen::Map<const Numbers> scores(row.data(), std::ssize(row));
  const Real highest = scores.maxCoeff();
  exponentials = (scores - highest).exp();
  return std::log(static_cast<double>(exponentials.sum())) +
         static_cast<double>(highest - row[static_cast<std::size_t>(target)]);
}

double row_divergence(std::span<const Real> exact, std::span<const Real> rounded) {
  using Numbers = Eigen::Array<double, Eigen::Dynamic, 1>;
  using Row = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;
  thread_local Numbers p, q, weights;  // aligned alike, as in `row_loss`
  p = Row(exact.data(), std::ssize(exact)).cast<double>();
  q = Row(rounded.data(), std::ssize(rounded)).cast<double>();
  p -= p.maxCoeff();
  q -= q.maxCoeff();
  weights = p.exp();
  const double sum = weights.sum();
  const double other = Numbers(q.exp()).sum();
  // Rounding may make it less than 0.
  return std::max(0.0, (weights * (p - q)).sum() / sum - std::log(sum) + std::log(other));
}

std::string change_line(const Evaluation& evaluation) {
  if (!evaluation.change) return "";
  const RoundingChange& change = *evaluation.change;
  std::string line =
      formatted("the cache's type changes the loss by %+.6f\n",
                evaluation.loss - change.exact_loss) +
      formatted(
          "KL divergence from unrounded %.6f nats, 99th percentile %.6f\n"
          "first choice stays %.1f %%, largest change of a logit %.4f\n",
          change.divergence, change.divergence99, 100 * change.same_choice, change.largest_change);
  if (change.lost)
    line += "answers that turn wrong " + std::to_string(*change.lost) + ", that turn right " +
            std::to_string(*change.gained) + "\n";
  return line;
}

Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options) {
  constexpr Index kTokensPerPart = 64;
  const Index context = model.plan()->context;
  const std::vector<Index> starts =
      evaluation_windows(std::ssize(tokens), context, options.marks.starts);
  const Index per_part = std::max<Index>(1, kTokensPerPart / context);
  std::vector<EvaluatedPart> parts(
      static_cast<std::size_t>((std::ssize(starts) + per_part - 1) / per_part));
  // Divergences of a part's predictions, those that count first.
  const std::size_t of_part = options.rounding ? static_cast<std::size_t>(per_part * context) : 0;
  std::vector<double> divergences(parts.size() * of_part, std::numeric_limits<double>::quiet_NaN());
  Ranks& ranks = options.ranks != nullptr ? *options.ranks : alone();
  std::string wrong;
  try {
    evaluate_own(model, tokens, starts, options, per_part,
                 part_of(std::ssize(parts), ranks.rank(), ranks.size()), parts, divergences);
  } catch (const NonFiniteError& error) {
    wrong = error.what();
  }
  wrong = first_text(ranks, wrong);
  if (!wrong.empty()) throw NonFiniteError("{}", wrong);
  gather(ranks, std::span(parts));
  if (of_part > 0)
    ranks.gather(std::as_writable_bytes(std::span(divergences)), of_part * sizeof(double));
  const EvaluatedPart all = sum_of(parts);
  Evaluation result;
  result.characters = all.total.count;
  result.loss = all.total.mean_loss();
  result.accuracy = all.total.accuracy();
  if (all.rows > 0) result.attention_entropy = all.entropy_sum / static_cast<double>(all.rows);
  if (options.rounding) result.change = change_of(all, std::move(divergences));
  add_answers(all, result);
  result.loss_by_position = losses_by_position(all);
  result.loss_by_block = losses_by_block(parts);
  // Their sums may overflow where all logits are finite.
  if (!std::isfinite(result.loss) || !std::isfinite(result.attention_entropy.value_or(0)))
    throw NonFiniteError(
        "the loss or the entropy of attention is not finite: logits or scores are too large; take "
        "an earlier checkpoint");
  return result;
}

}  // namespace headcount
