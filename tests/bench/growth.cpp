// How the time per token and the memory of a training step grow, in the widths of nanogpt-cpu:
// against context (8192 tokens a step), against width, or against threads.
// Usage: growth context|width|threads [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/training_bench.h"

namespace headcount {
namespace {

void print_row(const std::string& name, Index x, double ms, const TrainingBench& training) {
  std::printf("%-24s %8td %12.2f %10.0f\n", name.c_str(), x,
              1e3 * ms / static_cast<double>(training.tokens_per_step()),
              resident_megabytes("VmHWM"));
}

// `apart`: the attention op and all the rest as well.
void measure(const TrainOptions& options, Index x, int rounds, bool apart) {
  in_child([&] {
    TrainingBench training(options);
    TrainingProfile profile;
    training.profile(&profile);
    std::vector<double> steps, attention;
    for (int round = 0; round < rounds; ++round) {
      const OpCost before = profile.ops.cost(Op::attention);
      steps.push_back(milliseconds([&] { training.step(); }));
      const OpCost& after = profile.ops.cost(Op::attention);
      attention.push_back(1e3 * (after.forward_seconds - before.forward_seconds +
                                 after.backward_seconds - before.backward_seconds));
    }
    const std::string& kind = options.model.attention.kind;
    print_row(kind, x, median(steps), training);
    if (!apart) return;
    print_row(kind + ": attention", x, median(attention), training);
    print_row(kind + ": the rest", x, median(steps) - median(attention), training);
  });
}

TrainOptions options_for(const char* kind) {
  TrainOptions options = bench_options("nanogpt-cpu");
  options.model.attention.kind = kind;
  return options;
}

void against_context(int rounds) {
  constexpr Index kTokens = 8192;
  for (Index context = 64; context <= kTokens; context *= 2) {
    for (const char* kind : {"mha", "mqa", "mla"}) {
      TrainOptions options = options_for(kind);
      options.model.context = context;
      options.batch = kTokens / context;
      measure(options, context, rounds, std::string_view(kind) == "mha");
    }
  }
}

void against_width(int rounds) {
  for (Index width = 64; width <= 1024; width *= 2) {
    for (const char* kind : {"mha", "gqa", "mqa", "mla"}) {
      TrainOptions options = options_for(kind);
      options.model.dim = width;
      options.model.attention.heads = width / 32;
      measure(options, width, rounds, false);
    }
  }
}

void against_threads(int rounds) {
  const Index all = threads();
  for (Index count = 1; count <= all; ++count) {
    for (const char* kind : {"mha", "gqa", "mqa", "mla"}) {
      in_child([&] {
        set_threads(static_cast<int>(count));
        measure(options_for(kind), count, rounds, false);
      });
    }
  }
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const std::string_view against = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  if (against != "context" && against != "width" && against != "threads") {
    std::fprintf(stderr, "usage: growth context|width|threads [ROUNDS]\n");
    return 2;
  }
  std::printf("%-24s %8s %12s %10s\n", "attention", argv[1], "us per token", "peak MB");
  if (against == "context") against_context(rounds);
  if (against == "width") against_width(rounds);
  if (against == "threads") against_threads(rounds);
}
