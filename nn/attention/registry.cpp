#include <array>

#include "nn/attention/kinds.h"

namespace headcount {

std::span<const AttentionKind* const> attention_kinds() {
  static constexpr std::array kKinds = {&kMha, &kMqa, &kGqa, &kMla, &kLatentBias};
  return kKinds;
}

}  // namespace headcount
