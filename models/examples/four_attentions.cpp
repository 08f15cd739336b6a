// Four attentions, written out: multi-head (MHA), multi-query (MQA), grouped-query (GQA) and
// multi-head latent attention (MLA). They differ in what a token leaves for later tokens to read,
// which is what the KV cache keeps. Each gives the numbers of the library's layer.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "models/plan.h"
#include "nn/attention/attention.h"

using namespace headcount;
constexpr Index T = 6, dim = 32, num_heads = 4, head_dim = 8;  // one sequence of T tokens
constexpr Index kv_heads = 2, group = num_heads / kv_heads;    // of GQA
constexpr Index latent_dim = 14, rope_dim = 2, key_dim = head_dim + rope_dim;  // of MLA
using Weights = std::function<Var(const char*)>;  // w("q_proj"), a matrix [out, in]
using Result = std::vector<Var>;  // y [T, dim], then all that later tokens read of these

// [T, heads width] -> [heads, T, width]
Var to_heads(Var x, Index heads) {
  return transpose(reshape(x, {T, heads, x.shape().last() / heads}), 0, 1);
}
// The heads' results side by side, [T, num_heads width], through the output projection.
Var output(Var heads, const Weights& w) {
  const Var by_token = transpose(reshape(heads, {num_heads, T, heads.shape().last()}), 0, 1);
  return linear(reshape(by_token, {T, heads.shape().size() / T}), w("o_proj"));
}

// softmax(q k^T / sqrt(d)): the share of each token in what a query gets. q and k are matrices of
// rows, a pair for each KV head; so is the result, with the rows of q.
Var attention_weights(Var q, Var k, Index d = head_dim) {
  std::vector<Real> mask;  // [T, T]: minus infinity hides later tokens
  for (Index i = 0; i < T * T; ++i) mask.push_back(i % T <= i / T ? 0 : -INFINITY);
  const int last = k.shape().rank() - 1;
  const Var scores = scale(matrix_product(q, transpose(k, last - 1, last)), 1 / std::sqrt(Real(d)));
  const Var of_heads = reshape(scores, {num_heads, T, T}) + q.tape->constant({T, T}, mask);
  return reshape(softmax(of_heads), scores.shape());
}

// MHA (2017): each query head has a key head and a value head of its own.
Result multi_head(Var x, const Weights& w) {
  const Var q = to_heads(linear(x, w("q_proj")), num_heads);  // [H, T, d]
  const Var k = to_heads(linear(x, w("k_proj")), num_heads);  // [H, T, d]
  const Var v = to_heads(linear(x, w("v_proj")), num_heads);  // [H, T, d]
  const Var weights = attention_weights(q, k);                // [H, T, T]
  return {output(matrix_product(weights, v), w), k, v};
}

// MQA (2019): all query heads read one KV head, so their queries are the rows of one matrix.
Result multi_query(Var x, const Weights& w) {
  const Var q = to_heads(linear(x, w("q_proj")), num_heads);                        // [H, T, d]
  const Var k = linear(x, w("k_proj")), v = linear(x, w("v_proj"));                 // [T, d]
  const Var weights = attention_weights(reshape(q, {num_heads * T, head_dim}), k);  // [H T, T]
  return {output(matrix_product(weights, v), w), k, v};
}

// GQA (2023): a group of H / G query heads reads one KV head. G = H is MHA, G = 1 is MQA.
Result grouped_query(Var x, const Weights& w) {
  const Var q = to_heads(linear(x, w("q_proj")), num_heads);  // [H, T, d]
  const Var k = to_heads(linear(x, w("k_proj")), kv_heads);   // [G, T, d]
  const Var v = to_heads(linear(x, w("v_proj")), kv_heads);   // [G, T, d]
  const Var weights = attention_weights(reshape(q, {kv_heads, group * T, head_dim}), k);
  return {output(matrix_product(weights, v), w), k, v};
}

// RoPE of rows x [heads, T, 2]: token t turns its pair by t radians. More pairs would turn slower.
Var rope(Var x) {
  std::vector<Real> cosines, sines;  // [T, 2]
  for (Index t = 0; t < T; ++t) cosines.insert(cosines.end(), 2, std::cos(Real(t)));
  for (Index t = 0; t < T; ++t) sines.insert(sines.end(), 2, std::sin(Real(t)));
  const Var turned = concat(scale(columns(x, 1, 1), -1), columns(x, 0, 1));
  return x * x.tape->constant({T, 2}, cosines) + turned * x.tape->constant({T, 2}, sines);
}

// MLA (2024): a latent c per token makes keys W_UK c and values W_UV c of all heads (kv_b_proj has
// both). Positions are in a key beside it: queries could not absorb W_UK if RoPE turned W_UK c.
Result latent(Var x, const Weights& w, bool absorbed) {
  const Var q = to_heads(linear(x, w("q_proj")), num_heads);  // [H, T, d + rope]
  const Var q_nope = columns(q, 0, head_dim), q_rope = rope(columns(q, head_dim, rope_dim));
  const Var down = linear(x, w("kv_a_proj_with_mqa"));  // [T, latent + rope]
  const Var c = rms_norm(columns(down, 0, latent_dim), w("kv_a_layernorm"), Real(1e-6));
  const Var k_rope = rope(reshape(columns(down, latent_dim, rope_dim), {1, T, rope_dim}));
  if (!absorbed) {  // as in training: k and v of all heads are rebuilt, then it is MHA
    const Var kv = to_heads(linear(c, w("kv_b_proj")), num_heads);  // [H, T, d + d]
    const Var k = concat(columns(kv, 0, head_dim), k_rope), v = columns(kv, head_dim, head_dim);
    const Var weights = attention_weights(concat(q_nope, q_rope), k, key_dim);  // [H, T, T]
    return {output(matrix_product(weights, v), w), c, k_rope};
  }
  // As in decoding: q . W_UK c = W_UK^T q . c, then it is MQA with the key [c, k_rope] and value c.
  const Var up = transpose(reshape(w("kv_b_proj"), {num_heads, 2 * head_dim, latent_dim}), 1, 2);
  const Var w_uk = columns(up, 0, head_dim), w_uv = columns(up, head_dim, head_dim);
  const Var q_c = matrix_product(q_nope, transpose(w_uk, 1, 2));  // [H, T, latent]
  const Var rows = reshape(concat(q_c, q_rope), {num_heads * T, latent_dim + rope_dim});
  const Var k = concat(c, reshape(k_rope, {T, rope_dim}));
  const Var sums = matrix_product(attention_weights(rows, k, key_dim), c);  // [H T, latent]
  return {output(matrix_product(reshape(sums, {num_heads, T, latent_dim}), w_uv), w), c, k_rope};
}

// Runs `written` and the layer that the library makes of the word `attention`, with equal weights.
void compare(const char* name, const char* attention, const auto& written) {
  const Given settings(model_settings(), {{"attention", attention}, {"dim", dim}, {"heads", 4}});
  ParameterStore store;
  const auto layer = make_attention(store, "layer", resolve_model(settings)->cycle[0], {0.2, 0.2});
  store.allocate();
  store.initialize(1);
  Tape tape(&store);
  const Var x = scale(tape.constant({T, dim}, store.all_values().first(T * dim)), 2);  // any x
  const Result result = written(x, [&](const std::string& weight) {
    return tape.parameter(store.find("layer." + weight + ".weight"));
  });
  Memory memory;
  const Var of_library = layer->forward(reshape(x, {1, T, dim}), memory);
  const auto [least, most] =
      std::ranges::minmax((reshape(of_library, {T, dim}) - result[0]).value());
  const Shape a = result[1].shape(), b = result[2].shape();
  std::printf("%-13s %6td  %-9s  %-9s %6td   by at most %.0e\n", name, store.element_count(),
              a.text().c_str(), b.text().c_str(), (a.size() + b.size()) / T,
              double(std::max({Real(1e-6), -least, most})));
}

int main() {
  std::puts("              weights  cached               per token  differs from the library");
  compare("MHA", "mha:rope-dim=0", multi_head);
  compare("MQA", "mqa:rope-dim=0", multi_query);
  compare("GQA", "gqa2:rope-dim=0", grouped_query);
  compare("MLA, expanded", "mla14+2", [](Var x, Weights w) { return latent(x, w, false); });
  compare("MLA, absorbed", "mla14+2", [](Var x, Weights w) { return latent(x, w, true); });
}
