#include "autograd/base/registry.h"

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "nn/attention/kind.h"

namespace headcount {

extern const AttentionKind kMha, kMqa, kGqa, kMfa, kGta, kMla, kTpa, kLatentBias, kFox, kV4, kHca,
    kCsa, kDelta, kKda, kDsa;

namespace {

Registry<AttentionKind>& registry() {
  static Registry<AttentionKind> all = {&kMha, &kMqa, &kGqa, &kMfa,        &kGta,
                                        &kMla, &kDsa, &kTpa, &kLatentBias, &kFox,
                                        &kV4,  &kHca, &kCsa, &kDelta,      &kKda};
  return all;
}

}  // namespace

std::span<const AttentionKind* const> attention_kinds() { return registry().all(); }

void register_attention(const AttentionKind& kind) { registry().add(kind); }

const AttentionKind& attention_kind(std::string_view name) {
  if (const AttentionKind* const kind = registry().find(name)) return *kind;
  throw ShapeError("unknown attention '", name, "'; known are ",
                   joined(attention_kinds(), &AttentionKind::name));
}

}  // namespace headcount
