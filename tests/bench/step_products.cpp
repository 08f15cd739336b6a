#include "bench/step_products.h"

#include <algorithm>

#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

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

}  // namespace headcount
