#include <algorithm>

#include "nn/attention/kind.h"

namespace headcount {

extern const AttentionKind kMha, kMqa, kGqa, kMfa, kGta, kMla, kTpa, kLatentBias, kFox, kV4, kHca,
    kCsa, kDelta, kKda, kDsa;

namespace {

std::vector<const AttentionKind*>& kinds() {
  static std::vector<const AttentionKind*> all = {&kMha, &kMqa, &kGqa, &kMfa,        &kGta,
                                                  &kMla, &kDsa, &kTpa, &kLatentBias, &kFox,
                                                  &kV4,  &kHca, &kCsa, &kDelta,      &kKda};
  return all;
}

}  // namespace

std::span<const AttentionKind* const> attention_kinds() { return kinds(); }

void register_attention(const AttentionKind& kind) {
  require_setting(std::ranges::find(kinds(), kind.name, &AttentionKind::name) == kinds().end(),
                  "two attentions are named ", kind.name);
  kinds().push_back(&kind);
}

}  // namespace headcount
