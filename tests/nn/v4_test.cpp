// The attentions of DeepSeek-V4: notes on what is kept of blocks of tokens, and on tokens that no
// query reads.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/attention/costs.h"
#include "nn/layer_config.h"

namespace headcount {
namespace {

using Notes = std::vector<std::string>;
using Numbers = std::vector<std::pair<std::string, double>>;

Notes notes_on(const std::string& kind, const Numbers& numbers) {
  LayerConfig config;
  config.kind = kind;
  config.dim = 16;
  config.max_positions = 32;
  for (const auto& [name, value] : Numbers{{"heads", 2}, {"head-dim", 12}})
    config.given.put(name, static_cast<Index>(value));
  for (const auto& [name, value] : numbers)
    name == "index-loss" ? config.given.put(name, value)
                         : config.given.put(name, static_cast<Index>(value));
  return attention_notes(resolved(config));
}

// An open block has at most 7 tokens, of each of which 12 numbers of C and of Z are kept.
TEST(NotesOnHca, NameTheFractionOfARowTheWindowAndTheOpenBlock) {
  const std::string row = "each layer of hca keeps 1/8 of a row of 12 numbers per token, ";
  const std::string open = ", and for an open block 168 numbers";
  EXPECT_EQ(notes_on("hca", {{"compress", 8}, {"window", 7}}),
            Notes{row + "in its window at most 84 numbers" + open});
  EXPECT_EQ(notes_on("hca", {{"compress", 8}, {"window", 0}}),
            Notes{row + "12 numbers more without a window" + open});
}

TEST(NotesOnHca, WarnOfTokensThatNobodyReadsAndOfBlocksLongerThanTheContext) {
  const Notes unread = notes_on("hca", {{"compress", 8}, {"window", 6}});
  const Notes never = notes_on("hca", {{"compress", 33}, {"window", 4}});
  ASSERT_EQ(unread.size() + never.size(), 4u);
  EXPECT_EQ(unread.back(),
            "a `window` of 6 is shorter than an open block of 8 tokens: those that have left the "
            "window are read by nobody until their block is complete; a window of 7 or more reads "
            "them");
  EXPECT_EQ(never.back(),
            "a block of 33 tokens is longer than the context of 32, so that no row is ever pooled; "
            "lower `compress` or raise `context`");
  EXPECT_EQ(notes_on("hca", {{"compress", 32}, {"window", 31}}).size(), 1u);
}

TEST(NotesOnIndexers, SayThatNothingTrainsThemAndThatNothingIsLeftOut) {
  const auto of_indexer = [](const std::string& kind, double topk, double loss) {
    Notes notes = notes_on(kind, {{"index-topk", topk}, {"index-loss", loss}});
    std::erase_if(notes, [](const std::string& note) { return note.find("index") == note.npos; });
    return notes;
  };
  for (const std::string kind : {"csa", "dsa"}) {
    EXPECT_EQ(of_indexer(kind, 4, 1), Notes{}) << kind;
    EXPECT_EQ(of_indexer(kind, 4, 0), Notes{"`index-loss` is 0: nothing trains the indexer of " +
                                            kind + ", which picks rows at random"});
  }
  EXPECT_EQ(of_indexer("dsa", 31, 1), Notes{});
  EXPECT_EQ(of_indexer("dsa", 32, 1),
            Notes{"`index-topk` 32 leaves out none of the at most 32 rows that the indexer of dsa "
                  "picks from; lower `index-topk` or raise `context`"});
  EXPECT_EQ(of_indexer("csa", 7, 1), Notes{}) << "of 8, one for every four tokens";
  EXPECT_EQ(of_indexer("csa", 8, 0).size(), 1u);
}

TEST(NotesOnAttentions, OfRowsOfSingleTokensThereAreNone) {
  EXPECT_EQ(notes_on("mqa", {{"window", 4}}), Notes{});
}

}  // namespace
}  // namespace headcount
