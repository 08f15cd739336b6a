#include "bench/training_bench.h"

namespace headcount {

namespace {

std::vector<std::int32_t> random_tokens() {
  std::vector<std::int32_t> tokens(100'000);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random_below({1, 0, 0}, i, TrainingBench::kVocabulary));
  return tokens;
}

}  // namespace

TrainOptions bench_options(const std::string& size, const nlohmann::json& more) {
  const bool toy = size == "toy";
  Given given(training_settings(), preset(toy ? "nanogpt-cpu" : size).settings);
  if (toy) given.put({{"layers", 2}, {"heads", 2}, {"dim", 32}, {"context", 32}, {"batch", 8}});
  if (!more.is_null()) given.put(more);
  return resolve_training(given);
}

TrainingBench::TrainingBench(const TrainOptions& options)
    : options_(options),
      model_(options_.model, kVocabulary),
      tokens_(random_tokens()),
      trainer_(model_, options_, tokens_) {
  model_.initialize(1);
  trainer_.step();
  trainer_.step();
}

}  // namespace headcount
