// Tokens per second and cache bytes of decoding against the context, for each attention at one
// model size: 8 heads of 64, batch 1. The bound is the time that reading the weights and the cache
// once takes at the bandwidth measured in the same run, on a buffer as large.
// Usage: decode [LONGEST_CONTEXT] [THREADS]
#include <cstdio>
#include <cstdlib>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "train/compare/decode_speed.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 65, kDim = 512, kHeads = 8, kLayers = 4, kFfn = 1376;
constexpr int kRounds = 15;

struct Variant {
  const char* name;
  const char* kind;
  const char* form;
};
constexpr Variant kVariants[] = {{"mha", "mha", ""},
                                 {"gqa", "gqa", ""},
                                 {"mqa", "mqa", ""},
                                 {"mla expanded", "mla", "expanded"},
                                 {"mla absorbed", "mla", "absorbed"},
                                 {"latent-bias", "latent-bias", ""}};

ModelConfig config_of(const std::string& kind) {
  ModelConfig config;
  config.layers = kLayers;
  config.dim = kDim;
  config.ffn_dim = kFfn;
  config.attention.kind = kind;
  config.attention.heads = kHeads;
  config.resolve();
  return config;
}

// The feed-forward width that gives every attention MHA's number of parameters.
ModelConfig equal_size_config(const std::string& kind) {
  const auto attention_parameters = [&](const std::string& name) {
    return attention_costs(config_of(name).attention).front().parameters.value();
  };
  ModelConfig config = config_of(kind);
  config.ffn_dim = kFfn + (attention_parameters("mha") - attention_parameters(kind)) / (3 * kDim);
  return config;
}

void measure(const Variant& variant, Index context) {
  std::vector<DecodeTimer> timers;
  timers.emplace_back(equal_size_config(variant.kind), kVocabulary, context, variant.form);
  const DecodeTimer& timer = timers.front();
  const double rate = 1e3 / median_milliseconds(timers, kRounds).front();
  const Index parameters = timer.model().parameters().element_count();
  // A token reads one row of the embedding, and every other weight.
  const double weights = 4.0 * static_cast<double>(parameters - kVocabulary * kDim);
  const double bytes = weights + static_cast<double>(timer.cache_bytes());
  const double bound = read_bandwidth(bytes) / bytes;
  std::printf("%-14s %8td %10.2f %10.1f %10.0f %10.0f %7.0f%%\n", variant.name, context,
              static_cast<double>(parameters) / 1e6, static_cast<double>(timer.cache_bytes()) / 1e6,
              rate, bound, 100 * rate / bound);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const Index longest = argc > 1 ? std::atol(argv[1]) : 32768;
  set_threads(argc > 2 ? std::atoi(argv[2]) : 0);
  std::printf("%td layers, %td heads of %td, batch 1, %d threads, float32, medians of %d tokens\n",
              kLayers, kHeads, kDim / kHeads, threads(), kRounds);
  std::printf("%-14s %8s %10s %10s %10s %10s %8s\n", "attention", "context", "M params", "cache MB",
              "tokens/s", "bound", "reached");
  for (Index context = 128; context <= longest; context *= 2) {
    for (const Variant& variant : kVariants) measure(variant, context);
  }
}
