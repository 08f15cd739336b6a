// A training step beside its own matrix products alone, for each attention, both and an evaluation
// as a share of the multiply-adds that the processor can do, and the step with precision bf16 as a
// share of the step's time, all measured in turn.
// Usage: step [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS] [ATTENTION] [SETTING=VALUE ...]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "autograd/arena.h"
#include "autograd/parallel.h"
#include "autograd/products.h"
#include "autograd/random.h"
#include "bench/measure.h"
#include "models/language_model.h"
#include "train/evaluation.h"
#include "train/statistics.h"
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

// A model that trains on 100,000 random characters, after two steps: it takes no more memory.
struct Training {
  TrainOptions options;
  LanguageModel model{options.model, kVocabulary};
  std::vector<std::int32_t> tokens = [] {
    std::vector<std::int32_t> all(100'000);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int32_t>(random_below({1, 0, 0}, i, kVocabulary));
    return all;
  }();
  Trainer trainer{model, options, tokens};

  explicit Training(const TrainOptions& all) : options(all) {
    model.initialize(1);
    trainer.step();
    trainer.step();
  }
};

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

  Index macs() const { return count * rows * cols * k; }
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
  const bool latent = a.has("nope-dim");
  const Index k_width = latent ? a.whole("nope-dim") + a.whole("rope-dim")
                               : a.head_dim + (a.has("latent-dim") ? a.whole("latent-dim") : 0);
  const Index v_width = latent ? a.whole("v-dim") : a.head_dim;
  const Index t = plan->context, heads = sequences * a.heads * plan->layers;
  products.push_back({t, t, k_width, false, true, heads});
  add(t, t, k_width, heads);
  add(t, t, v_width, heads);
  return products;
}

// Memory for the products of one step, and a way to run them all, as the step would: in as many
// shards, through the same functions, on operands as large.
class ProductRun {
 public:
  ProductRun(std::vector<Product> of_one_shard, Index shards)
      : products_(std::move(of_one_shard)), shards_(shards) {
    for (const Product& p : products_) largest_ = std::max(largest_, p.largest());
    largest_ = (largest_ + kAlignment - 1) / kAlignment * kAlignment;
    for (int thread = 0; thread < (shards == 1 ? 1 : threads()); ++thread) {
      const auto numbers = static_cast<std::size_t>(3 * largest_);
      operands_.push_back(allocate_aligned(numbers * sizeof(Real)));
      std::fill_n(reinterpret_cast<Real*>(operands_.back().get()), numbers, Real{1});
    }
  }

  void run() {
    parallel_tasks(shards_, threads(), [&](Index, int thread) {
      auto* const a = reinterpret_cast<Real*>(operands_[static_cast<std::size_t>(thread)].get());
      for (const Product& p : products_) p.run(a, a + largest_, a + 2 * largest_);
    });
  }

  double macs() const {
    double sum = 0;
    for (const Product& p : products_) sum += static_cast<double>(p.macs() * shards_);
    return sum;
  }

 private:
  std::vector<Product> products_;
  Index shards_;
  Index largest_ = 0;
  std::vector<AlignedMemory> operands_;  // three for each thread, of `largest_` numbers
};

void measure(const char* size, nlohmann::json settings, int rounds) {
  const std::string kind = settings.at("attention");
  const double before = resident_megabytes();
  Training training(options_of(size, settings));
  const double resident = resident_megabytes();
  settings["precision"] = "bf16";
  Training rounded(options_of(size, settings));
  const double rounded_resident = resident_megabytes() - resident + before;
  const Index shards = shard_count(training.options);
  ProductRun products(pass_products(training.model, training.options.batch / shards), shards);
  products.run();
  // Long enough that all threads have equal shares. What is counted leaves out tiles that nobody
  // sees.
  const auto text = std::span(training.tokens).first(16385);
  const auto evaluate_text = [&] { evaluate(training.model, text, {}); };
  const double evaluation_macs = [&] {
    const MacCounter counter;
    evaluate_text();
    return static_cast<double>(counter.count());
  }();
  std::vector<double> step_ms, rounded_share, product_ms, evaluation_ms, peak;
  for (int i = 0; i < rounds; ++i) {
    step_ms.push_back(milliseconds([&] { training.trainer.step(); }));
    rounded_share.push_back(milliseconds([&] { rounded.trainer.step(); }) / step_ms.back());
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
  int failed = 0;
  for (const AttentionKind* kind : attention_kinds()) {
    if (argc > 4 && kind->name != argv[4]) continue;
    // Each in a process of its own, for the sake of its memory; no thread has been started yet.
    std::fflush(stdout);
    if (const pid_t child = fork(); child != 0) {
      int status = 0;
      failed |= waitpid(child, &status, 0) != child || status != 0;
      continue;
    }
    set_threads(thread_count);
    nlohmann::json settings = {{"attention", kind->name}};
    for (int i = 5; i < argc; ++i) {
      const std::string setting = argv[i];
      const std::size_t equals = setting.find('=');
      settings[setting.substr(0, equals)] = setting.substr(equals + 1);
    }
    measure(size, settings, rounds);
    return 0;
  }
  return failed;
}
