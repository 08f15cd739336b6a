// A training step beside its own matrix products alone, for each attention, and both as a share of
// the multiply-adds that the processor can do, all measured in turn.
// Usage: step [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/step_products.h"
#include "bench/training_bench.h"
#include "train/statistics.h"

namespace headcount {
namespace {

void measure(const char* size, const std::string& kind, int rounds) {
  TrainOptions options = bench_options(size);
  options.model.attention.kind = kind;
  TrainingBench training(options);
  const double resident = resident_megabytes("VmRSS");
  ProductRun products(pass_products(training.model(), training.sequences_per_shard()),
                      training.shards());
  products.run();
  std::vector<double> step_ms, product_ms, peak;
  for (int i = 0; i < rounds; ++i) {
    step_ms.push_back(milliseconds([&] { training.step(); }));
    product_ms.push_back(milliseconds([&] { products.run(); }));
    peak.push_back(multiply_add_gflops(threads()));
  }
  // Percent of the peak that so many milliseconds for all products are.
  const auto share = [&](double ms) { return 100 * 2e-6 * products.macs() / ms / median(peak); };
  std::printf("%-12s %8.2f %8.2f %8.2f %8.1f %7.1f %9.1f %8.0f\n", kind.c_str(), median(step_ms),
              *std::ranges::min_element(step_ms), median(product_ms), median(peak),
              share(median(step_ms)), share(median(product_ms)), resident);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const char* size = argc > 1 ? argv[1] : "nanogpt-cpu";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  const int thread_count = argc > 3 ? std::atoi(argv[3]) : 0;
  std::printf("%s, %s threads, medians of %d rounds in turn\n", size,
              thread_count > 0 ? argv[3] : "all", rounds);
  std::printf("%-12s %8s %8s %8s %8s %7s %9s %8s\n", "attention", "step ms", "least", "products",
              "peak", "step %", "products%", "MB");
  for (const AttentionKind* kind : attention_kinds()) {
    // Each in a process of its own, for the sake of its memory.
    in_child([&] {
      set_threads(thread_count);
      measure(size, std::string(kind->name), rounds);
    });
  }
}
