#include "autograd/products_bf16.h"

#include <array>
#include <bit>
#include <memory>
#include <string>
#include <unordered_map>

#ifdef HEADCOUNT_DOUBLE
#undef HEADCOUNT_ONEDNN  // oneDNN multiplies in float only
#endif
#ifdef HEADCOUNT_ONEDNN
#include "autograd/onednn.h"
#endif

namespace headcount {

#ifdef HEADCOUNT_ONEDNN

std::string bf16_lacks() {
  static const bool has_instructions =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
      dnnl_cpu_isa_avx512_core_bf16;
  if (!has_instructions) return "the processor has neither amx_bf16 nor avx512_bf16";
  if (gemm_library() != GemmLibrary::onednn) return "Eigen computes the products";
  return "";
}

namespace {

// Objects of oneDNN, each with the function that destroys it.
template <class Object, dnnl_status_t (*kDestroy)(Object*)>
struct Destroy {
  void operator()(Object* object) const { kDestroy(object); }
};
template <class Object, dnnl_status_t (*kDestroy)(Object*)>
using Owned = std::unique_ptr<Object, Destroy<Object, kDestroy>>;
using Engine = Owned<dnnl_engine, dnnl_engine_destroy>;
using Stream = Owned<dnnl_stream, dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr, dnnl_primitive_attr_destroy>;
using PostOps = Owned<dnnl_post_ops, dnnl_post_ops_destroy>;
using Description = Owned<dnnl_primitive_desc, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive, dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory, dnnl_memory_destroy>;

// Sizes and strides on which the generated code of a product depends.
struct Sizes {
  Index rows, cols, k, a_stride, b_stride, c_stride;
  bool a_transposed, b_transposed;
  Write write;

  bool operator==(const Sizes&) const = default;
};

struct SizesHash {
  std::size_t operator()(const Sizes& s) const {
    const Index kind =
        (s.a_transposed ? 1 : 0) + (s.b_transposed ? 2 : 0) + (s.write == Write::add ? 4 : 0);
    std::size_t hash = 0;
    for (const Index x : {s.rows, s.cols, s.k, s.a_stride, s.b_stride, s.c_stride, kind})
      hash = (std::rotl(hash, 9) ^ static_cast<std::size_t>(x)) * 0x9e3779b97f4a7c15U;
    return hash;
  }
};

// The object that `make`, a call of oneDNN for a product of these sizes, creates.
template <class Handle, class Make>
Handle created(const Sizes& sizes, const Make& make) {
  typename Handle::pointer object = nullptr;
  check_onednn(make(&object), sizes.rows, sizes.cols, sizes.k);
  return Handle(object);
}

dnnl_engine_t engine() {
  static const auto only = created<Engine>(
      Sizes{}, [](dnnl_engine_t* to) { return dnnl_engine_create(to, dnnl_cpu, 0); });
  return only.get();
}

// A product of given sizes, ready to run.
class Matmul {
 public:
  explicit Matmul(const Sizes& sizes) : sizes_(sizes) {
    const auto a = matrix(sizes.rows, sizes.k, sizes.a_stride, sizes.a_transposed, dnnl_bf16);
    const auto b = matrix(sizes.k, sizes.cols, sizes.b_stride, sizes.b_transposed, dnnl_bf16);
    const auto c = matrix(sizes.rows, sizes.cols, sizes.c_stride, false, dnnl_f32);
    dnnl_matmul_desc_t operation;
    check(dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c));
    const auto attributes = create<Attributes>(dnnl_primitive_attr_create);
    if (sizes.write == Write::add) {
      const auto sum = create<PostOps>(dnnl_post_ops_create);
      check(dnnl_post_ops_append_sum(sum.get(), 1));
      check(dnnl_primitive_attr_set_post_ops(attributes.get(), sum.get()));
    }
    const auto description = create<Description>([&](dnnl_primitive_desc_t* to) {
      return dnnl_primitive_desc_create(to, &operation, attributes.get(), engine(), nullptr);
    });
    primitive_ = create<Primitive>(
        [&](dnnl_primitive_t* to) { return dnnl_primitive_create(to, description.get()); });
    a_ = memory(a);
    b_ = memory(b);
    c_ = memory(c);
    stream_ = create<Stream>([](dnnl_stream_t* to) {
      return dnnl_stream_create(to, engine(), dnnl_stream_default_flags);
    });
  }

  void run(Real* c, const Bfloat16* a, const Bfloat16* b) const {
    // The interface of oneDNN has no const; the operands are only read.
    check(dnnl_memory_set_data_handle(a_.get(), const_cast<Bfloat16*>(a)));
    check(dnnl_memory_set_data_handle(b_.get(), const_cast<Bfloat16*>(b)));
    check(dnnl_memory_set_data_handle(c_.get(), c));
    const std::array<dnnl_exec_arg_t, 3> arguments = {
        {{DNNL_ARG_SRC, a_.get()}, {DNNL_ARG_WEIGHTS, b_.get()}, {DNNL_ARG_DST, c_.get()}}};
    check(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                 static_cast<int>(arguments.size()), arguments.data()));
  }

 private:
  void check(dnnl_status_t status) const {
    check_onednn(status, sizes_.rows, sizes_.cols, sizes_.k);
  }
  template <class Handle, class Make>
  Handle create(const Make& make) const {
    return created<Handle>(sizes_, make);
  }
  dnnl_memory_desc_t matrix(Index rows, Index cols, Index stride, bool transposed,
                            dnnl_data_type_t type) const {
    const dnnl_dims_t extents = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    dnnl_memory_desc_t result;
    check(dnnl_memory_desc_init_by_strides(&result, 2, extents, type, strides));
    return result;
  }
  Memory memory(const dnnl_memory_desc_t& description) const {
    return create<Memory>([&](dnnl_memory_t* to) {
      return dnnl_memory_create(to, &description, engine(), DNNL_MEMORY_NONE);
    });
  }

  Sizes sizes_;
  Primitive primitive_;
  Memory a_, b_, c_;
  Stream stream_;
};

}  // namespace

void onednn_bf16_gemm(Matrix c, const ConstMatrix& a, const ConstMatrix& b, Write write) {
  // Creating a product takes 0.2 ms, most of it to generate code, so products are kept. A training
  // step has some dozens of sizes; evaluating texts of any length may have more than are kept.
  constexpr std::size_t kMostKept = 512;
  const OneThreadOfOpenMP one;
  // Each thread has its own: a product has scratch memory that two threads must not share.
  thread_local std::unordered_map<Sizes, Matmul, SizesHash> products;
  const Sizes sizes = {c.rows,   c.cols,       a.cols,       a.stride, b.stride,
                       c.stride, a.transposed, b.transposed, write};
  auto found = products.find(sizes);
  if (found == products.end()) {
    if (products.size() == kMostKept) products.clear();
    found = products.try_emplace(sizes, sizes).first;
  }
  found->second.run(c.data, a.rounded, b.rounded);
}

#else

std::string bf16_lacks() {
  return "this program was built without oneDNN; configure it with -DHEADCOUNT_GEMM=onednn";
}

#endif

}  // namespace headcount
