#include "data/texts/story.h"

#include <utf8.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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

namespace {

// Probability of naming `right` by naming the most frequent character of `counts`, drawn among
// ties; `guess` if all counts are 0.
double hit_by_commonest(char right, const std::map<char, Index>& counts, double guess) {
  Index most = 0, ties = 0;
  for (const auto& [character, count] : counts) {
    if (count > most) ties = 0;
    most = std::max(most, count);
    ties += count == most;
  }
  if (most == 0) return guess;
  const auto found = counts.find(right);
  return found != counts.end() && found->second == most ? 1 / static_cast<double>(ties) : 0;
}

}  // namespace

Index StoryWriter::choose(Index count) {
  if (count == 1) return 0;
  story_.nats += std::log(static_cast<double>(count));
  return static_cast<Index>(chooser_(static_cast<std::uint64_t>(count)));
}

Index StoryWriter::choose_by_weight(std::span<const double> weights) {
  constexpr std::uint64_t kParts = std::uint64_t{1} << 32;
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto part = static_cast<double>(chooser_(kParts));
  double left = all * (part + 0.5) / static_cast<double>(kParts);
  Index chosen = 0;
  while (chosen + 1 < std::ssize(weights) && left >= weights[chosen]) left -= weights[chosen++];
  story_.nats -= std::log(weights[chosen] / all);
  return chosen;
}

void StoryWriter::write(std::string_view text) {
  story_.text += text;
  story_.distances.resize(story_.distances.size() + utf8::distance(text.begin(), text.end()), 0);
}

void StoryWriter::write_answer(std::string_view name, std::string_view end, Index told,
                               std::span<const std::string_view> names) {
  const std::string text = std::string(name).append(end);
  for (std::size_t i = 0; i < text.size(); ++i) {
    // Counts of the next character over the names that begin as the answer does so far: over all
    // of them, over those that earlier answers gave, and over those that the story told.
    std::map<char, Index> next, answered, told_so_far;
    Index alike = 0;
    for (const std::string_view other : names) {
      if (!other.starts_with(name.substr(0, i))) continue;
      const char character = i < other.size() ? other[i] : end.front();
      ++next[character];
      ++alike;
      answered[character] += answered_[std::string(other)];
      told_so_far[character] += told_[std::string(other)];
    }
    if (next.size() < 2) {
      write(text.substr(i, 1));
      continue;
    }
    const auto likeliest =
        std::ranges::max_element(next, {}, [](auto& pair) { return pair.second; });
    const double guess = static_cast<double>(likeliest->second) / static_cast<double>(alike);
    write_answer(text.substr(i, 1),
                 {.guesser = guess,
                  .copier = hit_by_commonest(text[i], answered, guess),
                  .commonest = hit_by_commonest(text[i], told_so_far, guess)},
                 told + static_cast<Index>(i));
  }
  ++answered_[std::string(name)];
}

void StoryWriter::write_answer(std::string_view character, const Baselines& right, Index told) {
  story_.distances.push_back(static_cast<std::int32_t>(position() - told));
  story_.text += character;
  story_.baselines += right;
}

}  // namespace headcount
