#include "data/recall.h"

#include <string>
#include <utility>

namespace headcount {

namespace {

constexpr std::string_view all_keys = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view all_values = "0123456789";

}  // namespace

Story write_recall(const RecallOptions& options, const Chooser& chooser) {
  check_option("keys", options.keys, 1, std::ssize(all_keys));
  check_option("pairs", options.pairs, 1, options.most_pairs());
  check_option("gap", options.gap, 0, 65536);

  StoryWriter writer(chooser);
  std::vector<char> keys(all_keys.begin(), all_keys.begin() + options.keys);
  std::vector<std::pair<char, char>> pairs;
  for (Index i = 0; i < options.pairs; ++i) {
    const char key = writer.draw(keys);
    const char value = all_values[writer.choose(all_values.size())];
    pairs.emplace_back(key, value);
    writer.write(std::string{key, value, ' '});
  }
  writer.write(std::string(static_cast<std::size_t>(options.gap), '.') + "|");
  while (!pairs.empty()) {
    const auto [key, value] = writer.draw(pairs);
    writer.write(std::string{' ', key});
    writer.write_answer({&value, 1});
  }
  writer.write("\n");
  return std::move(writer).finish();
}

}  // namespace headcount
