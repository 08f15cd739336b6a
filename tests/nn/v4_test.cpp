// The attentions of DeepSeek-V4: notes on what is kept of blocks of tokens, and on tokens that no
// query reads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nn/attention/costs.h"
#include "nn/attention/kind.h"
#include "nn/layer_config.h"

namespace headcount {
namespace {

using Notes = std::vector<std::string>;

AttentionPlan hca(Index block, Index window) {
  LayerConfig config;
  config.kind = "hca";
  config.dim = 16;
  config.max_positions = 32;
  set(config, "heads", 2);
  set(config, "head-dim", 12);
  set(config, "compress", block);
  set(config, "window", window);
  return resolved(config);
}

// An open block has at most 7 tokens, of each of which 12 numbers of C and of Z are kept.
TEST(NotesOnHca, NameTheFractionOfARowTheWindowAndTheOpenBlock) {
  EXPECT_EQ(attention_notes(hca(8, 7)),
            Notes{"each layer of hca keeps 1/8 of a row of 12 numbers per token, in its window at "
                  "most 84 numbers, and for an open block 168 numbers"});
  EXPECT_EQ(attention_notes(hca(8, 0)),
            Notes{"each layer of hca keeps 1/8 of a row of 12 numbers per token, 12 numbers more "
                  "without a window, and for an open block 168 numbers"});
}

TEST(NotesOnHca, WarnOfTokensThatNobodyReadsBeforeTheirBlockIsComplete) {
  const Notes notes = attention_notes(hca(8, 6));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes.back(),
            "a `window` of 6 is shorter than an open block of 8 tokens: those that have left the "
            "window are read by nobody until their block is complete; a window of 7 or more reads "
            "them");
}

TEST(NotesOnHca, WarnOfBlocksThatAreLongerThanTheContext) {
  const Notes notes = attention_notes(hca(33, 4));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes.back(),
            "a block of 33 tokens is longer than the context of 32, so that no row is ever pooled; "
            "lower `compress` or raise `context`");
  EXPECT_EQ(attention_notes(hca(32, 31)).size(), 1u);
}

Notes notes_on_indexer(const std::string& kind, Index topk, double loss) {
  LayerConfig config;
  config.kind = kind;
  config.dim = 16;
  config.max_positions = 32;
  set(config, "heads", 2);
  set(config, "index-topk", topk);
  config.given.put("index-loss", loss);
  Notes notes = attention_notes(resolved(config));
  std::erase_if(notes, [](const std::string& note) { return note.find("index") == note.npos; });
  return notes;
}

TEST(NotesOnIndexers, SayThatNothingTrainsThem) {
  for (const std::string kind : {"csa", "dsa"}) {
    EXPECT_EQ(notes_on_indexer(kind, 4, 1), Notes{}) << kind;
    EXPECT_EQ(notes_on_indexer(kind, 4, 0),
              Notes{"`index-loss` is 0: nothing trains the indexer of " + kind +
                    ", which picks rows at random"});
  }
}

TEST(NotesOnIndexers, SayThatNothingIsLeftOut) {
  EXPECT_EQ(notes_on_indexer("dsa", 31, 1), Notes{});
  EXPECT_EQ(notes_on_indexer("dsa", 32, 1),
            Notes{"`index-topk` 32 leaves out none of the at most 32 rows that the indexer of dsa "
                  "picks from; lower `index-topk` or raise `context`"});
  EXPECT_EQ(notes_on_indexer("csa", 7, 1), Notes{}) << "of 8, one for every four tokens";
  EXPECT_EQ(notes_on_indexer("csa", 8, 0).size(), 1u);
}

TEST(NotesOnAttentions, OfRowsOfSingleTokensThereAreNone) {
  LayerConfig config;
  config.kind = "mqa";
  set(config, "window", 4);
  EXPECT_EQ(attention_notes(resolved(config)), Notes{});
}

}  // namespace
}  // namespace headcount
