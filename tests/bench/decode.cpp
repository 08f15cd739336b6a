// Tokens per second of decoding against the context, for each attention at one model size, 8 heads
// of 64, or for the model of a run, with each type of cache, in turn: the cache's size, the speed,
// and the speed as a share of its bound. The bound is the time that reading the weights and the
// cache once takes at the bandwidth measured in the same run, on a buffer as large.
// Usage: decode [--from RUN] [SHORTEST_CONTEXT] [LONGEST_CONTEXT] [SEQUENCES] [THREADS]
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "autograd/parallel.h"
#include "bench/decode_timer.h"
#include "bench/measure.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run/loaded.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 65, kDim = 512, kHeads = 8, kLayers = 4, kFfn = 1376;
constexpr int kRounds = 5;

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
                                 {"latent-bias", "latent-bias", ""},
                                 {"fox", "fox", ""},
                                 {"v4", "v4", ""},
                                 {"v4@128", "v4@128", ""},
                                 {"hca@128", "hca@128", ""},
                                 {"csa@128", "csa@128", ""},
                                 {"dsa, 512 picked", "dsa:index-topk=512", "absorbed"}};

ModelPlan plan_of(const std::string& kind) {
  return resolve_model(Given(model_settings(), {{"layers", kLayers},
                                                {"dim", kDim},
                                                {"ffn-dim", kFfn},
                                                {"attention", kind},
                                                {"heads", kHeads}}));
}

// The feed-forward width that gives every attention MHA's number of parameters.
ModelPlan equal_size_plan(const std::string& kind) {
  const auto attention_parameters = [&](const std::string& name) {
    return attention_costs(plan_of(name)->cycle.front(), 1).front().parameters.value();
  };
  const Index width =
      kFfn + (attention_parameters("mha") - attention_parameters(kind)) / (3 * kDim);
  return with_settings(plan_of(kind), {{"ffn-dim", width}});
}

struct Type {
  const char* name;
  CacheType type;
};
constexpr Type kTypes[] = {{"f32", CacheType::real},  {"f16", CacheType::f16},
                           {"fp8", CacheType::fp8},   {"int8", CacheType::int8},
                           {"int4", CacheType::int4}, {"int3", CacheType::int3},
                           {"int2", CacheType::int2}};

void measure(const char* name, const ModelPlan& plan, const FormOfKind& forms, Index context,
             Index sequences) {
  std::vector<DecodeTimer> timers;
  for (const Type& type : kTypes) {
    timers.emplace_back(plan, kVocabulary, context, DecodeOptions{sequences, type.type, forms});
  }
  const std::vector<double> times = median_milliseconds(timers, kRounds);
  const Index parameters = timers.front().model().parameters().element_count();
  // A step reads one row of the embedding for each sequence, and every other weight once.
  const auto weights = static_cast<double>(parameters - kVocabulary * plan->dim);
  std::printf("%-13s %7td %7.2f", name, context, static_cast<double>(parameters) / 1e6);
  for (std::size_t i = 0; i < timers.size(); ++i) {
    const auto cache = static_cast<double>(timers[i].cache_bytes());
    const double bytes = cache + weights * 4;
    const double bound = read_bandwidth(bytes) / bytes;  // steps a second
    std::printf(" %7.1f %7.0f %4.0f%%", cache / 1e6,
                1e3 * static_cast<double>(sequences) / times[i], 100 * 1e3 / times[i] / bound);
  }
  std::printf("\n");
}

void measure(const Variant& variant, Index context, Index sequences) {
  const ModelPlan plan = equal_size_plan(variant.kind);
  FormOfKind forms;
  if (*variant.form != '\0') forms.emplace(plan->cycle.front().kind().name, variant.form);
  measure(variant.name, plan, forms, context, sequences);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  std::optional<ModelPlan> trained;
  if (argc > 2 && std::string_view(argv[1]) == "--from") {
    trained = load_config(require_checkpoint(argv[2])).model;
    argv += 2;
    argc -= 2;
  }
  const Index shortest = argc > 1 ? std::atol(argv[1]) : 128;
  const Index longest = argc > 2 ? std::atol(argv[2]) : 32768;
  const Index sequences = argc > 3 ? std::atol(argv[3]) : 1;
  set_threads(argc > 4 ? std::atoi(argv[4]) : 0);
  const ModelPlan shape = trained.value_or(plan_of("mha"));
  std::printf("%td layers, dim %td, %td sequences, %d threads, medians of %d rounds\n",
              shape->layers, shape->dim, sequences, threads(), kRounds);
  std::printf("%-13s %7s %7s", "attention", "context", "M par.");
  for (const Type& type : kTypes) std::printf(" %4s MB %7s %5s", type.name, "tok/s", "bound");
  std::printf("\n");
  for (Index context = shortest; context <= longest; context *= 2) {
    if (trained) {
      measure(shape->attention.c_str(), shape, {}, context, sequences);
      continue;
    }
    for (const Variant& variant : kVariants) measure(variant, context, sequences);
  }
}
