#include "train/cache_cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "train/cost_figures.h"
#include "train/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

// Equal layers together, in the order in which they first appear.
struct Group {
  const CachedLayer* layer;
  Index layers;
};
std::vector<Group> groups_of(const ConfigCache& cache) {
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
  const auto number = [](std::string heading, std::string key, auto of) {
    return Column<Group>{std::move(heading), std::move(key),
                         [of](const Group& g) { return decimal_text(of(*g.layer)); },
                         [of](const Group& g) { return json_number(of(*g.layer)); }};
  };
  return {{"layers", "layers", {}, [](const Group& g) { return Json(g.layers); }, false, 6},
          {"keep", "kind", {}, [](const Group& g) { return Json(g.layer->kind); }, true, 16},
          number("numbers a token", "numbers_per_token",
                 [](const CachedLayer& layer) { return layer.per_token(); }),
          number("once a sequence", "numbers_once",
                 [](const CachedLayer& layer) { return layer.once(); })};
}

double bytes_with(const std::string& attention, const ConfigCache& cache, Index context,
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
    const Count bytes = kv_cache_bytes(resolve_model(given), context, rounding);
    return static_cast<double>(bytes.value());
  } catch (const Error& error) {
    throw SettingError("`attention` ", attention, ": ", error.what());
  }
}

}  // namespace

ConfigCost::ConfigCost(ConfigCache cache, CostQuestion question)
    : cache_(std::move(cache)),
      shard_(cache_.of_shard(question.shards)),
      question_(std::move(question)) {
  for (const Index context : question_.contexts) at_.push_back(at(context));
}

double ConfigCost::free() const {
  return std::max(0.0, question_.memory.value_or(0) -
                           question_.weights.value_or(0) / static_cast<double>(question_.shards));
}

CostAt ConfigCost::at(Index context) const {
  CostAt all;
  static_cast<CacheSizes&>(all) = cache_.bytes(context, question_.rounding);
  all.context = context;
  if (cache_.has_latents())
    all.expanded = cache_.expanded().bytes(context, question_.rounding).total();
  const double on_one = shard_.bytes(context, question_.rounding).total();
  if (question_.shards > 1) all.shard = on_one;
  if (question_.memory && on_one > 0)
    all.batch_that_fits = static_cast<std::int64_t>(std::min(free() / on_one, 1e15));
  for (const std::string& attention : question_.attentions)
    all.others.emplace_back(attention, bytes_with(attention, cache_, context, question_.rounding));
  return all;
}

Index ConfigCost::longest_context() const {
  const DrawnCache cache = drawn_cache("", shard_, question_.rounding);
  const auto fit = [&](Index tokens) {
    return cache.bytes(tokens) * static_cast<double>(question_.batch) <= free();
  };
  if (fit(kAny)) return kAny;
  Index fits = 0, too_long = kAny;
  while (too_long - fits > 1) {
    const Index middle = fits + (too_long - fits) / 2;
    (fit(middle) ? fits : too_long) = middle;
  }
  return fits;
}

std::vector<Column<CostAt>> ConfigCost::columns() const {
  using At = const CostAt&;
  std::vector<Column<CostAt>> all = {
      {"context", "context", {}, [](At at) { return Json(at.context); }, false, 9}};
  const auto add = [&](std::string heading, std::string key, std::function<double(At)> of) {
    all.push_back({std::move(heading), std::move(key), [of](At at) { return binary_text(of(at)); },
                   [of](At at) { return json_number(of(at)); }});
  };
  const CostAt& first = at_.front();
  add("rows of\nall tokens", "growing_bytes", [](At at) { return at.growing; });
  add("of windows", "windowed_bytes", [](At at) { return at.windowed; });
  add("once a\nsequence", "once_bytes", [](At at) { return at.once; });
  add("one\nsequence", "cache_bytes", [](At at) { return at.total(); });
  if (first.expanded)
    add("latents\nexpanded", "expanded_bytes", [](At at) { return *at.expanded; });
  if (question_.batch > 1)
    add(std::to_string(question_.batch) + "\nsequences", "batch_bytes",
        [batch = question_.batch](At at) { return static_cast<double>(batch) * at.total(); });
  if (first.shard)
    add("on each of\n" + std::to_string(question_.shards) + " GPUs", "shard_bytes",
        [](At at) { return *at.shard; });
  if (first.batch_that_fits)
    all.push_back({"batch\nthat fits", "batch_that_fits", {}, [](At at) {
                     return Json(*at.batch_that_fits);
                   }});
  for (std::size_t i = 0; i < first.others.size(); ++i)
    add("if " + first.others[i].first, "if_" + first.others[i].first,
        [i](At at) { return at.others[i].second; });
  return all;
}

Json ConfigCost::json() const {
  const CacheSizes numbers = cache_.numbers(question_.contexts.front());
  Json result = {{"model_type", cache_.type},
                 {"cache_dtype", question_.rounding.text()},
                 {"cache_numbers",
                  {{"total", json_number(numbers.total())},
                   {"growing", json_number(numbers.growing)},
                   {"windowed", json_number(numbers.windowed)},
                   {"once", json_number(numbers.once)}}},
                 {"layers", json_rows(layer_columns(), groups_of(cache_))},
                 {"contexts", json_rows(columns(), at_)}};
  if (cache_.has_latents()) {
    result["numbers_per_token"] = json_number(cache_.per_token());
    result["expanded_numbers_per_token"] = json_number(cache_.expanded().per_token());
  }
  if (const auto context = state_context(cache_, question_.rounding))
    result["state_context"] = *context;
  if (question_.weights) result["weight_bytes"] = json_number(*question_.weights);
  if (question_.memory) result["longest_context"] = longest_context();
  return result;
}

std::string ConfigCost::text(Format format) const {
  const auto of_token = [&](const ConfigCache& cache) {
    return binary_text(cache.bytes_per_token(question_.rounding)) + " a token";
  };
  const char* const end = format == Format::markdown ? "  \n" : "\n";  // of a line in a paragraph
  const bool windows = cache_.numbers(question_.contexts.front()).windowed > 0;
  std::string text = cache_.type + ", " + counted(std::ssize(cache_.layers), "layer") + "; " +
                     of_token(cache_) + (windows ? " before windows are full" : "") + end;
  if (cache_.has_latents())
    text += "latents as published; engines that expand them to keys and values of all heads keep " +
            of_token(cache_.expanded()) + end;
  text += "cached rows take " + stored_text(question_.rounding, CacheType::bf16) + "\n\n" +
          text_table(layer_columns(), groups_of(cache_), format) + '\n' +
          text_table(columns(), at_, format);
  for (const std::string& more : {state_text(), memory_text(end)}) {
    if (!more.empty()) text += '\n' + more + '\n';
  }
  return text;
}

std::string ConfigCost::state_text() const {
  const auto context = state_context(cache_, question_.rounding);
  if (!context) return "";
  return "from a context of " + counted(*context, "token") +
         " on, the state of a layer takes no more bytes than the rows of another";
}

std::string ConfigCost::memory_text(const char* end) const {
  if (!question_.memory) return "";
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

Json ConfigCost::figures(const std::string& name) const {
  const std::string part = question_.shards > 1 ? ", 1/" + std::to_string(question_.shards) : "";
  std::vector<DrawnCache> caches = {drawn_cache(name + part, shard_, question_.rounding)};
  for (const std::string& attention : question_.attentions) {
    const auto bytes = [this, attention](Index context) {
      return bytes_with(attention, cache_, context, question_.rounding);
    };
    caches.push_back({attention, Json::array(), bytes});
  }
  std::optional<Room> room;
  if (question_.memory)
    room = {free(), question_.weights ? binary_text(free()) + " beside the weights"
                                      : binary_text(*question_.memory) + " of memory"};
  return cost_figures(caches, question_.contexts, question_.batch, room);
}

std::optional<Index> state_context(const ConfigCache& cache, const CacheRounding& rounding) {
  double row = 0, state = 0;
  for (const CachedLayer& layer : cache.layers) {
    double rows = 0, once = 0;
    for (const Kept& kept : layer.parts) {
      const double bytes = static_cast<double>(kept.numbers()) * bytes_of_number(kept, rounding) /
                           static_cast<double>(std::max<Index>(1, kept.block));
      if (!layer.is_windowed(kept)) (kept.per_sequence ? once : rows) += bytes;
    }
    row = std::max(row, rows);
    state = std::max(state, once);
  }
  if (row == 0 || state == 0) return {};
  return static_cast<Index>(std::ceil(state / row));
}

}  // namespace headcount
