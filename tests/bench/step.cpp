// A training step beside its own matrix products alone, for each attention, both and an evaluation
// as a share of the multiply-adds that the processor can do, and the step with precision bf16 as a
// share of the step's time, all measured in turn.
// Usage: step [nanogpt-cpu|nanogpt-gpu|toy] [ROUNDS] [THREADS] [ATTENTION] [SETTING=VALUE ...]
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

// c [rows, cols] = a [rows, k] b [k, cols], `count` times on different matrices.
struct Product {
  Index rows, cols, k;
  bool a_transposed, b_transposed;
  Index count;  // 1: one product, cut into chunks; more: side by side, one thread each

  double macs() const {
    return static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

// Matrix products of a forward and backward pass of `model` over `sequences`: three for each matrix
// of a linear layer, seven for each head of each sequence (tiles that nobody sees included).
std::vector<Product> pass_products(const LanguageModel& model, Index sequences) {
  const ModelPlan& plan = model.plan();
  const AttentionPlan& a = plan->cycle.front();
  const ParameterStore& parameters = model.parameters();
  const Index rows = sequences * plan->context;
  std::vector<Product> products;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape& shape = parameters.shape({i});
    const bool looked_up =
        parameters.name({i}).starts_with("model.embed") &&
        !(plan->tie_embeddings && parameters.name({i}).starts_with("model.embed_tokens"));
    if (shape.rank() != 2 || looked_up) continue;
    const Index out = shape[0], in = shape[1];
    products.push_back({rows, out, in, false, true, 1});   // y = x W^T
    products.push_back({rows, in, out, false, false, 1});  // dx = dy W
    products.push_back({out, in, rows, true, false, 1});   // dW = dy^T x
  }
  if (!a.kind().attends) return products;  // a state is no product of matrices
  const bool latent = a.has("nope-dim");
  const Index k_width = latent ? a.whole("nope-dim") + a.whole("rope-dim")
                               : a.head_dim + (a.has("latent-dim") ? a.whole("latent-dim") : 0);
  const Index v_width = latent ? a.whole("v-dim") : a.head_dim;
  const Index t = plan->context, heads = sequences * a.heads * plan->layers;
  products.push_back({t, t, k_width, false, true, heads});   // q k^T
  products.push_back({t, v_width, t, false, false, heads});  // p v
  products.push_back({t, t, k_width, false, true, heads});   // q k^T again, in backward
  products.push_back({t, t, v_width, false, true, heads});   // do v^T
  products.push_back({t, v_width, t, true, false, heads});   // p^T do
  products.push_back({t, k_width, t, false, false, heads});  // ds k
  products.push_back({t, k_width, t, true, false, heads});   // ds^T q
  return products;
}

// Memory for the products of one step, and a way to run them all, as the step would: in as many
// shards, through the same functions, on operands as large.
class ProductRun {
 public:
  ProductRun(std::vector<Product> of_one_shard, Index shards);
  void run();
  double macs() const;

 private:
  struct Operands {
    AlignedMemory a, b, c;
  };
  void run_shard(const Operands& operands) const;

  std::vector<Product> products_;
  Index shards_;
  std::vector<Operands> operands_;  // by thread
};

ProductRun::ProductRun(std::vector<Product> of_one_shard, Index shards)
    : products_(std::move(of_one_shard)),
      shards_(shards),
      operands_(static_cast<std::size_t>(shards == 1 ? 1 : threads())) {
  Index a = 0, b = 0, c = 0;
  for (const Product& p : products_) {
    a = std::max(a, p.count * p.rows * p.k);
    b = std::max(b, p.count * p.k * p.cols);
    c = std::max(c, p.count * p.rows * p.cols);
  }
  const auto ones = [](Index count) {
    AlignedMemory memory = allocate_aligned(static_cast<std::size_t>(count) * sizeof(Real));
    std::fill_n(reinterpret_cast<Real*>(memory.get()), count, Real{1});
    return memory;
  };
  for (Operands& o : operands_) o = {ones(a), ones(b), ones(c)};
}

double ProductRun::macs() const {
  double sum = 0;
  for (const Product& p : products_) sum += p.macs();
  return sum * static_cast<double>(shards_);
}

void ProductRun::run() {
  parallel_tasks(shards_, threads(), [&](Index, int thread) {
    run_shard(operands_[static_cast<std::size_t>(thread)]);
  });
}

void ProductRun::run_shard(const Operands& operands) const {
  const auto matrix = [](const AlignedMemory& memory, Index first, Index rows, Index cols) {
    return ConstMatrix(reinterpret_cast<const Real*>(memory.get()) + first, rows, cols);
  };
  auto* const c = reinterpret_cast<Real*>(operands.c.get());
  for (const Product& p : products_) {
    const auto left = [&](Index i) {
      const Index first = i * p.rows * p.k;
      return p.a_transposed ? matrix(operands.a, first, p.k, p.rows).transpose()
                            : matrix(operands.a, first, p.rows, p.k);
    };
    const auto right = [&](Index i) {
      const Index first = i * p.k * p.cols;
      return p.b_transposed ? matrix(operands.b, first, p.cols, p.k).transpose()
                            : matrix(operands.b, first, p.k, p.cols);
    };
    const auto result = [&](Index i) { return Matrix(c + i * p.rows * p.cols, p.rows, p.cols); };
    if (p.count == 1) {
      parallel_gemm(result(0), left(0), right(0));
    } else {
      parallel_chunks(p.count, 1, [&](Index i, Index) { gemm(result(i), left(i), right(i)); });
    }
  }
}

void measure(const char* size, nlohmann::json settings, int rounds) {
  const std::string kind = settings.at("attention");
  const double before = resident_megabytes("VmRSS");
  Training training(options_of(size, settings));
  const double resident = resident_megabytes("VmRSS");
  settings["precision"] = "bf16";
  Training rounded(options_of(size, settings));
  const double rounded_resident = resident_megabytes("VmRSS") - resident + before;
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
