// A KV cache from nothing. Two layers of a transformer write a sentence three times: computing all
// tokens again for each new one, keeping their keys and values, and in the library's Decoder.
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "models/sampling.h"

using namespace headcount;
constexpr Index dim = 32, num_heads = 4, head_dim = 8;

struct Cache {       // of a layer
  Var keys, values;  // [head_dim, tokens]: what its one KV head made of each token
};

struct Transformer {
  Tape tape;
  const ParameterStore& store;
  Index multiply_adds = 0;  // of all products so far

  Var weight(const std::string& name) { return tape.parameter(store.find(name + ".weight")); }
  Var project(const std::string& name, Var x) {  // x W^T
    multiply_adds += weight(name).shape().size();
    return linear(x, weight(name));
  }

  // The likeliest token after `token`, of which the caches keep keys and values, and nothing else.
  char next(std::int32_t token, std::vector<Cache>& caches) {
    Var x = embedding(weight("model.embed_tokens"), {&token, 1}, {1});  // [1, dim]
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const std::string layer = "model.layers." + std::to_string(i), self = layer + ".self_attn.";
      const Var h = rms_norm(x, weight(layer + ".input_layernorm"), Real(1e-6));
      const Var q = reshape(project(self + "q_proj", h), {num_heads, head_dim});
      auto& [keys, values] = caches[i];
      keys = concat(keys, reshape(project(self + "k_proj", h), {head_dim, 1}));
      values = concat(values, reshape(project(self + "v_proj", h), {head_dim, 1}));
      const Var scores = scale(matrix_product(q, keys), 1 / std::sqrt(Real(head_dim)));
      const Var heads = matrix_product(softmax(scores), transpose(values, 0, 1));
      multiply_adds += 2 * num_heads * keys.shape().size();
      x = x + project(self + "o_proj", reshape(heads, {1, dim}));
    }
    const Var logits = project("lm_head", rms_norm(x, weight("model.norm"), Real(1e-6)));
    return char(sample_token(logits.value(), {.temperature = 0}, 0));
  }
};

int main() {
  // The model learns one sentence, whose bytes are its tokens. one_step.cpp shows how.
  const std::string sentence = "what is computed once is kept.";
  const std::vector<std::int32_t> inputs(sentence.begin(), sentence.end() - 1);
  const std::vector<std::int32_t> targets(sentence.begin() + 1, sentence.end());
  const Given settings(
      model_settings(),
      {{"attention", "mqa"}, {"layers", 2}, {"dim", dim}, {"ffn-dim", 0}, {"positions", "none"}});
  LanguageModel model(resolve_model(settings), 128);
  model.initialize(1);
  ParameterStore& weights = model.parameters();
  Tape tape(&weights);
  for (int step = 0; step < 200; ++step) {
    tape.reset();
    weights.clear_gradients();
    tape.backward(model.loss(tape, inputs, targets, 1).cross_entropy);
    const auto x = weights.all_values(), g = weights.complete_gradients();
    const Real length = Real(1e-2) * Real(200 - step) / 200;  // of a step against a slope's sign
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= g[i] > 0 ? length : g[i] < 0 ? -length : 0;
  }

  Transformer ours{.tape = Tape(std::as_const(weights)), .store = weights};
  const Var none = ours.tape.constant({head_dim, 0}, {});
  const std::vector<Cache> empty(model.plan()->layers, {none, none});
  std::vector<Cache> caches = empty;
  Decoder decoder(model, {});
  std::string again = "w", kept = "w", decoded = "w";
  std::puts("tokens  multiply-adds for the next  with rows kept");
  for (std::size_t n = 1; n < sentence.size(); ++n) {
    std::vector<Cache> forgotten = empty;  // 1: all tokens go through the model again
    for (const char token : again.substr(0, n - 1)) ours.next(token, forgotten);
    again += ours.next(again.back(), forgotten);
    const Index all = std::exchange(ours.multiply_adds, 0);
    kept += ours.next(kept.back(), caches);  // 2: the last token alone
    const Index of_one = std::exchange(ours.multiply_adds, 0);
    const std::int32_t token = decoded.back();  // 3: the same, by the library
    decoded += char(sample_token(decoder.feed({&token, 1}), {.temperature = 0}, 0));
    if (std::has_single_bit(n)) std::printf("%6zu  %26td  %14td\n", n, all, of_one);
  }
  for (const std::string& text : {again, kept, decoded}) std::puts(text.c_str());
}
