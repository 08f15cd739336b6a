// The only file that uses MPI.

#include "train/cli/mpi_ranks.h"

#include <cstdlib>

#include "autograd/base/error.h"

#ifdef HEADCOUNT_MPI
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>
#endif

namespace headcount {

std::optional<std::string> launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* const size = std::getenv(name)) return size;
  }
  if (std::getenv("PMIX_RANK") == nullptr && std::getenv("PMI_RANK") == nullptr)
    return std::nullopt;
  // PMIx has no variable for the size; Slurm, which starts it as `srun --mpi=pmix`, has one.
  const char* const size = std::getenv("SLURM_STEP_NUM_TASKS");
  return size != nullptr ? size : "several";
}

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  }
  return 0;
}

#ifdef HEADCOUNT_MPI

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kForward = 1, kBack = 2;

// Calls `done` until it returns true or `limit` has passed. MPI's own waiting occupies a whole
// processor, and there may be fewer processors than ranks; so this function sleeps for a part of
// the time that it has waited.
template <class Done>
bool wait_until(const Done& done, Clock::time_point limit = Clock::time_point::max()) {
  constexpr Clock::duration kAwake = std::chrono::microseconds(20),
                            kLongest = std::chrono::milliseconds(1);
  const Clock::time_point start = Clock::now();
  while (!done()) {
    const Clock::time_point now = Clock::now();
    if (now > limit) return false;
    if (now - start < kAwake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min((now - start) / 16, kLongest));
    }
  }
  return true;
}

void wait_for(std::span<MPI_Request> requests) {
  wait_until([&] {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  });
}

class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    if (provided < MPI_THREAD_FUNNELED)
      throw Error("this MPI allows no threads in a process (MPI_THREAD_FUNNELED)");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_dup(MPI_COMM_WORLD, &ends_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void broadcast(std::span<std::byte> bytes) override {
    std::vector<MPI_Request> requests;
    start_broadcast(bytes, 0, requests);
    wait_for(requests);
  }

  void gather(std::span<std::byte> bytes, std::size_t item_bytes) override {
    std::vector<MPI_Request> requests;
    const auto items = static_cast<Index>(bytes.size() / item_bytes);
    for (int rank = 0; rank < size_; ++rank) {
      const Part part = part_of(items, rank, size_);
      start_broadcast(bytes.subspan(static_cast<std::size_t>(part.first) * item_bytes,
                                    static_cast<std::size_t>(part.size()) * item_bytes),
                      rank, requests);
    }
    wait_for(requests);
  }

  void pass(const Pass& pass) override {
    std::array<MPI_Request, 4> requests;
    std::size_t count = 0;
    const auto bytes = [](auto numbers) { return static_cast<int>(numbers.size_bytes()); };
    const auto receive = [&](std::span<Real> numbers, int from, int tag) {
      if (numbers.empty()) return;
      MPI_Irecv(numbers.data(), bytes(numbers), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                &requests[count++]);
    };
    const auto send = [&](std::span<const Real> numbers, int to, int tag) {
      if (numbers.empty()) return;
      MPI_Isend(numbers.data(), bytes(numbers), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                &requests[count++]);
    };
    receive(pass.from_previous, rank_ - 1, kForward);
    receive(pass.from_next, rank_ + 1, kBack);
    send(pass.to_next, rank_ + 1, kForward);
    send(pass.to_previous, rank_ - 1, kBack);
    wait_for(std::span(requests).first(count));
  }

  bool end(bool success) override {
    constexpr auto kPatience = std::chrono::seconds(1);
    MPI_Request request;
    MPI_Ibarrier(ends_, &request);
    const auto limit = success ? Clock::time_point::max() : Clock::now() + kPatience;
    const bool all = wait_until(
        [&] {
          int done = 0;
          MPI_Test(&request, &done, MPI_STATUS_IGNORE);
          return done != 0;
        },
        limit);
    if (all) {
      MPI_Comm_free(&ends_);
      MPI_Finalize();
    }
    return all;
  }

  void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  static void start_broadcast(std::span<std::byte> bytes, int from,
                              std::vector<MPI_Request>& requests) {
    constexpr std::size_t kMost = 1 << 30;  // MPI counts in int
    for (std::size_t i = 0; i < bytes.size(); i += kMost) {
      MPI_Ibcast(bytes.data() + i, static_cast<int>(std::min(kMost, bytes.size() - i)), MPI_BYTE,
                 from, MPI_COMM_WORLD, &requests.emplace_back());
    }
  }

  int rank_ = 0, size_ = 1;
  // Communicator of `end` alone: on MPI_COMM_WORLD, a rank that fails may have left a call
  // unfinished.
  MPI_Comm ends_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Ranks> started_ranks() {
  // MPI is initialised only if a launcher started this process: it takes time to start and changes
  // how signals are handled.
  if (launched_processes()) return std::make_unique<MpiRanks>();
  return std::make_unique<Ranks>();
}

std::string mpi_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int size = 0;
  MPI_Get_library_version(text.data(), &size);
  // "Open MPI v4.1.4, package: ...", or "MPICH Version:\t4.0.2\nMPICH Release date: ..."
  std::string first(text.data(), std::min(std::string_view(text.data()).find_first_of(",\n"),
                                          static_cast<std::size_t>(size)));
  std::ranges::replace(first, '\t', ' ');
  return first;
}

#else

std::unique_ptr<Ranks> started_ranks() {
  if (const auto processes = launched_processes().value_or("1"); processes != "1") {
    throw Error(
        "this headcount was built without MPI and cannot share work with {} processes; build it "
        "with -DHEADCOUNT_MPI=ON, or start it without mpirun or srun",
        processes);
  }
  return std::make_unique<Ranks>();
}

std::string mpi_text() { return "no MPI"; }

#endif

}  // namespace headcount
