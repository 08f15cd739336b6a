#include "train/ranks.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"

namespace headcount {

Part part_of(Index count, int rank, int size) {
  const auto begin = [&](Index r) { return (r * count + size - 1) / size; };
  return {begin(rank), begin(rank + 1)};
}

Ranks& alone() {
  static Ranks one;
  return one;
}

void Ranks::abort(int code) { std::_Exit(code); }

void wait_for_all(Ranks& ranks) { first_flag(ranks, 0); }

std::optional<std::pair<int, int>> first_flag(Ranks& ranks, int flag) {
  std::vector<int> flags(static_cast<std::size_t>(ranks.size()));
  flags[static_cast<std::size_t>(ranks.rank())] = flag;
  gather(ranks, std::span(flags));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const int found = flags[static_cast<std::size_t>(rank)];
    if (found != 0) return std::pair(rank, found);
  }
  return std::nullopt;
}

std::string first_text(Ranks& ranks, const std::string& text) {
  std::vector<std::array<char, 401>> texts(static_cast<std::size_t>(ranks.size()));
  text.copy(texts[static_cast<std::size_t>(ranks.rank())].data(), 400);
  gather(ranks, std::span(texts));
  for (const auto& one : texts) {
    if (one.front() != 0) return one.data();
  }
  return "";
}

void require_same(Ranks& ranks, const std::string& text, const std::string& what,
                  const std::string& remedy) {
  const std::string own = sha256_hex(text);
  std::string first = own;
  broadcast(ranks, std::span(first));
  if (const auto other = first_flag(ranks, own != first)) {
    throw Error("rank {} has a different {} than rank 0; {}", other->first, what, remedy);
  }
}

}  // namespace headcount
