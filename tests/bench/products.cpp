// The matrix products of a training step with MHA, each size alone, by each library, and of
// operands in bfloat16, in turn.
// Usage: products [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/step_products.h"
#include "bench/training_bench.h"
#include "train/statistics.h"

namespace headcount {
namespace {

struct Way {
  const char* name;
  GemmLibrary library;
  Precision precision = Precision::f32;
};

std::vector<Way> ways() {
  std::vector<Way> all = {{"Eigen", GemmLibrary::eigen}};
  try {
    use_gemm_library(GemmLibrary::onednn);
    all.push_back({"oneDNN", GemmLibrary::onednn});
  } catch (const Error&) {
    std::printf(
        "oneDNN left out: install libdnnl-dev and configure with -DHEADCOUNT_GEMM=onednn\n");
  }
  if (const std::string lacks = bf16_lacks(); lacks.empty()) {
    all.push_back({"bf16", GemmLibrary::onednn, Precision::bf16});
  } else {
    std::printf("bf16 left out: %s\n", lacks.c_str());
  }
  return all;
}

void measure(const std::vector<Product>& products, Index shards, const std::string& label,
             const std::vector<Way>& all, int rounds) {
  std::vector<ProductRun> runs;
  for (const Way& way : all) runs.emplace_back(products, shards, way.precision);
  std::vector<std::vector<double>> times(all.size());
  for (int round = -1; round < rounds; ++round) {  // the first touches all memory
    for (std::size_t i = 0; i < all.size(); ++i) {
      use_gemm_library(all[i].library);
      const double ms = milliseconds([&] { runs[i].run(); });
      if (round >= 0) times[i].push_back(ms);
    }
  }
  std::printf("%-34s", label.c_str());
  for (std::size_t i = 0; i < all.size(); ++i)
    std::printf(" %11.3f %8.1f", median(times[i]), 2e-6 * runs[i].macs() / median(times[i]));
  std::printf("\n");
}

// "768 x 128 x 512, a^T, 4 of them"
std::string label(const Product& p, std::size_t times) {
  return formatted("%td x %td x %td%s%s, %td", p.rows, p.cols, p.k, p.a_transposed ? ", a^T" : "",
                   p.b_transposed ? ", b^T" : "", p.count * static_cast<Index>(times));
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const char* size = argc > 1 ? argv[1] : "nanogpt-cpu";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  set_threads(argc > 3 ? std::atoi(argv[3]) : 0);
  const std::vector<Way> all_ways = ways();
  const TrainOptions options = bench_options(size);
  const TrainingBench training(options);
  std::vector<Product> rest = pass_products(training.model(), training.sequences_per_shard());
  const std::vector<Product> all = rest;
  std::printf("%s, %d threads, medians of %d rounds in turn\n", size, threads(), rounds);
  std::printf("the products of each of %td shards, their times of all shards\n", training.shards());
  std::printf("%-34s", "rows x cols x k, how many");
  for (const Way& way : all_ways)
    std::printf(" %11s GFLOP/s ", (std::string(way.name) + " ms").c_str());
  std::printf("\n");
  while (!rest.empty()) {
    const Product first = rest.front();
    std::vector<Product> equal;
    std::erase_if(rest, [&](const Product& p) {
      if (p != first) return false;
      equal.push_back(p);
      return true;
    });
    measure(equal, training.shards(), label(first, equal.size()), all_ways, rounds);
  }
  measure(all, training.shards(), "the whole step", all_ways, rounds);
}
