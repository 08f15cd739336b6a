// A training step beside its own matrix products alone, for each attention, both and an evaluation
// as a share of the multiply-adds that the processor can do, and the step with precision bf16 as a
// share of the step's time, all measured in turn.
// Usage: step [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS] [ATTENTION] [SETTING=VALUE ...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "autograd/parallel.h"
#include "autograd/products.h"
#include "bench/measure.h"
#include "bench/step_products.h"
#include "bench/training_bench.h"
#include "train/evaluation.h"
#include "train/statistics.h"

namespace headcount {
namespace {

void measure(const char* size, nlohmann::json settings, int rounds) {
  const std::string kind = settings.at("attention");
  const double before = resident_megabytes("VmRSS");
  TrainingBench training(bench_options(size, settings));
  const double resident = resident_megabytes("VmRSS");
  settings["precision"] = "bf16";
  TrainingBench rounded(bench_options(size, settings));
  const double rounded_resident = resident_megabytes("VmRSS") - resident + before;
  ProductRun products(pass_products(training.model(), training.sequences_per_shard()),
                      training.shards());
  products.run();
  // Long enough that all threads have equal shares. What is counted leaves out tiles that nobody
  // sees.
  const auto text = training.tokens().first(16385);
  const auto evaluate_text = [&] { evaluate(training.model(), text, {}); };
  const double evaluation_macs = [&] {
    const MacCounter counter;
    evaluate_text();
    return static_cast<double>(counter.count());
  }();
  std::vector<double> step_ms, rounded_share, product_ms, evaluation_ms, peak;
  for (int i = 0; i < rounds; ++i) {
    step_ms.push_back(milliseconds([&] { training.step(); }));
    rounded_share.push_back(milliseconds([&] { rounded.step(); }) / step_ms.back());
    product_ms.push_back(milliseconds([&] { products.run(); }));
    evaluation_ms.push_back(milliseconds(evaluate_text));
    peak.push_back(multiply_add_gflops(threads()));
  }
  // Percent of the peak that so many multiply-adds in so many milliseconds are.
  const auto share = [&](double macs, const std::vector<double>& ms) {
    return 100 * 2e-6 * macs / median(ms) / median(peak);
  };
  std::printf("%-12s %8.2f %8.2f %7.2f %8.2f %8.1f %7.1f %9.1f %7.1f %8.0f %8.0f\n", kind.c_str(),
              median(step_ms), *std::ranges::min_element(step_ms), median(rounded_share),
              median(product_ms), median(peak), share(products.macs(), step_ms),
              share(products.macs(), product_ms), share(evaluation_macs, evaluation_ms), resident,
              rounded_resident);
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
  std::printf("%-12s %8s %8s %7s %8s %8s %7s %9s %7s %8s %8s\n", "attention", "step ms", "least",
              "bf16 /", "products", "peak", "step %", "products%", "eval %", "MB", "bf16 MB");
  for (const AttentionKind* kind : attention_kinds()) {
    if (argc > 4 && kind->name != argv[4]) continue;
    // Each in a process of its own, for the sake of its memory.
    in_child([&] {
      set_threads(thread_count);
      nlohmann::json settings = {{"attention", kind->name}};
      for (int i = 5; i < argc; ++i) {
        const std::string setting = argv[i];
        const std::size_t equals = setting.find('=');
        settings[setting.substr(0, equals)] = setting.substr(equals + 1);
      }
      measure(size, settings, rounds);
    });
  }
}
