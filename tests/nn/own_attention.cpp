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
  OwnAttention(const AttentionPlan& c, LayerWeights& weights)
      : Attention(c, c.whole("rope-dim"), {c.heads, c.head_dim}),
        q_proj_(weights.matrix("q_proj", c.dim, c.heads * (c.head_dim + c.whole("rope-dim")))),
        kv_proj_(weights.matrix("kv_proj", c.dim, c.whole("kv-heads") * c.head_dim)) {
    const Index rope_dim = c.whole("rope-dim");
    if (rope_dim > 0) shared_proj_ = weights.matrix("shared_proj", c.dim, rope_dim);
  }

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
                            .make = make_layer<OwnAttention>};

const bool registered = [] {
  register_attention(kOwn);
  return true;
}();

}  // namespace
}  // namespace headcount
