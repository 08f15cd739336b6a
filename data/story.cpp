#include "data/story.h"

#include <utf8.h>

#include <cmath>
#include <utility>

#include "autograd/error.h"

namespace headcount {

Chooser random_chooser(const RandomKey& key) {
  return [key, counter = std::uint64_t{0}](std::uint64_t count) mutable {
    return random_below(key, counter++, count);
  };
}

StoryWriter::StoryWriter(Chooser chooser) : chooser_(std::move(chooser)) {}

std::size_t StoryWriter::choose(std::size_t count) {
  if (count == 1) return 0;
  story_.nats += std::log(static_cast<double>(count));
  return static_cast<std::size_t>(chooser_(count));
}

void StoryWriter::write(std::string_view text) {
  story_.text += text;
  const auto characters = static_cast<std::size_t>(utf8::distance(text.begin(), text.end()));
  story_.answers.resize(story_.answers.size() + characters, 0);
}

void StoryWriter::write_deciding(std::string_view character, double guess) {
  write(character);
  story_.answers.back() = 1;
  story_.guessed += guess;
}

Story StoryWriter::finish() && { return std::move(story_); }

void check_option(std::string_view option, std::int64_t value, std::int64_t low,
                  std::int64_t high) {
  if (value >= low && value <= high) return;
  throw DataError(std::string(option) + " is " + std::to_string(value) + " but must be " +
                  std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace headcount
