#include "autograd/products/product_kernels.h"

#ifdef HEADCOUNT_ONEDNN

#include <omp.h>

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

// Scope guard: keeps oneDNN from starting threads of its own for a product outside of a parallel
// loop.
class OneThreadOfOpenMP {
 public:
  OneThreadOfOpenMP() : before_(omp_get_max_threads()) { set(1); }
  ~OneThreadOfOpenMP() { set(before_); }
  OneThreadOfOpenMP(const OneThreadOfOpenMP&) = delete;
  OneThreadOfOpenMP& operator=(const OneThreadOfOpenMP&) = delete;

 private:
  void set(int threads) const {
    if (before_ != 1) omp_set_num_threads(threads);
  }
  int before_;
};

[[noreturn]] void fail(const Matrix& c, Index k, int status) {
  throw Error("oneDNN could not multiply [{}, {}] by [{}, {}]: status {}", c.rows, k, k, c.cols,
              status);
}

// What the generated code of a product depends on.
using Sizes = std::tuple<Index, Index, Index, Index, Index, Index, bool, bool>;

const dnnl::engine& engine() {
  static const dnnl::engine only(dnnl::engine::kind::cpu, 0);
  return only;
}

// A product of bfloat16 operands of given sizes, ready to be added.
class Matmul {
 public:
  explicit Matmul(const Sizes& sizes) {
    using Type = dnnl::memory::data_type;
    const auto [m, n, k, c_stride, a_stride, b_stride, a_transposed, b_transposed] = sizes;
    const auto matrix = [](Index rows, Index cols, Type type, Index row_step, Index col_step) {
      return dnnl::memory::desc({rows, cols}, type, {row_step, col_step});
    };
    const auto operand = [&](Index rows, Index cols, Index stride, bool transposed) {
      return matrix(rows, cols, Type::bf16, transposed ? 1 : stride, transposed ? stride : 1);
    };
    const std::array descriptions = {operand(m, k, a_stride, a_transposed),
                                     operand(k, n, b_stride, b_transposed),
                                     matrix(m, n, Type::f32, c_stride, 1)};
    dnnl::post_ops sum;
    sum.append_sum();
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(sum);
    const auto& [a, b, c] = descriptions;
    product_ = dnnl::matmul({{a, b, c}, attributes, engine()});
    for (std::size_t i = 0; i < descriptions.size(); ++i)
      arguments_.emplace(kArguments[i], dnnl::memory(descriptions[i], engine(), nullptr));
    stream_ = dnnl::stream(engine());
  }

  // The interface of oneDNN has no const; the operands are only read.
  void run(Real* c, const Eigen::bfloat16* a, const Eigen::bfloat16* b) {
    const std::array<void*, 3> data = {const_cast<Eigen::bfloat16*>(a),
                                       const_cast<Eigen::bfloat16*>(b), c};
    for (std::size_t i = 0; i < data.size(); ++i)
      arguments_.at(kArguments[i]).set_data_handle(data[i]);
    product_.execute(stream_, arguments_);
  }

 private:
  static constexpr std::array kArguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::stream stream_;
};

}  // namespace

void onednn_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  const OneThreadOfOpenMP one;
  const auto order = [](const ConstMatrix& m) { return m.transposed ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(order(a), order(b), c.rows, c.cols, a.cols, 1, a.data, a.stride, b.data, b.stride,
                 write == Write::add ? 1 : 0, c.data, c.stride);
  if (status != dnnl_success) fail(c, a.cols, status);
}

void onednn_add(Matrix c, const RoundedMatrix& a, const RoundedMatrix& b) {
  // Creating a product takes 0.2 ms, most of it to generate code, so products are kept. A training
  // step has some dozens of sizes; evaluating texts of any length may have more than are kept.
  constexpr std::size_t kMostKept = 512;
  const OneThreadOfOpenMP one;
  // Each thread has its own: a product has scratch memory that two threads must not share.
  thread_local std::map<Sizes, Matmul> products;
  const Index k = a.transposed ? a.rows : a.cols;
  const Sizes sizes = {c.rows, c.cols, k, c.stride, a.stride, b.stride, a.transposed, b.transposed};
  if (products.size() == kMostKept && !products.contains(sizes)) products.clear();
  try {
    products.try_emplace(sizes, sizes).first->second.run(c.data, a.data, b.data);
  } catch (const dnnl::error& e) {
    fail(c, k, e.status);
  }
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return formatted("%d.%d.%d", version->major, version->minor, version->patch);
}

bool has_bf16_instructions() {
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

}  // namespace headcount

#endif
