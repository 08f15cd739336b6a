#include "train/cache_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "models/cost.h"
#include "train/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel

// Points of a curve, tokens and bytes of `batch` sequences: at powers of two from 1024 tokens on,
// until the bytes exceed `most`, and at the contexts themselves.
Json points_of(const ModelCache& cache, const CacheRounding& rounding,
               const std::vector<Index>& contexts, Index batch, double most) {
  constexpr Index kFirst = 1 << 10, kLast = 1 << 27;
  const auto bytes = [&](Index tokens) {
    return static_cast<double>(batch) *
           static_cast<double>(cache.bytes(tokens, rounding).total().value());
  };
  std::set<Index> points(contexts.begin(), contexts.end());
  std::int64_t tokens = std::min(kFirst, contexts.front());
  const auto goes_on = [&] {
    return tokens < contexts.back() ||
           (tokens <= kLast && bytes(static_cast<Index>(tokens / 2)) < most);
  };
  for (; goes_on(); tokens *= 2) points.insert(static_cast<Index>(tokens));
  Json all = Json::array();
  for (const Index point : points) all.push_back({point, bytes(point)});
  return all;
}

}  // namespace

Json cache_layers(const ModelCache& cache, const CacheRounding& rounding) {
  Json layers = Json::array();
  for (const CachedLayer& layer : cache.layers) {
    Json blocks = Json::array();
    for (const Kept& kept : layer.parts) {
      Json block = {{"name", kept.name},   {"heads", kept.heads},
                    {"width", kept.width}, {"window", kept.block > 0 ? 0 : layer.window},
                    {"block", kept.block}, {"bytes", bytes_of_number(kept, rounding)}};
      if (kept.per_sequence) block["per_sequence"] = true;
      blocks.push_back(std::move(block));
    }
    layers.push_back(std::move(blocks));
  }
  return layers;
}

std::string stored_text(const CacheRounding& rounding, CacheType unrounded) {
  std::string text;
  const auto add = [&](const std::string& part, CacheType type) {
    const CacheTypeRow& row = row_of(type);
    const Index group = rounding.all.group;
    const bool whole = row.bits % 8 == 0;
    text += (text.empty() ? "" : ", ") + part +
            (whole ? counted(row.bits / 8, "byte") : counted(row.bits, "bit")) + " a number";
    if (row.scale_bytes > 0)
      text += " and " + std::to_string(row.scale_bytes) + (whole ? " a " : " bytes a ") +
              (group > 0 ? "group of " + std::to_string(group) : "row");
    text += " (" + std::string(row.name) + ")";
  };
  if (rounding.parts.empty()) add("", rounding.all.type);
  for (const auto& [part, type] : rounding.parts) add(part + " ", type);
  if (rounding.all.recent > 0)
    add("of the last " + std::to_string(rounding.all.recent) + " tokens ", unrounded);
  return text + ", states " + std::to_string(kStateBytes) + " (f32)";
}

Json cost_figures(const std::vector<NamedCache>& caches, const CacheRounding& rounding,
                  const std::vector<Index>& contexts, Index batch,
                  const std::optional<Room>& room) {
  Json drawn = Json::array();
  for (const auto& [name, cache] : caches) {
    Json one = {{"spec", name},
                {"points", points_of(cache, rounding, contexts, batch, room ? room->bytes : 0)}};
    if (std::ssize(cache.layers) <= kMostDrawn) one["cache"] = cache_layers(cache, rounding);
    drawn.push_back(std::move(one));
  }
  Json figures = {{"contexts", contexts}, {"batch", batch}, {"caches", std::move(drawn)}};
  if (room) figures["room"] = {{"bytes", room->bytes}, {"name", room->name}};
  return figures;
}

namespace {

// Equal layers together, in the order in which they first appear.
struct Group {
  const CachedLayer* layer;
  Index layers;
};
std::vector<Group> groups_of(const ModelCache& cache) {
  std::vector<Group> groups;
  const auto numbers = [](const CachedLayer& layer) {
    return std::tuple(layer.kind, layer.per_token(), layer.once());
  };
  for (const CachedLayer& layer : cache.layers) {
    const auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return numbers(*group.layer) == numbers(layer); });
    if (same == groups.end()) {
      groups.push_back({&layer, 1});
    } else {
      ++same->layers;
    }
  }
  return groups;
}

std::vector<Column<Group>> layer_columns() {
  const auto number = [](const char* heading, const char* key, double (CachedLayer::*of)() const) {
    return number_column<Group>(
        heading, key, [=](const Group& g) { return json_number((g.layer->*of)()); }, decimal_text);
  };
  return {{"layers", "layers", {}, [](const Group& g) { return Json(g.layers); }, false, 6},
          {"keep", "kind", {}, [](const Group& g) { return Json(g.layer->kind); }, true, 16},
          number("numbers a token", "numbers_per_token", &CachedLayer::per_token),
          number("once a sequence", "numbers_once", &CachedLayer::once)};
}

// The cache of a model of the same sizes with another attention.
ModelCache with_attention(const std::string& attention, const ModelCache& cache,
                          const CacheRounding& rounding) {
  if (cache.head_dim == 0)
    throw SettingError("`attention`: the configuration's attention is not of ordinary heads");
  Given given(model_settings());
  nlohmann::json sizes = released_latents();
  sizes.update({{"attention", attention},
                {"layers", std::ssize(cache.layers)},
                {"dim", cache.width},
                {"heads", cache.heads},
                {"head-dim", cache.head_dim}});
  try {
    given.put(sizes);
    ModelCache other = cache_of(resolve_model(given));
    other.require_fit(rounding);
    return other;
  } catch (const Error& error) {
    throw SettingError("`attention` {}: {}", attention, error.what());
  }
}

// A cache, and what is asked of it.
class CacheCost {
 public:
  CacheCost(const ModelCache& cache, const CostQuestion& question)
      : cache_(cache), shard_(cache.of_shard(question.shards)), question_(question) {
    for (const std::string& attention : question.attentions)
      others_.push_back({attention, with_attention(attention, cache, question.rounding)});
  }

  std::string text(Format format) const {
    const auto of_token = [&](const ModelCache& cache) {
      return binary_text(cache.bytes_per_token(question_.rounding)) + " a token";
    };
    const char* const end = format == Format::markdown ? "  \n" : "\n";  // of a line in a paragraph
    const bool windows = cache_.numbers(1).windowed.value() > 0;
    std::string text = cache_.type + ", " + counted(std::ssize(cache_.layers), "layer") + "; " +
                       of_token(cache_) + (windows ? " before windows are full" : "") + end;
    if (cache_.has_latents())
      text +=
          "latents as published; engines that expand them to keys and values of all heads keep " +
          of_token(cache_.expanded()) + end;
    text += "cached rows take " + stored_text(question_.rounding, cache_.unrounded) + "\n\n" +
            text_table(layer_columns(), groups_of(cache_), format) + '\n' +
            text_table(columns(), question_.contexts, format);
    if (const auto context = state_context())
      text += "\nfrom a context of " + counted(*context, "token") +
              " on, the state of a layer takes no more bytes than the rows of another\n";
    return text + (question_.memory ? '\n' + memory_text(end) + '\n' : "");
  }

  Json json() const {
    const CacheSizes numbers = cache_.numbers(question_.contexts.front());
    Json result = {{"model_type", cache_.type},
                   {"cache_dtype", question_.rounding.text()},
                   {"cache_numbers",
                    {{"total", numbers.total().value()},
                     {"growing", numbers.growing.value()},
                     {"windowed", numbers.windowed.value()},
                     {"once", numbers.once.value()}}},
                   {"layers", json_rows(layer_columns(), groups_of(cache_))},
                   {"contexts", json_rows(columns(), question_.contexts)}};
    if (cache_.has_latents()) {
      result["numbers_per_token"] = json_number(cache_.per_token());
      result["expanded_numbers_per_token"] = json_number(cache_.expanded().per_token());
    }
    if (const auto context = state_context()) result["state_context"] = *context;
    if (question_.weights) result["weight_bytes"] = json_number(*question_.weights);
    if (question_.memory) result["longest_context"] = longest_context();
    return result;
  }

  Json figures() const {
    const std::string part = question_.shards > 1 ? ", 1/" + std::to_string(question_.shards) : "";
    std::vector<NamedCache> caches = {{cache_.type + part, shard_}};
    caches.insert(caches.end(), others_.begin(), others_.end());
    std::optional<Room> room;
    if (question_.memory)
      room = {free(), question_.weights ? binary_text(free()) + " beside the weights"
                                        : binary_text(*question_.memory) + " of memory"};
    return cost_figures(caches, question_.rounding, question_.contexts, question_.batch, room);
  }

 private:
  // The cache of one sequence.
  double bytes(const ModelCache& cache, Index context) const {
    return static_cast<double>(cache.bytes(context, question_.rounding).total().value());
  }

  // Bytes for caches.
  double free() const {
    return std::max(0.0, question_.memory.value_or(0) -
                             question_.weights.value_or(0) / static_cast<double>(question_.shards));
  }

  // Tokens that `batch` sequences may have; kAny if all fit.
  Index longest_context() const {
    const auto fit = [&](Index tokens) {
      return bytes(shard_, tokens) * static_cast<double>(question_.batch) <= free();
    };
    if (fit(kAny)) return kAny;
    Index fits = 0, too_long = kAny;
    while (too_long - fits > 1) {
      const Index middle = fits + (too_long - fits) / 2;
      (fit(middle) ? fits : too_long) = middle;
    }
    return fits;
  }

  // The context from which on the rows in a layer take as many bytes as a layer's state; none if
  // the model has not both.
  std::optional<Index> state_context() const {
    double row = 0, state = 0;
    for (const CachedLayer& layer : cache_.layers) {
      double rows = 0, once = 0;
      for (const Kept& kept : layer.parts) {
        const double bytes = static_cast<double>(kept.numbers()) *
                             bytes_of_number(kept, question_.rounding) /
                             static_cast<double>(std::max<Index>(1, kept.block));
        if (!layer.is_windowed(kept)) (kept.per_sequence ? once : rows) += bytes;
      }
      row = std::max(row, rows);
      state = std::max(state, once);
    }
    if (row == 0 || state == 0) return {};
    return static_cast<Index>(std::ceil(state / row));
  }

  // Columns of a row for each context.
  std::vector<Column<Index>> columns() const {
    std::vector<Column<Index>> all = {
        {"context", "context", {}, [](Index context) { return Json(context); }, false, 9}};
    const auto add = [&](const std::string& heading, const std::string& key, auto of) {
      all.push_back(number_column<Index>(
          heading, key, [of](Index context) { return json_number(of(context)); }, binary_text));
    };
    const auto add_part = [&](const char* heading, const char* key, Count CacheSizes::*part) {
      add(heading, key, [this, part](Index context) {
        return static_cast<double>((cache_.bytes(context, question_.rounding).*part).value());
      });
    };
    const auto add_total = [&](const std::string& heading, const std::string& key,
                               const ModelCache& cache, Index sequences = 1) {
      add(heading, key, [this, cache, sequences](Index context) {
        return static_cast<double>(sequences) * bytes(cache, context);
      });
    };
    add_part("rows of\nall tokens", "growing_bytes", &CacheSizes::growing);
    add_part("of windows", "windowed_bytes", &CacheSizes::windowed);
    add_part("once a\nsequence", "once_bytes", &CacheSizes::once);
    add_total("one\nsequence", "cache_bytes", cache_);
    if (cache_.has_latents()) add_total("latents\nexpanded", "expanded_bytes", cache_.expanded());
    if (question_.batch > 1)
      add_total(std::to_string(question_.batch) + "\nsequences", "batch_bytes", cache_,
                question_.batch);
    if (question_.shards > 1)
      add_total("on each of\n" + std::to_string(question_.shards) + " GPUs", "shard_bytes", shard_);
    if (question_.memory && bytes(shard_, question_.contexts.front()) > 0)
      all.push_back({"batch\nthat fits", "batch_that_fits", {}, [this](Index context) {
                       const double fit = std::min(free() / bytes(shard_, context), 1e15);
                       return Json(static_cast<std::int64_t>(fit));
                     }});
    for (const auto& [attention, cache] : others_)
      add_total("if " + attention, "if_" + attention, cache);
    return all;
  }

  // Ends all lines but the last one by `end`.
  std::string memory_text(const char* end) const {
    const std::string on_each =
        question_.shards > 1 ? " on each of " + std::to_string(question_.shards) + " GPUs" : "";
    std::string text = binary_text(*question_.memory) + " of memory" + on_each + ", ";
    text += question_.weights
                ? binary_text(*question_.memory - free()) + " of them for weights"
                : std::string("weights left out (no model.safetensors beside the file)");
    text += end + ("longest context of " + counted(question_.batch, "sequence")) + ": ";
    if (free() <= 0) return text + "none, the weights do not fit";
    const Index longest = longest_context();
    return text + (longest == kAny ? "any" : counted(longest, "token"));
  }

  static constexpr Index kAny = 2'147'483'647;  // no model has as many positions
  ModelCache cache_, shard_;
  CostQuestion question_;
  std::vector<NamedCache> others_;
};

}  // namespace

CostAnswer cost_of_cache(const ModelCache& cache, const CostQuestion& question) {
  const CacheCost cost(cache, question);
  const Json json = cost.json();
  return {[=](Format format) { return cost.text(format); }, json, json["contexts"], cost.figures()};
}

}  // namespace headcount
