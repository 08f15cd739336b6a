// Tokens per second of decoding against the context, for each attention at one model size, 8 heads
// of 64, or for the model of a run, with each type of cache, in turn: the cache's size, the speed,
// and the speed as a share of its bound. The bound is the time that reading the weights and the
// cache once takes at the bandwidth measured in the same run, on a buffer as large.
// Usage: decode [--from RUN] [SHORTEST_CONTEXT] [LONGEST_CONTEXT] [SEQUENCES] [THREADS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "models/checkpoint/checkpoint.h"
#include "models/decoder.h"
#include "nn/attention/costs.h"
#include "train/run/loaded.h"
#include "train/show/statistics.h"

namespace headcount {
namespace {

constexpr Index kVocabulary = 65, kDim = 512, kHeads = 8, kLayers = 4, kFfn = 1376;
constexpr int kRounds = 5;

// Attentions, with a form of the cache where a kind has several.
constexpr const char* kVariants[] = {
    "mha", "gqa", "mqa",    "mla expanded", "mla absorbed", "latent-bias",
    "fox", "v4",  "v4@128", "hca@128",      "csa@128",      "dsa:index-topk=512 absorbed"};

struct Variant {
  std::string name;
  ModelPlan plan;
  FormOfKind forms;
};

ModelPlan plan_of(const std::string& attention) {
  return resolve_model(Given(model_settings(), {{"layers", kLayers},
                                                {"dim", kDim},
                                                {"ffn-dim", kFfn},
                                                {"attention", attention},
                                                {"heads", kHeads}}));
}

// The feed-forward width gives every attention MHA's number of parameters.
Variant variant(const std::string& name) {
  const auto parameters = [](const ModelPlan& plan) {
    return attention_costs(plan->cycle.front(), 1).front().parameters.value();
  };
  const std::size_t space = name.find(' ');
  const ModelPlan plan = plan_of(name.substr(0, space));
  const Index more = (parameters(plan_of("mha")) - parameters(plan)) / (3 * kDim);
  FormOfKind forms;
  if (space != name.npos) forms.emplace(plan->cycle.front().kind().name, name.substr(space + 1));
  return {name, with_settings(plan, {{"ffn-dim", kFfn + more}}), forms};
}

// Caches of a context but for the last token, as Decoder has them, filled with one number: values
// do not change the time.
std::vector<LayerCache> full_caches(const LanguageModel& model, Index sequences, CacheType type,
                                    const FormOfKind& forms) {
  const Index context = model.plan()->context;
  std::vector<LayerCache> caches = make_caches(model.plan(), {sequences, context, type}, forms);
  for (LayerCache& cache : caches) {
    for (const Kept& kept : cache.keeps()) {
      const std::vector<Real> row(static_cast<std::size_t>(kept.heads * kept.width), Real{0.5F});
      if (kept.per_sequence) {
        std::ranges::fill(cache.state(kept.name), Real{0.5F});
        continue;
      }
      RowCache& rows = cache.rows(kept.name);
      for (Index t = 0; t < sequences * rows.capacity(); ++t)
        rows.write(t / rows.capacity(), t % rows.capacity(), row.data());
    }
  }
  return caches;
}

// Median milliseconds of the token that fills the context, with each of `all` caches. Caches take
// turns, so that a slow moment of the machine slows all of them. A turn decodes tokens one after
// the other as in sampling; the first warm the processor's caches and do not count.
std::vector<double> times_of(const LanguageModel& model, Index sequences,
                             std::vector<std::vector<LayerCache>>& all) {
  constexpr int kUncounted = 8, kCounted = 8;
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequences), 0);
  Tape tape(model.parameters());
  std::vector<std::vector<double>> times(all.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (int token = 0; token < kUncounted + kCounted; ++token) {
        for (LayerCache& cache : all[i]) cache.set_length(model.plan()->context - 1);
        const double ms = milliseconds([&] {
          tape.reset();
          model.decode(tape, tokens, sequences, all[i]);
        });
        if (token >= kUncounted) times[i].push_back(ms);
      }
    }
  }
  std::vector<double> medians;
  for (const std::vector<double>& of_cache : times) medians.push_back(median(of_cache));
  return medians;
}

void measure(const Variant& variant, Index context, Index sequences) {
  LanguageModel model(with_settings(variant.plan, {{"context", context}}), kVocabulary);
  model.initialize(1);
  std::vector<std::vector<LayerCache>> caches;
  for (const CacheTypeRow& type : cache_types())
    caches.push_back(full_caches(model, sequences, type.type, variant.forms));
  const std::vector<double> times = times_of(model, sequences, caches);
  const Index parameters = model.parameters().element_count();
  // A step reads one row of the embedding for each sequence, and every other weight once.
  const auto weights = static_cast<double>(parameters - kVocabulary * model.plan()->dim);
  std::printf("%-27s %7td %7.2f", variant.name.c_str(), context,
              static_cast<double>(parameters) / 1e6);
  for (std::size_t i = 0; i < caches.size(); ++i) {
    double cached = 0;
    for (const LayerCache& cache : caches[i]) cached += static_cast<double>(cache.bytes());
    const double bytes = cached + weights * 4;
    const double bound = read_bandwidth(bytes) / bytes;  // steps a second
    std::printf(" %7.1f %7.0f %4.0f%%", cached / 1e6,
                1e3 * static_cast<double>(sequences) / times[i], 100 * 1e3 / times[i] / bound);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  std::vector<Variant> all;
  if (argc > 2 && std::string_view(argv[1]) == "--from") {
    const ModelPlan trained = load_config(require_checkpoint(argv[2])).model;
    all = {{trained->attention, trained, {}}};
    argv += 2;
    argc -= 2;
  } else {
    for (const char* name : kVariants) all.push_back(variant(name));
  }
  const Index shortest = argc > 1 ? std::atol(argv[1]) : 128;
  const Index longest = argc > 2 ? std::atol(argv[2]) : 32768;
  const Index sequences = argc > 3 ? std::atol(argv[3]) : 1;
  set_threads(argc > 4 ? std::atoi(argv[4]) : 0);
  const ModelPlan& shape = all.front().plan;
  std::printf("%td layers, dim %td, %td sequences, %d threads, medians of %d rounds\n",
              shape->layers, shape->dim, sequences, threads(), kRounds);
  std::printf("%-27s %7s %7s", "attention", "context", "M par.");
  for (const CacheTypeRow& type : cache_types())
    std::printf(" %4s MB %7s %5s", type.name.data(), "tok/s", "bound");
  std::printf("\n");
  for (Index context = shortest; context <= longest; context *= 2)
    for (const Variant& variant : all) measure(variant, context, sequences);
}
