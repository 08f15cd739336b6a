#include "bench/training_bench.h"

namespace headcount {

namespace {

TrainOptions resolved(TrainOptions options) {
  options.resolve();
  return options;
}

std::vector<std::int32_t> random_tokens() {
  std::vector<std::int32_t> tokens(100'000);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random_below({1, 0, 0}, i, TrainingBench::kVocabulary));
  return tokens;
}

}  // namespace

TrainOptions bench_options(const std::string& size) {
  TrainOptions options;
  const bool toy = size == "toy", large = size == "100m";
  options.settings().read(preset(toy ? "nanogpt-cpu" : large ? "nanogpt-gpu" : size).settings);
  if (large) {
    options.model.layers = 14;
    options.model.attention.heads = 12;
    options.model.dim = 768;
    options.model.context = 1024;
  }
  if (toy) {
    options.model.layers = options.model.attention.heads = 2;
    options.model.dim = options.model.context = 32;
    options.batch = 8;
  }
  return options;
}

TrainingBench::TrainingBench(TrainOptions options, Ranks& ranks)
    : options_(resolved(std::move(options))),
      model_(options_.model, kVocabulary),
      tokens_(random_tokens()),
      trainer_(model_, options_, tokens_, 0, {}, ranks) {
  model_.initialize(1);
  trainer_.step();
  trainer_.step();
}

}  // namespace headcount
