#include "models/cost/model_cache.h"

#include <algorithm>

#include "nn/attention/costs.h"

namespace headcount {

namespace {

// Numbers that a part has for each token; of a row of many tokens, its share.
double of_token(const Kept& kept) {
  if (kept.per_sequence) return 0;
  return 1.0 * kept.heads * kept.width / std::max<Index>(1, kept.block);
}

// A share of `count`, rounded up.
Index share(std::int64_t count, std::int64_t parts) {
  return static_cast<Index>((count + parts - 1) / parts);
}

// Factors of heads (`tpa`) serve all heads.
bool is_factor(const Kept& kept) { return kept.name.ends_with("_a") || kept.name.ends_with("_b"); }

}  // namespace

double CachedLayer::once() const {
  double all = 0;
  for (const Kept& kept : parts)
    if (kept.per_sequence) all += 1.0 * kept.heads * kept.width;
  return all;
}

const Kept* CachedLayer::part(std::string_view name) const {
  const auto found = std::ranges::find(parts, name, &Kept::name);
  return found == parts.end() ? nullptr : &*found;
}

bool CachedLayer::has_rows() const {
  return std::ranges::any_of(parts, [](const Kept& kept) { return !kept.per_sequence; });
}

bool CachedLayer::has_state() const { return part("state") != nullptr; }

Index CachedLayer::kv_heads() const {
  const Kept* const keys = part("k");
  return keys == nullptr ? 0 : keys->heads;
}

double bytes_of_number(const Kept& kept, const CacheRounding& rounding) {
  const std::int64_t bytes = row_bytes(rounding.of(kept), kept.width);
  return static_cast<double>(bytes) / static_cast<double>(std::max<Index>(1, kept.width));
}

Index ModelCache::kv_heads() const {
  Index most = 0;
  for (const CachedLayer& layer : layers) most = std::max(most, layer.kv_heads());
  return most;
}

ModelCache ModelCache::with_draft() const {
  ModelCache whole = *this;
  whole.layers.insert(whole.layers.end(), draft.begin(), draft.end());
  return whole;
}

ModelCache ModelCache::of_shard(Index shards) const {
  ModelCache one = *this;
  for (CachedLayer& layer : one.layers) {
    for (Kept& part : layer.parts) {
      Index& shared = part.per_sequence ? part.width : part.heads;
      if (!is_factor(part)) shared = share(shared, shards);
    }
  }
  const auto has_latent = [](const CachedLayer& layer) {
    return std::ranges::find(layer.parts, "latent", &Kept::name) != layer.parts.end();
  };
  if (shards > 1 && std::ranges::any_of(layers, has_latent))
    one.notes.emplace_back("a latent is of all heads: each GPU keeps the whole of it");
  const Index all = kv_heads(), counted = one.kv_heads();
  if (all % shards != 0)
    one.notes.push_back(std::to_string(all) + (all == 1 ? " KV head is" : " KV heads are") +
                        " not shared out evenly: " + std::to_string(counted) +
                        (counted == 1 ? " is" : " are") + " counted on each GPU");
  return one;
}

CacheSizes ModelCache::numbers(Index tokens) const {
  const CacheSizes real = bytes(tokens, CacheType::real);
  const auto of = [](Count bytes) { return bytes.value() / Index{sizeof(Real)}; };
  return {of(real.growing), of(real.windowed), of(real.once)};
}

CacheSizes ModelCache::bytes(Index tokens, const CacheRounding& rounding) const {
  CacheSizes all;
  Index number = 0;
  for (const CachedLayer& layer : layers) {
    const CacheOptions options = {
        .capacity = tokens, .rounding = rounding.of_layer(number++), .window = layer.window};
    for (const Kept& kept : layer.parts)
      (kept.per_sequence         ? all.once
       : layer.is_windowed(kept) ? all.windowed
                                 : all.growing) += cached_bytes({&kept, 1}, options, unrounded);
  }
  return all;
}

double ModelCache::bytes_per_token(const CacheRounding& rounding) const {
  double all = 0;
  Index number = 0;
  for (const CachedLayer& layer : layers) {
    const CacheRounding own = rounding.of_layer(number++);
    for (const Kept& kept : layer.parts) all += of_token(kept) * bytes_of_number(kept, own);
  }
  return all;
}

void ModelCache::require_fit(const CacheRounding& rounding) const {
  std::vector<std::vector<Kept>> keeps;
  for (const CachedLayer& layer : layers) keeps.push_back(layer.parts);
  rounding.require_fit(keeps);
  bytes(1, rounding);
  expanded().bytes(1, rounding);
}

ModelCache ModelCache::expanded() const {
  ModelCache one = *this;
  one.notes.clear();
  for (CachedLayer& layer : one.layers)
    if (!layer.expanded_parts.empty()) layer.parts = layer.expanded_parts;
  return one;
}

bool ModelCache::has_latents() const {
  return std::ranges::any_of(
      layers, [](const CachedLayer& layer) { return !layer.expanded_parts.empty(); });
}

ModelCache cache_of(const ModelPlan& model) {
  std::vector<CachedLayer> cycle;
  for (const AttentionPlan& attention : model->cycle) {
    CachedLayer& layer = cycle.emplace_back();
    layer = {attention_word(attention), cache_parts(attention), attention.window};
    for (Kept& kept : kept_by_block(*model, attention)) layer.parts.push_back(std::move(kept));
  }
  ModelCache cache{.type = model->word, .width = model->dim, .notes = attention_notes(model)};
  for (Index i = 0; i < model->layers; ++i) cache.layers.push_back(cycle[model->cycle_index(i)]);
  return cache;
}

Count kv_cache_bytes(const ModelPlan& model, Index context, const CacheRounding& rounding) {
  const ModelCache cache = cache_of(model);
  cache.require_fit(rounding);
  return cache.bytes(context, rounding).total();
}

double kv_cache_bytes_per_token(const ModelPlan& model, const CacheRounding& rounding) {
  return static_cast<double>(kv_cache_bytes(model, model->context, rounding).value()) /
         static_cast<double>(model->context);
}

}  // namespace headcount
