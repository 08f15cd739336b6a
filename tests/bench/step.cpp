// A training step of a preset beside its own matrix products alone, for each attention, measured in
// turn. Usage: step [PRESET] [ROUNDS] [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/step_products.h"
#include "train/trainer.h"

namespace headcount {
namespace {

void measure(const char* preset_name, const std::string& kind, int rounds) {
  constexpr Index kVocabulary = 65, kTokens = 100'000;
  TrainOptions options;
  options.settings().read(preset(preset_name).settings);
  options.model.attention.kind = kind;
  options.resolve();
  LanguageModel model(options.model, kVocabulary);
  model.initialize(1);
  std::vector<std::int32_t> tokens(kTokens);
  for (Index i = 0; i < kTokens; ++i) {
    tokens[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(
        random_below({1, 0, 0}, static_cast<std::uint64_t>(i), kVocabulary));
  }
  Trainer trainer(model, options, tokens);
  trainer.step();
  trainer.step();
  const double resident = resident_megabytes("VmRSS");
  ProductRun products(step_products(model, options.batch));
  products.run();
  std::vector<double> step_ms, product_ms;
  for (int i = 0; i < rounds; ++i) {
    step_ms.push_back(milliseconds([&] { trainer.step(); }));
    product_ms.push_back(milliseconds([&] { products.run(); }));
  }
  double macs = 0;
  for (const Product& p : products.products()) macs += p.macs();
  std::printf("%-12s %8.2f %8.2f %8.2f %8.2f %9.1f %8.0f\n", kind.c_str(), median(step_ms),
              *std::ranges::min_element(step_ms), median(product_ms),
              median(step_ms) / median(product_ms), 2e-6 * macs / median(product_ms), resident);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const char* preset_name = argc > 1 ? argv[1] : "nanogpt-cpu";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  const int thread_count = argc > 3 ? std::atoi(argv[3]) : 0;
  std::printf("%s, %s threads, medians of %d rounds in turn\n", preset_name,
              thread_count > 0 ? argv[3] : "all", rounds);
  std::printf("%-12s %8s %8s %8s %8s %9s %8s\n", "attention", "step ms", "least", "products",
              "ratio", "GFLOP/s", "MB");
  for (const AttentionKind* kind : attention_kinds()) {
    // Each in a process of its own, for the sake of its memory.
    in_child([&] {
      set_threads(thread_count);
      measure(preset_name, std::string(kind->name), rounds);
    });
  }
}
