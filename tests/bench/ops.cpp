// Single ops, forward and backward, in the shapes of nanogpt-cpu, with Google Benchmark.
#include "autograd/ops.h"

#include <benchmark/benchmark.h>

#include <functional>
#include <numeric>
#include <string>

namespace headcount {
namespace {

constexpr Index kBatch = 12, kLength = 64, kDim = 128, kHeads = 4, kFfn = 512, kVocabulary = 65;

// Two random tensors that ops are applied to; their gradients are wanted too.
struct Inputs {
  explicit Inputs(const Shape& x_shape, const Shape& w_shape) {
    x = store.add("x", x_shape, Initializer::normal(1));
    w = store.add("w", w_shape, Initializer::normal(1));
    store.allocate();
    store.initialize(1);
  }
  ParameterStore store;
  ParameterId x, w;
};

using Function = std::function<Var(Tape& tape, Var x, Var w)>;

void run(benchmark::State& state, const Shape& x_shape, const Shape& w_shape,
         const Function& function, Precision precision) {
  Inputs inputs(x_shape, w_shape);
  inputs.store.set_precision(precision);
  Tape tape(&inputs.store);
  tape.set_training(true);
  for (auto _ : state) {
    tape.reset();
    inputs.store.clear_gradients();
    const Var y = function(tape, tape.parameter(inputs.x), tape.parameter(inputs.w));
    tape.backward(y);
    benchmark::DoNotOptimize(y);
  }
  state.SetItemsProcessed(state.iterations() * x_shape.size());
}

void add_benchmark(const std::string& name, const Shape& x_shape, const Shape& w_shape,
                   const Function& function, Precision precision = Precision::f32) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run(state, x_shape, w_shape, function, precision);
  })->UseRealTime();
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const Shape tokens = {kBatch, kLength, kDim}, hidden = {kBatch, kLength, kFfn};
  const Shape heads = {kBatch, kLength, kHeads, kDim / kHeads}, one = {1};
  std::vector<std::int32_t> ids(kBatch * kLength);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % kVocabulary);

  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const std::string suffix = precision == Precision::bf16 ? "/bf16" : "";
    const auto product = [](Tape&, Var x, Var w) { return linear(x, w); };
    add_benchmark("linear_128_128" + suffix, tokens, {kDim, kDim}, product, precision);
    add_benchmark("linear_128_512" + suffix, tokens, {kFfn, kDim}, product, precision);
    add_benchmark("linear_512_128" + suffix, hidden, {kDim, kFfn}, product, precision);
  }
  add_benchmark("gelu", hidden, one, [](Tape&, Var x, Var) { return gelu(x); });
  add_benchmark("attention", heads, one, [](Tape&, Var x, Var) {
    AttentionOptions options;
    options.causal = true;
    return attention(x, x, x, options);
  });
  add_benchmark("layer_norm", tokens, {kDim},
                [](Tape&, Var x, Var w) { return layer_norm(x, w, std::nullopt, 1e-5F); });
  add_benchmark("rms_norm", tokens, {kDim},
                [](Tape&, Var x, Var w) { return rms_norm(x, w, 1e-5F); });
  add_benchmark("silu", hidden, one, [](Tape&, Var x, Var) { return silu(x); });
  add_benchmark("silu_gate", hidden, hidden, [](Tape&, Var x, Var w) { return silu_gate(x, w); });
  add_benchmark("sigmoid_gate", tokens, tokens,
                [](Tape&, Var x, Var w) { return sigmoid_gate(x, w); });
  add_benchmark("add", tokens, tokens, [](Tape&, Var x, Var w) { return add(x, w); });
  add_benchmark("dropout", tokens, one, [](Tape&, Var x, Var) { return dropout(x, 0.2F); });
  add_benchmark("softmax", tokens, one, [](Tape&, Var x, Var) { return softmax(x); });
  add_benchmark("embedding", {kVocabulary, kDim}, one, [&](Tape&, Var x, Var) {
    return embedding(x, ids, {kBatch, kLength});
  });
  add_benchmark("cross_entropy", {kBatch * kLength, kVocabulary}, one,
                [&](Tape&, Var x, Var) { return cross_entropy(x, ids); });

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
