// A training step of a preset beside its own matrix products alone, for each attention, measured in
// turn. Usage: step [PRESET] [ROUNDS] [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "autograd/parallel.h"
#include "bench/step_products.h"
#include "train/trainer.h"

namespace headcount {
namespace {

double milliseconds(const auto& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// "VmHWM", "VmRSS": resident memory in MB, at most so far or now.
double resident_megabytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::atof(line.c_str() + field.size() + 1) / 1024;
  }
  return 0;
}

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
  set_threads(argc > 3 ? std::atoi(argv[3]) : 0);
  std::printf("%s, %d threads, medians of %d rounds in turn\n", preset_name, threads(), rounds);
  std::printf("%-12s %8s %8s %8s %8s %9s %8s\n", "attention", "step ms", "least", "products",
              "ratio", "GFLOP/s", "MB");
  for (const AttentionKind* kind : attention_kinds())
    measure(preset_name, std::string(kind->name), rounds);
}
