#include "data/batches.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "autograd/base/error.h"

namespace headcount {
namespace {

/// 0, 1, 2, ...: a token tells its own position.
std::vector<std::int32_t> count_up(Index size) {
  std::vector<std::int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

const RandomKey some_step = {.seed = 7, .stream = random_stream("batches"), .step = 3};

RC_GTEST_PROP(SampleWindows, AreConsecutiveTokensWithTheirTargets, ()) {
  const auto context = *rc::gen::inRange<Index>(1, 20);
  const auto size = context + *rc::gen::inRange<Index>(1, 50);
  const auto sequences = *rc::gen::inRange<Index>(1, 9);
  auto back = *rc::gen::container<std::vector<std::int32_t>>(size, rc::gen::inRange(0, 3));
  back[0] = 0;
  back[1] = std::min(back[1], 1);
  const TextMarks marks = {.distances = back,
                           .only_answers = *rc::gen::arbitrary<bool>(),
                           .hidden_answers = *rc::gen::arbitrary<bool>()};
  const RandomKey key = {*rc::gen::arbitrary<std::uint64_t>(), 1, 2};
  Batch batch, fewer;
  sample_windows(count_up(size), key, sequences, context, batch, marks);
  sample_windows(count_up(size), key, 1, context, fewer, marks);
  RC_ASSERT(std::ranges::equal(fewer.inputs, std::span(batch.inputs).first(fewer.inputs.size())));
  RC_ASSERT(batch.sequences == sequences && batch.length == context);
  RC_ASSERT(std::ssize(batch.inputs) == sequences * context);
  RC_ASSERT(batch.targets.size() == batch.inputs.size());
  for (Index i = 0; i < std::ssize(batch.inputs); ++i) {
    const std::int32_t next = batch.inputs[i] + 1;
    RC_ASSERT(next < size);
    if ((i + 1) % context != 0) RC_ASSERT(batch.inputs[i + 1] == next);
    const bool counts = back[next] > 0 || !marks.only_answers;
    const bool hidden = marks.only_answers && marks.hidden_answers;
    RC_ASSERT(batch.targets[i] == (counts ? next - (hidden ? back[next] : 0) : kNoTarget));
  }
}

TEST(SampleWindows, StartWhereverAWindowFitsOrAtStartsIfThereAreAny) {
  const std::vector<Index> begins = {0, 3, 7, 10, 12};
  for (const auto& [marks, expected] :
       {std::pair{TextMarks(), std::set<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
        {TextMarks{.starts = begins}, {0, 3, 7}}}) {
    Batch batch, next;
    sample_windows(count_up(15), some_step, 1000, 5, batch, marks);
    std::set<std::int32_t> starts;
    for (Index row = 0; row < 1000; ++row) starts.insert(batch.inputs[row * 5]);
    EXPECT_EQ(starts, expected);
    RandomKey next_step = some_step;
    ++next_step.step;
    sample_windows(count_up(15), next_step, 1000, 5, next, marks);
    EXPECT_NE(batch.inputs, next.inputs);
  }
}

RC_GTEST_PROP(SampleWindows, OfDocumentsReadOneEachAndEndWithIt, ()) {
  const auto context = *rc::gen::inRange<Index>(1, 12);
  const auto size = *rc::gen::inRange<Index>(2, 60);
  std::vector<Index> starts = {0};
  while (starts.back() < size - 1)
    starts.push_back(starts.back() + *rc::gen::inRange<Index>(1, 30));
  starts.pop_back();
  const std::vector<Index> windows = evaluation_windows(size, context, starts);
  const Index length = longest_window(windows, size);
  RC_ASSERT(length >= 1 && length <= context);
  const TextMarks marks = {.starts = windows, .one_document = true};
  Batch batch;
  std::set<std::int32_t> targets;
  for (RandomKey key = some_step; key.step < 100; ++key.step) {
    sample_windows(count_up(size), key, 20, length, batch, marks);
    for (Index i = 0; i < std::ssize(batch.inputs); ++i) {
      const std::int32_t first = batch.inputs[i - i % length];
      const auto next = std::ranges::upper_bound(windows, Index{first});
      RC_ASSERT(next[-1] == first);
      const Index at = first + i % length, end = next == windows.end() ? size - 1 : *next;
      RC_ASSERT(batch.inputs[i] == (at < end ? at : 0));
      RC_ASSERT(batch.targets[i] == (at < end ? at + 1 : kNoTarget));
      if (at < end) targets.insert(batch.targets[i]);
    }
  }
  RC_ASSERT(batch.tokens == counted(batch.targets));
  RC_ASSERT(std::ssize(targets) == size - 1 && *targets.begin() == 1);
}

TEST(SampleWindows, NeedATargetForTheLastToken) {
  Batch batch;
  EXPECT_NO_THROW(sample_windows(count_up(65), some_step, 1, 64, batch));
  EXPECT_THROW(sample_windows(count_up(64), some_step, 1, 64, batch), DataError);
}

TEST(EvaluationWindows, BeginAnewAtEachStartAndPutAShortRestInABatchOfItsOwn) {
  const std::vector<Index> starts = {0, 3, 12};
  EXPECT_EQ(evaluation_windows(15, 4, starts), (std::vector<Index>{0, 3, 7, 11, 12}));
  for (const auto& [tokens, whole] : {std::pair<Index, Index>{12, 2}, {13, 3}}) {
    const std::vector<Index> windows = evaluation_windows(tokens, 4);
    EXPECT_EQ(windows, (std::vector<Index>{0, 4, 8}));
    Batch batch;
    evaluation_window_batch(count_up(tokens), windows, 0, 8, 4, batch);
    EXPECT_EQ(batch.sequences, whole) << tokens;
  }
  EXPECT_THROW(evaluation_windows(1, 4), DataError) << "nothing to predict";
}

RC_GTEST_PROP(EvaluationWindows, CountEachTargetOnceWhereverStoriesBegin, ()) {
  const auto context = *rc::gen::inRange<Index>(1, 12);
  const auto size = context + *rc::gen::inRange<Index>(1, 60);
  const auto most = *rc::gen::inRange<Index>(1, 6);
  const TextMarks marks = {.one_document = *rc::gen::arbitrary<bool>()};
  std::vector<Index> starts = {0};
  while (starts.back() < size) starts.push_back(starts.back() + *rc::gen::inRange<Index>(1, 30));
  starts.pop_back();
  const auto tokens = count_up(size);
  const std::vector<Index> windows = evaluation_windows(size, context, starts);
  std::vector<std::int32_t> counted;
  Batch batch;
  for (Index window = 0; window < std::ssize(windows); window += batch.sequences) {
    evaluation_window_batch(tokens, windows, window, most, context, batch, marks);
    RC_ASSERT(batch.sequences >= 1 && batch.sequences <= most);
    RC_ASSERT(batch.length >= 1 && batch.length <= context);
    RC_ASSERT(std::ssize(batch.inputs) == batch.sequences * batch.length);
    for (Index i = 0; i < std::ssize(batch.targets); ++i) {
      RC_ASSERT(batch.targets[i] != kNoTarget || !marks.one_document);  // which has no padding
      if (batch.targets[i] == kNoTarget) continue;
      RC_ASSERT(batch.targets[i] == batch.inputs[i] + 1);
      counted.push_back(batch.targets[i]);
      // No window reads an earlier story.
      const auto story = std::ranges::upper_bound(starts, Index{batch.inputs[i]}) - 1;
      RC_ASSERT(batch.inputs[i - i % batch.length] >= *story);
    }
  }
  RC_ASSERT(counted == std::vector<std::int32_t>(tokens.begin() + 1, tokens.end()));
}

}  // namespace
}  // namespace headcount
