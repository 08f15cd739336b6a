#include "data/story.h"

#include <utf8.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace headcount {

Chooser random_chooser(const RandomKey& key) {
  return [key, counter = std::uint64_t{0}](std::uint64_t count) mutable {
    return random_below(key, counter++, count);
  };
}

double Baselines::best() const { return std::max({guesser, copier, commonest}); }

Baselines& Baselines::operator+=(const Baselines& other) {
  guesser += other.guesser;
  copier += other.copier;
  commonest += other.commonest;
  return *this;
}

Baselines Baselines::operator/(double count) const {
  return {guesser / count, copier / count, commonest / count};
}

double commonest_is(char right, const std::map<char, Index>& counts, double guess) {
  Index most = 0, as_often = 0;
  for (const auto& [character, count] : counts) {
    if (count > most) as_often = 0;
    most = std::max(most, count);
    as_often += count == most;
  }
  if (most == 0) return guess;
  const auto found = counts.find(right);
  return found != counts.end() && found->second == most ? 1 / static_cast<double>(as_often) : 0;
}

std::size_t StoryWriter::choose(std::size_t count) {
  if (count == 1) return 0;
  const auto chosen = static_cast<std::size_t>(chooser_(count));
  if (chosen >= count) throw StoryStopped(story_.text, count);
  story_.nats += std::log(static_cast<double>(count));
  return chosen;
}

std::size_t StoryWriter::choose_by_weight(std::span<const double> weights) {
  constexpr std::uint64_t kParts = std::uint64_t{1} << 32;
  const std::uint64_t part = chooser_(kParts);
  if (part >= kParts) throw StoryStopped(story_.text, kParts);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double left = all * (static_cast<double>(part) + 0.5) / static_cast<double>(kParts);
  std::size_t chosen = 0;
  while (chosen + 1 < weights.size() && left >= weights[chosen]) left -= weights[chosen++];
  story_.nats -= std::log(weights[chosen] / all);
  return chosen;
}

void StoryWriter::write(std::string_view text) {
  story_.text += text;
  const auto characters = static_cast<std::size_t>(utf8::distance(text.begin(), text.end()));
  story_.answers.resize(story_.answers.size() + characters, 0);
}

void StoryWriter::write_answer(std::string_view character, const Baselines& right, Index told) {
  story_.answers.push_back(static_cast<std::int32_t>(position() - told));
  story_.text += character;
  story_.baselines += right;
}

namespace {

// Adds up, for every beginning of a text, the probabilities of all choices that write it.
struct Beginnings {
  const std::function<Story(const Chooser&)>& write;
  const std::string& text;
  std::vector<double> probability;  // [bytes + 1]
  std::vector<std::uint64_t> made;  // choices so far

  // Runs the grammar with the choices made, up to the next choice. Returns 0 alternatives if the
  // story ends before it.
  StoryStopped written() const {
    auto next = made.begin();
    try {
      return {write([&](std::uint64_t count) { return next == made.end() ? count : *next++; }).text,
              0};
    } catch (const StoryStopped& stopped) {
      return stopped;
    }
  }

  // Tries all ways to continue the choices made, which have probability `p` and write `known` bytes
  // of the text.
  void walk(double p, std::size_t known) {
    const StoryStopped story = written();
    const auto [end, other] = std::ranges::mismatch(text, story.text);
    const auto alike = static_cast<std::size_t>(end - text.begin());
    for (std::size_t bytes = known + 1; bytes <= alike; ++bytes) probability[bytes] += p;
    if (alike == text.size() || other != story.text.end()) return;
    for (std::size_t choice = 0; choice < story.alternatives; ++choice) {
      made.push_back(choice);
      walk(p / static_cast<double>(story.alternatives), alike);
      made.pop_back();
    }
  }
};

}  // namespace

std::vector<double> nats_of_characters(const std::function<Story(const Chooser&)>& write,
                                       const std::string& text) {
  Beginnings beginnings{write, text, std::vector<double>(text.size() + 1), {}};
  beginnings.probability[0] = 1;
  beginnings.walk(1, 0);
  std::vector<double> nats;
  for (auto at = text.begin(); at != text.end();) {
    const auto before = static_cast<std::size_t>(at - text.begin());
    utf8::next(at, text.end());
    const auto after = static_cast<std::size_t>(at - text.begin());
    nats.push_back(std::log(beginnings.probability[before] / beginnings.probability[after]));
  }
  return nats;
}

}  // namespace headcount
