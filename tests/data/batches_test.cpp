#include "data/batches.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "autograd/base/error.h"
#include "support/message_of.h"

namespace headcount {
namespace {

/// 0, 1, 2, ...: a token tells its own position.
std::vector<std::int32_t> count_up(Index size) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

const RandomKey some_step = {.seed = 7, .stream = random_stream("batches"), .step = 3};

TEST(SampleWindows, AreConsecutiveTokensWithTargetsOneLater) {
  EXPECT_TRUE(rc::check([] {
    const auto context = *rc::gen::inRange<Index>(1, 20);
    const auto size = context + *rc::gen::inRange<Index>(1, 50);
    const auto sequences = *rc::gen::inRange<Index>(1, 9);
    Batch batch;
    sample_windows(count_up(size), {*rc::gen::arbitrary<std::uint64_t>(), 1, 2}, sequences, context,
                   batch);
    RC_ASSERT(batch.sequences == sequences);
    RC_ASSERT(batch.length == context);
    RC_ASSERT(std::ssize(batch.inputs) == sequences * context);
    RC_ASSERT(std::ssize(batch.targets) == sequences * context);
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      const bool row_starts = i % static_cast<std::size_t>(context) == 0;
      if (!row_starts) RC_ASSERT(batch.inputs[i] == batch.inputs[i - 1] + 1);
      RC_ASSERT(batch.targets[i] == batch.inputs[i] + 1);
      RC_ASSERT(batch.targets[i] < size);
    }
  }));
}

TEST(SampleWindows, StartAnywhereThatAWindowFits) {
  Batch batch;
  sample_windows(count_up(10), some_step, 1000, 4, batch);
  std::set<std::int32_t> starts;
  for (std::size_t row = 0; row < 1000; ++row) starts.insert(batch.inputs[row * 4]);
  EXPECT_EQ(starts, (std::set<std::int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(SampleWindows, DependOnTheKeyAlone) {
  const auto tokens = count_up(1000);
  Batch first, again, next;
  sample_windows(tokens, some_step, 8, 16, first);
  sample_windows(tokens, some_step, 8, 16, again);
  RandomKey next_step = some_step;
  ++next_step.step;
  sample_windows(tokens, next_step, 8, 16, next);
  EXPECT_EQ(first.inputs, again.inputs);
  EXPECT_NE(first.inputs, next.inputs);
}

TEST(SampleWindows, TellBothNumbersWhenTheTextIsTooShort) {
  Batch batch;
  EXPECT_NO_THROW(sample_windows(count_up(65), some_step, 1, 64, batch));
  EXPECT_EQ(message_of<DataError>([&] { sample_windows(count_up(64), some_step, 1, 64, batch); }),
            "the context of 64 is longer than the text of 64 characters allows (context + 1); "
            "shorten the context or use more text");
}

TEST(EvaluationWindows, PutTheShortRestInABatchOfItsOwn) {
  const auto tokens = count_up(12);  // 11 targets: two windows of 4, one of 3
  Batch batch;
  const std::vector<Index> windows = evaluation_windows(12, 4);
  EXPECT_EQ(windows, (std::vector<Index>{0, 4, 8}));
  evaluation_window_batch(tokens, windows, 0, 8, 4, batch);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 4);
  evaluation_window_batch(tokens, windows, 2, 8, 4, batch);
  EXPECT_EQ(batch.sequences, 1);
  EXPECT_EQ(batch.inputs, (std::vector<std::int32_t>{8, 9, 10}));
  EXPECT_EQ(batch.targets, (std::vector<std::int32_t>{9, 10, 11}));
  evaluation_window_batch(count_up(13), evaluation_windows(13, 4), 0, 8, 4, batch);
  EXPECT_EQ(batch.sequences, 3) << "no rest";
}

TEST(EvaluationWindows, RefuseATextWithNothingToPredict) {
  EXPECT_THROW(evaluation_windows(1, 4), DataError);
}

TEST(SampleWindows, BeginAtStartsWhereThereAreAny) {
  const std::vector<Index> begins = {0, 3, 7, 10, 12};
  Batch batch;
  sample_windows(count_up(15), some_step, 1000, 5, batch, {.starts = begins});
  std::set<std::int32_t> starts;
  for (std::size_t row = 0; row < 1000; ++row) starts.insert(batch.inputs[row * 5]);
  EXPECT_EQ(starts, (std::set<std::int32_t>{
                        0, 3, 7}));  // from 10 on no window of 5 and its last target fit
  for (std::size_t i = 0; i < batch.inputs.size(); ++i)
    EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
}

TEST(SampleWindows, CountAnswersAloneWhereTheyAreToldTo) {
  const std::vector<std::int32_t> answers = {0, 0, 1, 0, 0, 1, 1, 0, 0, 0};
  Batch batch;
  sample_windows(count_up(10), some_step, 100, 4, batch,
                 {.distances = answers, .only_answers = true});
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    const std::int32_t next = batch.inputs[i] + 1;
    const bool answer = answers[static_cast<std::size_t>(next)] == 1;
    EXPECT_EQ(batch.targets[i], answer ? next : kNoTarget);
  }
  sample_windows(count_up(10), some_step, 100, 4, batch, {.distances = answers});
  EXPECT_EQ(std::ranges::count(batch.targets, kNoTarget), 0);
}

TEST(SampleWindows, TargetTheTokenThatAHiddenAnswerFollowsFrom) {
  const std::vector<std::int32_t> answers = {0, 0, 0, 2, 0, 0, 0, 5, 0, 0};
  Batch batch;
  sample_windows(count_up(10), some_step, 100, 4, batch,
                 {.distances = answers, .only_answers = true, .hidden_answers = true});
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    const std::int32_t next = batch.inputs[i] + 1;
    EXPECT_EQ(batch.targets[i], next == 3 ? 1 : next == 7 ? 2 : kNoTarget);
  }
}

TEST(EvaluationWindows, BeginAnewAtEachStart) {
  const std::vector<Index> starts = {0, 3, 12};
  EXPECT_EQ(evaluation_windows(15, 4, starts), (std::vector<Index>{0, 3, 7, 11, 12}));
}

TEST(EvaluationWindows, CountEachTargetOnceWhereverStoriesBegin) {
  EXPECT_TRUE(rc::check([] {
    const auto context = *rc::gen::inRange<Index>(1, 12);
    const auto size = context + *rc::gen::inRange<Index>(1, 60);
    const auto most = *rc::gen::inRange<Index>(1, 6);
    std::vector<Index> starts = {0};
    while (starts.back() < size) starts.push_back(starts.back() + *rc::gen::inRange<Index>(1, 30));
    starts.pop_back();
    const auto tokens = count_up(size);
    const std::vector<Index> windows = evaluation_windows(size, context, starts);
    std::vector<std::int32_t> counted;
    Batch batch;
    for (Index window = 0; window < std::ssize(windows); window += batch.sequences) {
      evaluation_window_batch(tokens, windows, window, most, context, batch);
      RC_ASSERT(batch.sequences >= 1);
      RC_ASSERT(batch.sequences <= most);
      RC_ASSERT(batch.length >= 1);
      RC_ASSERT(batch.length <= context);
      RC_ASSERT(std::ssize(batch.inputs) == batch.sequences * batch.length);
      for (std::size_t i = 0; i < batch.targets.size(); ++i) {
        const Index first = batch.inputs[i - i % static_cast<std::size_t>(batch.length)];
        if (batch.targets[i] == kNoTarget) continue;
        RC_ASSERT(batch.targets[i] == batch.inputs[i] + 1);
        counted.push_back(batch.targets[i]);
        // Nothing of an earlier story is seen.
        const auto story = std::ranges::upper_bound(starts, Index{batch.inputs[i]}) - 1;
        RC_ASSERT(first >= *story);
      }
    }
    RC_ASSERT(counted == std::vector<std::int32_t>(tokens.begin() + 1, tokens.end()));
  }));
}

}  // namespace
}  // namespace headcount
