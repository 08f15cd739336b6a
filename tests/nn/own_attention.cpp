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

class OwnAttention : public Attention {
 public:
  OwnAttention(const AttentionPlan& c, const LayerWeights& weights)
      : Attention(c, weights, c.whole("rope-dim")),
        q_proj_(weights.get<Linear>("q_proj")),
        kv_proj_(weights.get<Linear>("kv_proj")),
        shared_proj_(weights.find<Linear>("shared_proj")) {}

  Var forward(Var x, Memory& memory) const override {
    const Rows state = memory.keep("state", split_heads(kv_proj_(x), plan().whole("kv-heads")));
    std::vector<Rows> key = {state};
    if (shared_proj_)
      key.push_back(memory.keep("shared", rotate(split_heads((*shared_proj_)(x), 1), memory)));
    const Var q = normalize_for_scores(rotate(split_heads(q_proj_(x), plan().heads), memory));
    key = normalize_for_scores(*x.tape, std::move(key));
    return output(x,
                  attention(q, key, state,
                            options(*x.tape, plan().head_dim + plan().whole("rope-dim"), memory)));
  }

 private:
  Linear q_proj_, kv_proj_;
  std::optional<Linear> shared_proj_;
};

AttentionDescription describe_own(const AttentionPlan& c) {
  const Index states = c.whole("kv-heads"), rope_dim = c.whole("rope-dim");
  const Index key_width = c.head_dim + rope_dim;
  AttentionForm form = {.projections = {{"q_proj", c.dim, c.heads * key_width},
                                        {"kv_proj", c.dim, states * c.head_dim}},
                        .key_width = key_width,
                        .value_width = c.head_dim};
  std::vector<Kept> keeps = {{"state", states, c.head_dim}};
  if (rope_dim > 0) {
    form.projections.push_back({"shared_proj", c.dim, rope_dim});
    keeps.push_back({"shared", 1, rope_dim});
  }
  return {std::move(keeps), {std::move(form)}};
}

SettingList own_settings() {
  return {{"kv-heads", "states", WholeRange{1}, of_owner(1)},
          {"rope-dim", "width of the shared key", WholeRange{0}, of_owner(2)}};
}

void check_own(const AttentionPlan& c) {
  require_setting(c.heads % c.whole("kv-heads") == 0, "`kv-heads` does not divide `heads`");
  require_setting(!c.rotary || c.whole("rope-dim") % 2 == 0, "`rope-dim` must be even");
}

const AttentionKind kOwn = {.name = "own",
                            .summary = "a state that is key and value, and a shared rotary key",
                            .numbers = {"kv-heads", "rope-dim"},
                            .settings = own_settings,
                            .check = check_own,
                            .describe = describe_own,
                            .make = make_layer<OwnAttention>};

const bool registered = [] {
  register_attention(kOwn);
  return true;
}();

}  // namespace
}  // namespace headcount
