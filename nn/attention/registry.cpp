#include <algorithm>

#include "autograd/base/error.h"
#include "nn/attention/kind.h"

namespace headcount {

extern const AttentionKind kMha, kMqa, kGqa, kMfa, kGta, kMla, kTpa, kLatentBias, kDelta;

namespace {

std::vector<const AttentionKind*>& kinds() {
  static std::vector<const AttentionKind*> all = {&kMha, &kMqa, &kGqa,        &kMfa,  &kGta,
                                                  &kMla, &kTpa, &kLatentBias, &kDelta};
  return all;
}

}  // namespace

std::span<const AttentionKind* const> attention_kinds() { return kinds(); }

void register_attention(const AttentionKind& kind) {
  if (std::ranges::find(kinds(), kind.name, &AttentionKind::name) != kinds().end())
    throw ShapeError("two attentions are named " + std::string(kind.name));
  kinds().push_back(&kind);
}

}  // namespace headcount
