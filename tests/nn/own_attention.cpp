// An attention that a user of the library adds, in one file. It is linked into test programs whose
// suites go over all attentions, and into a program of its own; nothing else names it.
//
// One row per KV head is key and value, beside one rotary key that all heads share:
// q = [nope | rotated], key = [row | rotated shared key], value = row.
#include <array>
#include <memory>

#include "nn/attention/attention.h"

namespace headcount {
namespace {

struct OwnSettings {
  Index kv_heads = 1, rope_dim = 2;
};

constexpr Field<OwnSettings> kOwnFields[] = {
    whole<&OwnSettings::kv_heads>("kv-heads", "states", 1).with({.derived = "1"}),
    whole<&OwnSettings::rope_dim>("rope-dim", "width of the shared key", 0).with({.derived = "2"}),
};

const OwnSettings& of(const AttentionPlan& c) { return c.own<OwnSettings>(); }

class OwnAttention : public Attention {
 public:
  OwnAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, of(c).rope_dim),
        q_proj_(weights.get<Linear>("q_proj")),
        kv_proj_(weights.get<Linear>("kv_proj")),
        shared_proj_(weights.find<Linear>("shared_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const OwnSettings& own = of(plan());
    const Rows state = memory.keep("state", split_heads(kv_proj_(x), own.kv_heads));
    std::vector<Rows> key = {state};
    if (shared_proj_)
      key.push_back(memory.keep("shared", rotate(split_heads((*shared_proj_)(x), 1), memory)));
    const Var q = normalize_for_scores(rotate(split_heads(q_proj_(x), plan().heads), memory));
    key = normalize_for_scores(*x.tape, std::move(key));
    return output(
        x, attention(q, key, state, options(*x.tape, plan().head_dim + own.rope_dim, memory)));
  }

 private:
  Linear q_proj_, kv_proj_;
  std::optional<Linear> shared_proj_;
};

AttentionDescription describe_own(const AttentionPlan& c) {
  const OwnSettings& own = of(c);
  const Index key_width = c.head_dim + own.rope_dim;
  AttentionForm form = {.projections = {{"q_proj", c.dim, c.heads * key_width},
                                        {"kv_proj", c.dim, own.kv_heads * c.head_dim}},
                        .key_width = key_width,
                        .value_width = c.head_dim};
  std::vector<Kept> keeps = {{"state", own.kv_heads, c.head_dim}};
  if (own.rope_dim > 0) {
    form.projections.push_back({"shared_proj", c.dim, own.rope_dim});
    keeps.push_back({"shared", 1, own.rope_dim});
  }
  return {std::move(keeps), {std::move(form)}};
}

std::any resolve_own(const AttentionPlan& c, const Given& given) {
  const OwnSettings own = read_fields(kOwnFields, given);
  require_setting(c.heads % own.kv_heads == 0, "`kv-heads` does not divide `heads`");
  require_setting(!c.rotary || own.rope_dim % 2 == 0, "`rope-dim` must be even");
  return own;
}

const AttentionKind kOwn = {.name = "own",
                            .summary = "a state that is key and value, and a shared rotary key",
                            .numbers = {"kv-heads", "rope-dim"},
                            .own = own_fields<kOwnFields>(),
                            .resolve = resolve_own,
                            .describe = describe_own,
                            .make = make_layer<OwnAttention>};

const bool registered = [] {
  register_attention(kOwn);
  return true;
}();

}  // namespace
}  // namespace headcount
