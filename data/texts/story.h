#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/base/real.h"
#include "autograd/random.h"

namespace headcount {

/// Picks one of `count` equally likely alternatives: returns a number in 0 .. count - 1. Generators
/// make all their choices through it, so that all texts of a grammar can be enumerated.
using Chooser = std::function<std::uint64_t(std::uint64_t count)>;

/// Chooser that draws its numbers at `key`, counters 0, 1, 2, ...
Chooser random_chooser(const RandomKey& key);

/// Right answers, as a number or a share, of strategies that never look up what is asked for. Only
/// more right answers than the best of these strategies has show that a model looks answers up.
struct Baselines {
  double guesser = 0;    ///< knows the grammar and how the answer begins, not the story
  double copier = 0;     ///< repeats the most frequent earlier answer; guesses the first one
  double commonest = 0;  ///< reads the story but not the question: names what was told most often

  double best() const;
  Baselines& operator+=(const Baselines& other);
  Baselines operator/(double count) const;
  static void fields(auto& io, auto& s) {  // see train/show/fields.h
    io({}, "guesser", s.guesser, "copier", s.copier, "commonest", s.commonest);
  }
};

/// Text drawn from a grammar. The built-in grammars are *injective* (two different sequences of
/// choices never write the same text) and *prefix-free* (no text begins another), so `nats` is the
/// exact information of the text, and nats of consecutive texts add up. No model can have a lower
/// expected loss.
///
/// *Answers* are the characters that only an earlier part of the story determines. The rest of a
/// name whose first letter is known is no answer, nor is what the grammar prescribes. No question
/// is asked twice, so that no answer can be copied from that of the same question.
struct Story {
  std::string text;  ///< UTF-8
  double nats = 0;   ///< -log p(text)
  /// [characters]: at an answer, the distance back to the character it follows from; 0 elsewhere.
  std::vector<std::int32_t> distances;
  Baselines baselines;  ///< expected number of right answers
};

/// Grammar of stories: writes the story that `chooser` chooses.
using StoryGrammar = std::function<Story(const Chooser& chooser)>;

/// Writes a story and adds up the nats of its choices.
class StoryWriter {
 public:
  explicit StoryWriter(Chooser chooser) : chooser_(std::move(chooser)) {}

  /// Uniform number in 0 .. count - 1, where `count` is at least 1; costs log(count) nats.
  Index choose(Index count);

  /// Number in 0 .. weights.size() - 1, drawn in proportion to its weight; costs -log(its share of
  /// the weights) nats. The text can then no longer be enumerated: it is one choice of 2^32.
  Index choose_by_weight(std::span<const double> weights);

  /// Removes a uniformly chosen item from `items` and returns it; the others keep their order.
  template <class Item>
  Item draw(std::vector<Item>& items) {
    const Index chosen = choose(std::ssize(items));
    Item item = std::move(items[chosen]);
    items.erase(items.begin() + chosen);
    return item;
  }

  Index position() const { return std::ssize(story_.distances); }  ///< characters written
  void write(std::string_view text);
  /// Notes that the story tells `name`, which may be an answer.
  void tell(std::string_view name) { ++told_[std::string(name)]; }
  /// Writes the answer `name`, one of `names`, which the story told at position `told`, and `end`,
  /// one character or none. Characters in which names with the same beginning differ are marked as
  /// answers, since only the story determines them. All names are equally likely, so the best guess
  /// is the character that most of them have.
  void write_answer(std::string_view name, std::string_view end, Index told,
                    std::span<const std::string_view> names);
  /// Writes one character of an answer, which follows from the character at position `told`;
  /// `right` has the probability with which each baseline gets it right.
  void write_answer(std::string_view character, const Baselines& right, Index told);

  Story finish() && { return std::move(story_); }

 private:
  Chooser chooser_;
  Story story_;
  std::map<std::string, Index, std::less<>> told_, answered_;  // how often names were
};

}  // namespace headcount
