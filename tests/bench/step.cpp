// A training step beside its own matrix products alone, in turn, and both as a share of the
// multiply-adds that the processor can do.
// Usage: step [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS] [attention=NAME SETTING=VALUE ...]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/arena.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/products.h"
#include "autograd/random.h"
#include "bench/measure.h"
#include "models/language_model.h"
#include "train/show/statistics.h"
#include "train/trainer.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 65;

// Settings of "nanogpt-cpu", "nanogpt-gpu" or "toy": 2 layers, 2 heads, 32 wide, context 32, batch
// 8; and `more`.
TrainOptions options_of(const std::string& size, const nlohmann::json& more) {
  const bool toy = size == "toy";
  Given given(training_settings(), preset(toy ? "nanogpt-cpu" : size).settings);
  if (toy) given.put({{"layers", 2}, {"heads", 2}, {"dim", 32}, {"context", 32}, {"batch", 8}});
  given.put(more);
  return resolve_training(given);
}

// Matrix number i of an operand that holds some, each [rows, cols].
ConstMatrix matrix(const Real* operand, Index i, Index rows, Index cols, bool transposed) {
  const Real* const first = operand + i * rows * cols;
  return transposed ? ConstMatrix(first, cols, rows).transpose() : ConstMatrix(first, rows, cols);
}

// c [rows, cols] = a [rows, k] b [k, cols], `count` times on different matrices.
struct Product {
  Index rows, cols, k;
  bool a_transposed, b_transposed;
  Index count;  // 1: one product, cut into chunks; more: side by side, one thread each

  Index largest() const { return count * std::max({rows * cols, rows * k, k * cols}); }
  void run(const Real* a, const Real* b, Real* c) const {
    const auto compute = [&](const auto& multiply, Index i) {
      multiply(Matrix(c + i * rows * cols, rows, cols), matrix(a, i, rows, k, a_transposed),
               matrix(b, i, k, cols, b_transposed), Write::assign, Precision::f32);
    };
    if (count == 1) return compute(parallel_gemm, 0);
    parallel_for(count, 1, [&](Index i) { compute(gemm, i); });
  }
};

// Matrix products of a forward and backward pass of `model` over `sequences`: three for each matrix
// of a linear layer, seven for each head of each sequence (tiles that nobody sees included), since
// the backward pass computes scores again.
std::vector<Product> pass_products(const LanguageModel& model, Index sequences) {
  const ModelPlan& plan = model.plan();
  const AttentionPlan& a = plan->cycle.front();
  const ParameterStore& parameters = model.parameters();
  std::vector<Product> products;
  const auto add = [&](Index rows, Index out, Index in, Index count) {
    products.push_back({rows, out, in, false, true, count});   // y = x W^T, scores = q k^T
    products.push_back({rows, in, out, false, false, count});  // dx = dy W
    products.push_back({out, in, rows, true, false, count});   // dW = dy^T x
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape& shape = parameters.shape({i});
    const bool looked_up =
        parameters.name({i}).starts_with("model.embed") &&
        !(plan->tie_embeddings && parameters.name({i}).starts_with("model.embed_tokens"));
    if (shape.rank() == 2 && !looked_up) add(sequences * plan->context, shape[0], shape[1], 1);
  }
  if (!a.kind().attends) return products;  // a state is no product of matrices
  const auto size = [&](const char* name, Index other) { return a.values().value(name, other); };
  const bool latent = a.values().contains("nope-dim");
  const Index k_width =
      latent ? size("nope-dim", 0) + size("rope-dim", 0) : a.head_dim + size("latent-dim", 0);
  const Index v_width = latent ? size("v-dim", 0) : a.head_dim;
  const Index t = plan->context, heads = sequences * a.heads * plan->layers;
  products.push_back({t, t, k_width, false, true, heads});
  add(t, t, k_width, heads);
  add(t, t, v_width, heads);
  return products;
}

void measure(const TrainOptions& options, int rounds) {
  std::vector<std::int32_t> tokens(100'000);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random_below({1, 0, 0}, i, kVocabulary));
  LanguageModel model(options.model, kVocabulary);
  model.initialize(1);
  Trainer trainer(model, options, tokens);
  for (int i = 0; i < 2; ++i) trainer.step();  // then it takes no more memory
  const double resident = resident_megabytes();

  // The products of a step as it runs them: in as many shards, on operands as large, three for each
  // thread.
  const Index shards = shard_count(options);
  const std::vector<Product> products = pass_products(model, options.batch / shards);
  Index largest = 0;
  for (const Product& p : products) largest = std::max(largest, p.largest());
  largest = (largest + kAlignment - 1) / kAlignment * kAlignment;
  const auto numbers = static_cast<std::size_t>(3 * largest);
  std::vector<AlignedMemory> operands;
  for (int thread = 0; thread < (shards == 1 ? 1 : threads()); ++thread) {
    operands.push_back(allocate_aligned(numbers * sizeof(Real)));
    std::fill_n(reinterpret_cast<Real*>(operands.back().get()), numbers, Real{1});
  }
  const auto run_products = [&] {
    parallel_tasks(shards, threads(), [&](Index, int thread) {
      auto* const a = reinterpret_cast<Real*>(operands[static_cast<std::size_t>(thread)].get());
      for (const Product& p : products) p.run(a, a + largest, a + 2 * largest);
    });
  };
  const double flops = [&] {
    const MacCounter macs;
    run_products();
    return 2 * static_cast<double>(macs.count());
  }();

  std::vector<double> step_ms, product_ms, peak;
  for (int i = 0; i < rounds; ++i) {
    step_ms.push_back(milliseconds([&] { trainer.step(); }));
    product_ms.push_back(milliseconds(run_products));
    peak.push_back(multiply_add_gflops(threads()));
  }
  const double at_peak = 1e-6 * flops / median(peak);  // milliseconds
  std::printf(
      "step %.2f ms, %.1f %% of the peak of %.1f GFLOP/s; its products alone %.1f %%; "
      "%.0f MB resident\n",
      median(step_ms), 100 * at_peak / median(step_ms), median(peak),
      100 * at_peak / median(product_ms), resident);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const char* size = argc > 1 ? argv[1] : "nanogpt-cpu";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
  set_threads(argc > 3 ? std::atoi(argv[3]) : 0);
  nlohmann::json settings = nlohmann::json::object();
  for (int i = 4; i < argc; ++i) {
    const std::string setting = argv[i];
    const std::size_t equals = setting.find('=');
    settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  const TrainOptions options = options_of(size, settings);
  std::printf("%s, %s, %d threads, medians of %d rounds in turn\n", size,
              options.model->attention.c_str(), threads(), rounds);
  measure(options, rounds);
}
