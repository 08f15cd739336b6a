#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/real.h"
#include "autograd/random.h"

namespace headcount {

/// Picks one of `count` equally likely alternatives: returns a number in 0 .. count - 1.
/// Generators draw through it alone, so that every text of a grammar can be walked through. One
/// that returns `count` itself picks nothing, and the story stops there: see StoryStopped.
using Chooser = std::function<std::uint64_t(std::uint64_t count)>;

/// The chooser that draws its numbers at `key`, counters 0, 1, 2, ...
Chooser random_chooser(const RandomKey& key);

/// What strategies get right that never look up what is asked for: a number of answers, or a share
/// of them. Only what is right beyond the best of them was looked up.
struct Baselines {
  /// Knows the grammar and what the answer begins with, and nothing else of the story.
  double guesser = 0;
  /// Never reads the story: repeats what most of its answers so far have been, and guesses before
  /// the first.
  double copier = 0;
  /// Reads the story, but not what is asked for: names what it has told most often.
  double commonest = 0;

  double best() const;
  Baselines& operator+=(const Baselines& other);
  Baselines operator/(double count) const;
};

/// The probability that `right` is named by who names what `counts` has most often, and any of
/// those that it has as often; `guess` where it has none.
double commonest_is(char right, const std::map<char, Index>& counts, double guess);

/// One text drawn from a grammar. The built-in grammars are *injective* (two different sequences of
/// choices never write the same text) and *prefix-free* (no text begins another), so `nats` is the
/// exact information of the text, -log p(text), and that of several texts in a row is their sum.
/// No model can have a lower expected loss on them.
///
/// *Answers* are the characters that only what was told earlier in the story settles. The rest of a
/// name whose first letter is known is no answer, nor is what the grammar prescribes. No question
/// is asked twice, so no answer repeats an earlier one.
struct Story {
  std::string text;  ///< UTF-8
  double nats = 0;   ///< -log p(text)
  /// [characters]: at an answer, how many characters back the one stands that tells it; 0
  /// elsewhere.
  std::vector<std::int32_t> answers;
  Baselines baselines;  ///< how many of those are right on average
};

/// Its chooser picked nothing.
class StoryStopped : public Error {
 public:
  StoryStopped(std::string written, std::size_t count)
      : Error("the story was stopped"), text(std::move(written)), alternatives(count) {}

  std::string text;          ///< so far
  std::size_t alternatives;  ///< to pick from
};

/// Writes a story and keeps the account of what its choices cost. Texts are UTF-8.
class StoryWriter {
 public:
  explicit StoryWriter(Chooser chooser);

  /// A number in 0 .. count - 1, uniform; costs log(count) nats. `count` is at least 1. Throws
  /// StoryStopped.
  std::size_t choose(std::size_t count);

  /// Removes a uniformly chosen item from `items` and returns it; the others keep their order.
  template <class Item>
  Item draw(std::vector<Item>& items) {
    const auto chosen = items.begin() + static_cast<std::ptrdiff_t>(choose(items.size()));
    Item item = std::move(*chosen);
    items.erase(chosen);
    return item;
  }

  Index position() const { return std::ssize(story_.answers); }  ///< characters written
  void write(std::string_view text);
  /// Writes an answer, which the character at position `told` tells; strategies that do not look it
  /// up are right with these probabilities.
  void write_answer(std::string_view character, const Baselines& right, Index told);

  Story finish() &&;

 private:
  Chooser chooser_;
  Story story_;
};

/// Of each character of `text`, which begins a story that `write` may write: -log p of it, given
/// those before it. Of a whole story they add up to its nats. Walks through the choices of the
/// grammar as far as they write `text`.
std::vector<double> nats_of_characters(const std::function<Story(const Chooser&)>& write,
                                       const std::string& text);

/// Throws ShapeError that names `option` and the range unless low <= value <= high.
void check_option(std::string_view option, Index value, Index low, Index high);
}  // namespace headcount
