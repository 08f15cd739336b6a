// Training steps that ranks share, and what a network adds to them.
// Usage: mpirun -n N ranks measure [SIZE] [SHARDS] [MICROSECONDS] [GBIT]
//          steps of N ranks of one thread each, and the exchange of their gradients, over a network
//          that takes so long a message and carries so many Gbit/s each way; 0: as it is here
//        ranks paper [SIZE...]
//          the same by formula, for up to 64 ranks with the threads that this process has
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "bench/training_bench.h"
#include "train/cli/mpi_ranks.h"
#include "train/statistics.h"

namespace headcount {
namespace {

// What a message takes, and what a byte takes after it.
struct Network {
  double seconds_a_message = 0, seconds_a_byte = 0;

  static Network of(double microseconds, double gbit) {
    return {1e-6 * microseconds, gbit > 0 ? 8e-9 / gbit : 0};
  }
};

// Ranks over a slower network, which counts what goes over it. A rank sends one message after the
// other, and receives at the same time.
class SlowRanks : public Ranks {
 public:
  SlowRanks(Ranks& ranks, const Network& network) : ranks_(ranks), network_(network) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void broadcast(std::span<std::byte> items) override { ranks_.broadcast(items); }
  void gather(std::span<std::byte> items, std::size_t item_bytes) override {
    ranks_.gather(items, item_bytes);
  }
  void pass(const Pass& pass) override {
    const auto start = std::chrono::steady_clock::now();
    ranks_.pass(pass);
    const std::size_t sent = pass.to_next.size_bytes() + pass.to_previous.size_bytes();
    messages += !pass.to_next.empty();
    messages += !pass.to_previous.empty();
    bytes += static_cast<double>(sent);
    if (network_.seconds_a_message == 0) return;
    const std::chrono::duration<double> seconds(
        network_.seconds_a_message + network_.seconds_a_byte * static_cast<double>(sent));
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<std::chrono::nanoseconds>(seconds));
  }

  double bytes = 0;
  Index messages = 0;

 private:
  Ranks& ranks_;
  Network network_;
};

// Seconds of the exchange of so many gradients, if nothing else is done: M + 2 (N - 1) passes, in
// each of which a rank between two others sends two chunks.
double exchange_seconds(Index parameters, int ranks, const Network& network) {
  if (ranks == 1) return 0;
  const Index chunks = (parameters + GradientExchange::kChunk - 1) / GradientExchange::kChunk;
  const auto chunk_bytes = static_cast<double>(
      sizeof(Real) * static_cast<std::size_t>(std::min(parameters, GradientExchange::kChunk)));
  return static_cast<double>(chunks + 2 * (ranks - 1)) *
         (network.seconds_a_message +
          std::min(2, ranks - 1) * chunk_bytes * network.seconds_a_byte);
}

double fastest(int rounds, const std::function<void()>& body) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < rounds; ++i) least = std::min(least, milliseconds(body));
  return least;
}

TrainOptions options_of(const std::string& size, Index shards) {
  TrainOptions options = bench_options(size);
  options.shards = shards;
  return options;
}

void measure(Ranks& ranks, const std::string& size, Index shards, const Network& network) {
  constexpr int kRounds = 20;
  set_threads(1);
  SlowRanks slow(ranks, network);
  const TrainOptions options = options_of(size, shards);
  TrainingBench training(options, slow);
  slow.bytes = 0;
  slow.messages = 0;
  training.step();
  const double bytes = slow.bytes;
  const Index messages = slow.messages;
  const double step = fastest(kRounds, [&] { training.step(); });
  LanguageModel model(training.model().plan(), TrainingBench::kVocabulary);
  model.parameters().allocate();
  const Index parameters = std::ssize(model.parameters().all_values());
  const double exchange = fastest(kRounds, [&] {
    wait_for_all(ranks);
    GradientExchange(slow, model.parameters(), 0, {}).finish();
  });
  if (ranks.rank() > 0) return;
  std::printf("%-12s %5d %6td %10td %8.1f %8td %8.2f %11.2f %10.2f\n", size.c_str(), ranks.size(),
              training.shards(), model.parameters().element_count(), 1e-6 * bytes, messages, step,
              exchange, 1e3 * exchange_seconds(parameters, ranks.size(), network));
}

void print_paper(const std::string& size) {
  const struct {
    const char* name;
    Network network;
  } networks[] = {{"10 Gbit/s, 30 us", Network::of(30, 10)},
                  {"100 Gbit/s, 5 us", Network::of(5, 100)}};
  // One shard of 64, and what every rank does besides, whatever its shards are.
  constexpr Index kShards = 64;
  TrainOptions options = bench_options(size);
  const Index batch = std::max(options.batch, kShards);
  options.batch = batch / kShards;
  TrainingBench training(options);
  TrainingProfile profile;
  const double shard = fastest(size == "100m" ? 2 : 10, [&] { training.step(); });
  training.profile(&profile);
  training.step();
  const double update = 1e3 * (profile.norm_seconds + profile.update_seconds);
  const Index parameters = training.model().parameters().element_count();
  std::printf(
      "\n%s, batch %td: %.1f M parameters, %.2f ms a shard, %.2f ms to update, %d threads\n",
      size.c_str(), batch, 1e-6 * static_cast<double>(parameters), shard - update, update,
      threads());
  std::printf("%-18s", "ranks");
  for (int ranks = 1; ranks <= 64; ranks *= 2) std::printf("%9d", ranks);
  std::printf("\n%-18s", "compute, ms");
  const auto compute = [&](int ranks) {
    return static_cast<double>(kShards / ranks) * (shard - update) + update;
  };
  for (int ranks = 1; ranks <= 64; ranks *= 2) std::printf("%9.1f", compute(ranks));
  for (const auto& [name, network] : networks) {
    const auto exchange = [&, net = network](int ranks) {
      return 1e3 * exchange_seconds(parameters, ranks, net);
    };
    std::printf("\n%-18s", name);
    for (int ranks = 1; ranks <= 64; ranks *= 2) std::printf("%9.1f", exchange(ranks));
    std::printf("\n%-18s", "  efficiency, %");
    for (int ranks = 1; ranks <= 64; ranks *= 2) {
      std::printf("%9.0f", 100 * compute(1) / (ranks * (compute(ranks) + exchange(ranks))));
    }
  }
  std::printf("\n");
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; delays are of microseconds
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "paper") {
    for (int i = 2; i < std::max(3, argc); ++i) print_paper(i < argc ? argv[i] : "nanogpt-cpu");
    return 0;
  }
  if (mode != "measure") {
    std::fprintf(stderr, "ranks: the first word is measure or paper, see ranks.cpp\n");
    return 2;
  }
  const auto number = [&](int place) { return argc > place ? std::atof(argv[place]) : 0.0; };
  const std::unique_ptr<Ranks> ranks = started_ranks();
  const std::string size = argc > 2 ? argv[2] : "nanogpt-cpu";
  if (ranks->rank() == 0) {
    std::printf("%-12s %5s %6s %10s %8s %8s %8s %11s %10s\n", "", "ranks", "shards", "parameters",
                "MB sent", "messages", "step ms", "exchange ms", "by formula");
  }
  measure(*ranks, size, static_cast<Index>(number(3)), Network::of(number(4), number(5)));
  return ranks->end(true) ? 0 : 1;
}
