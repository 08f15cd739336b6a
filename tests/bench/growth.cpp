// How the time per token and the memory of a training step grow, in the widths of nanogpt-cpu:
// against context (8192 tokens a step), against width, or against threads.
// Usage: growth context|width|threads [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/training_bench.h"
#include "train/statistics.h"

namespace headcount {
namespace {

void print_row(const std::string& name, Index x, double ms, const TrainingBench& training,
               double megabytes = resident_megabytes("VmHWM")) {
  std::printf("%-24s %8td %12.2f %10.0f\n", name.c_str(), x,
              1e3 * ms / static_cast<double>(training.tokens_per_step()), megabytes);
}

// The attention op's share of the time of some steps.
double attention_share(TrainingBench& training, int rounds) {
  TrainingProfile profile;
  training.profile(&profile);
  for (int round = 0; round < rounds; ++round) training.step();
  training.profile(nullptr);
  const OpCost& cost = profile.ops.cost(Op::attention);
  return (cost.forward_seconds + cost.backward_seconds) / profile.seconds;
}

// `with_parts`: the attention op and all the rest as well.
void measure(const TrainOptions& options, Index x, int rounds, bool with_parts) {
  in_child([&] {
    TrainingBench training(options);
    std::vector<double> steps;
    for (int round = 0; round < rounds; ++round)
      steps.push_back(milliseconds([&] { training.step(); }));
    const std::string& kind = options.model->attention;
    const double ms = median(steps);
    print_row(kind, x, ms, training);
    if (!with_parts) return;
    const double share = attention_share(training, rounds);
    print_row(kind + ": attention", x, share * ms, training);
    print_row(kind + ": the rest", x, (1 - share) * ms, training);
  });
}

TrainOptions options_for(const char* kind, nlohmann::json more = nlohmann::json::object()) {
  more["attention"] = kind;
  return bench_options("nanogpt-cpu", more);
}

void against_context(int rounds) {
  constexpr Index kTokens = 8192;
  for (Index context = 64; context <= kTokens; context *= 2) {
    for (const char* kind : {"mha", "mqa", "mla", "delta"}) {
      measure(options_for(kind, {{"context", context}, {"batch", kTokens / context}}), context,
              rounds, std::string_view(kind) == "mha");
    }
  }
}

void against_width(int rounds) {
  for (Index width = 64; width <= 1024; width *= 2) {
    for (const char* kind : {"mha", "gqa", "mqa", "mla"}) {
      measure(options_for(kind, {{"dim", width}, {"heads", width / 32}}), width, rounds, false);
    }
  }
}

// In turn, since the machine may be slower for a while.
void against_threads(int rounds) {
  const auto all = static_cast<std::size_t>(threads());
  for (const char* kind : {"mha", "gqa", "mqa", "mla"}) {
    in_child([&] {
      set_threads(1);
      TrainingBench training(options_for(kind));
      std::vector<std::vector<double>> times(all);
      std::vector<double> megabytes(all);
      for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < all; ++i) {
          set_threads(static_cast<int>(i + 1));
          training.step();  // the first with more threads takes more memory
          times[i].push_back(milliseconds([&] { training.step(); }));
          if (round == 0) megabytes[i] = resident_megabytes("VmHWM");
        }
      }
      for (std::size_t i = 0; i < all; ++i)
        print_row(kind, static_cast<Index>(i + 1), median(times[i]), training, megabytes[i]);
    });
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
