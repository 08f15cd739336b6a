#include "train/show/cache_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "train/show/cache_terms.h"
#include "train/show/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

// Points of a curve, tokens and `bytes` of them: at powers of two from 1024 tokens on, until the
// bytes exceed `most`, and at the contexts themselves.
Json points_of(const std::function<double(Index)>& bytes, const std::vector<Index>& contexts,
               double most) {
  constexpr Index kFirst = 1 << 10, kLast = 1 << 27;
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

// A context in a heading: "4 k", "1 M", "100".
std::string context_text(Index context) {
  constexpr Index kKilo = 1024, kMega = kKilo * kKilo;
  if (context % kKilo != 0) return std::to_string(context);
  return context % kMega == 0 ? std::to_string(context / kMega) + " M"
                              : std::to_string(context / kKilo) + " k";
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

void note_states(ModelCache& cache) {
  if (std::ranges::any_of(cache.layers, [](const CachedLayer& layer) { return layer.once() > 0; }))
    cache.notes.push_back(
        "states and convolutions are counted in f32, 4 bytes a number, whatever --cache-dtype "
        "says; vLLM keeps them in the type of the model");
}

namespace {

// Bytes of all sequences.
double bytes_of(const CostTable& q, const ModelCache& cache, Index context) {
  return static_cast<double>(q.batch) *
         static_cast<double>(cache.bytes(context, q.rounding).total().value());
}

double free_memory(const CostTable& q) {
  return std::max(0.0,
                  q.memory.value_or(0) - q.weights.value_or(0) / static_cast<double>(q.shards));
}

// Tokens that each sequence may have; none if any number fits.
std::optional<Index> longest_context(const CostTable& q, const ModelCache& cache) {
  constexpr Index kAny = 2'147'483'647;  // no model has as many positions
  const auto fit = [&](Index tokens) { return bytes_of(q, cache, tokens) <= free_memory(q); };
  if (fit(kAny)) return {};
  Index fits = 0, too_long = kAny;
  while (too_long - fits > 1) {
    const Index middle = fits + (too_long - fits) / 2;
    (fit(middle) ? fits : too_long) = middle;
  }
  return fits;
}

// Sequences of so many tokens that fit; none if any number does.
std::optional<Index> sequences_of(const CostTable& q, const ModelCache& cache, Index context) {
  constexpr double kAny = 2'147'483'647;
  const double one = bytes_of(q, cache, context) / static_cast<double>(q.batch);
  if (free_memory(q) >= kAny * one) return {};
  return static_cast<Index>(free_memory(q) / one);
}

std::string count_text(const std::optional<Index>& count) {
  return count ? thousands_text(static_cast<double>(*count)) : "any";
}

// The context from which on the rows in a layer take as many bytes as another layer's state; none
// if the model has not both.
std::optional<std::int64_t> state_context(const ModelCache& cache, const CacheRounding& rounding) {
  double rows = 0, state = 0;
  for (const CachedLayer& layer : cache.layers) {
    ModelCache one;
    one.layers = {layer};
    if (layer.has_state()) {
      state = std::max(state, layer.once() * static_cast<double>(kStateBytes));
    } else {
      rows = std::max(rows, slopes_of(one, rounding).back().bytes);
    }
  }
  if (rows == 0 || state == 0) return {};
  return static_cast<std::int64_t>(std::ceil(state / rows));
}

// Notes on caches, of all but the first with its name.
std::vector<std::string> notes_of(const std::vector<CostRow>& rows) {
  std::vector<std::string> all;
  for (const CostRow& row : rows) {
    if (row.is_form) continue;
    const std::string of = &row == &rows.front() ? "" : row.name + ": ";
    for (const std::string& note : row.cache.notes) all.push_back(printable(of + note));
  }
  return all;
}

// What engines log of a cache: "48 KiB + 98,304 B a token until 4096, then 16,384 B a token".
std::string bytes_text(const ModelCache& cache, const CacheRounding& rounding) {
  const Count once = cache.bytes(1, rounding).once;
  const std::vector<Slope> slopes = slopes_of(cache, rounding);
  std::string text = once.value() > 0 ? binary_text(static_cast<double>(once.value())) : "";
  if (!text.empty() && slopes.size() == 1 && slopes.front().bytes == 0) return text + " a sequence";
  for (const Slope& slope : slopes) {
    if (!text.empty()) text += &slope == &slopes.front() ? " + " : ", then ";
    text += thousands_text(slope.bytes) + " B a token";
    if (slope.until > 0) text += " until " + std::to_string(slope.until);
  }
  return text;
}

constexpr const char* kNoWeights =
    "weights left out (no whole model*.safetensors beside a config.json)";

std::vector<std::string> memory_sentences(const CostTable& q) {
  const ModelCache& cache = q.rows.front().cache;
  const std::string memory =
      binary_text(*q.memory) + " of memory" + (q.shards > 1 ? " on each GPU" : "") + ", ";
  const std::string size = binary_text(q.weights.value_or(0) / static_cast<double>(q.shards));
  if (free_memory(q) == 0) return {memory + "which weights of " + size + " do not fit"};
  const std::string weights =
      q.weights ? size + " of it for weights:" : std::string(kNoWeights) + ":";
  const std::optional<Index> longest = longest_context(q, cache);
  std::string fit = "  " + (q.batch == 1 ? "one sequence" : counted(q.batch, "sequence")) + " of " +
                    (longest ? "up to " + count_text(longest) : "any number of") + " tokens";
  if (cache.context > 0 && (!longest || *longest > cache.context))
    fit += " (the model has " + count_text(cache.context) + " positions)";
  for (const Index context : q.contexts)
    fit += ", " + count_text(sequences_of(q, cache, context)) + " of " + std::to_string(context);
  return {memory + weights, fit};
}

// The bytes of the first row, the sum that they are, and what fits into memory.
std::vector<std::string> sentences(const CostTable& q) {
  const CostRow& row = q.rows.front();
  const std::string type = row.name == row.cache.type ? "" : " (" + row.cache.type + ")";
  std::vector<std::string> all = {row.name + type + ", " +
                                  counted(std::ssize(row.cache.layers), "layer") + ": " +
                                  bytes_text(row.cache, q.rounding)};
  for (const Term& term : terms_of(row.cache, q.rounding)) all.push_back("  " + term.text());
  if (const auto context = state_context(row.cache, q.rounding))
    all.push_back("from a context of " + counted(*context, "token") +
                  " on, the state of a layer takes no more bytes than the rows of another");
  for (const std::string& note : notes_of({row})) all.push_back("note: " + note);
  if (!q.memory) return all;
  for (const std::string& sentence : memory_sentences(q)) all.push_back(sentence);
  return all;
}

bool has_costs(const std::vector<CostRow>& rows) {
  return std::ranges::any_of(rows, [](const CostRow& row) { return row.costs.has_value(); });
}

// What the ends of names in the table mean.
std::vector<std::string> legend(const CostTable& q) {
  std::vector<std::string> all;
  for (const auto& [end, meaning] :
       {std::pair{"-absorbed", "attention reads latents themselves, as in decoding"},
        {"-merged", "the same with kv_b_proj multiplied into other projections"},
        {", expanded", "engines that hold keys and values of all heads instead of latents"}}) {
    if (std::ranges::any_of(q.rows,
                            [end = end](const CostRow& row) { return row.name.ends_with(end); }))
      all.push_back(std::string(end).substr(*end == ',' ? 2 : 0) + ": " + meaning);
  }
  return all;
}

// What the numbers of the table are.
std::vector<std::string> headings(const CostTable& q) {
  std::string text = "KV cache of " +
                     (q.batch == 1 ? "one sequence" : counted(q.batch, "sequence")) + " in " +
                     q.rounding.text();
  if (q.shards > 1) text += ", on each of " + std::to_string(q.shards) + " GPUs";
  std::vector<std::string> all = {text + ", all layers; numbers are of one layer"};
  if (has_costs(q.rows))
    all.push_back("Parameters and MACs (multiply-accumulates) of attention" +
                  std::string(q.shards > 1 ? " on all GPUs" : "") + ": means per layer, at " +
                  counted(q.costs_at, "token"));
  if (q.is_list && q.memory) all.push_back(binary_text(*q.memory) + " of memory, " + kNoWeights);
  return all;
}

// A name in a table: its beginning and end if it is a long pattern.
std::string short_name(const std::string& name) {
  constexpr std::size_t kBegin = 12, kEnd = 18;
  if (name.size() <= kBegin + kEnd + 3 || name.find('/') == name.npos) return name;
  return name.substr(0, kBegin) + "..." + name.substr(name.size() - kEnd);
}

// Columns of the table, which must live as long; for people, those with a heading.
std::vector<Column<CostRow>> cost_columns(const CostTable& q) {
  const auto layers = [](const CostRow& row) {
    return static_cast<double>(row.cache.layers.size());
  };
  std::vector<Column<CostRow>> all = {{q.is_list ? "model" : "attention", "name",
                                       [](const CostRow& row) { return short_name(row.label()); },
                                       [](const CostRow& row) { return row.name; }, true}};
  const auto add = [&](const std::string& heading, const std::string& key,
                       std::string (*text)(double), std::function<Json(const CostRow&)> value) {
    const auto word = [=](const CostRow& row) {
      const Json number = value(row);
      return number.is_null() ? std::string("-") : text(number.get<double>());
    };
    all.push_back({heading, key, word, value});
  };
  const auto add_costs = [&](const char* heading, const char* key, Count Costs::*count) {
    add(heading, key, decimal_text, [=](const CostRow& row) {
      if (!row.costs) return Json();
      const std::int64_t total = ((*row.costs).*count).value(), many = std::ssize(row.cache.layers);
      if (total % many == 0) return Json(total / many);
      return Json(static_cast<double>(total) / static_cast<double>(many));
    });
  };
  if (has_costs(q.rows)) {
    add_costs("parameters", "params_per_layer", &Costs::parameters);
    add_costs("linear\nMACs/token", "linear_macs_per_token_per_layer",
              &Costs::linear_macs_per_token);
    add_costs("pairs,\nMACs of\nprefill", "prefill_attention_macs_per_layer", &Costs::prefill_macs);
    add_costs("pairs,\nMACs/new\ntoken", "decode_attention_macs_per_layer", &Costs::decode_macs);
    add_costs("expansion\nMACs/token", "decode_expansion_macs_per_layer", &Costs::expansion_macs);
  }
  if (std::ranges::any_of(q.rows, [](const CostRow& row) { return row.replaced.has_value(); }))
    add("", "replaced_layers", decimal_text,
        [](const CostRow& row) { return row.replaced ? Json(*row.replaced) : Json(); });
  add("numbers/\ntoken", "cache_elements_per_token_per_layer", decimal_text,
      [=](const CostRow& row) { return json_number(row.cache.per_token() / layers(row)); });
  add("a token", "cache_bytes_per_token", binary_text,
      [&q](const CostRow& row) { return json_number(row.cache.bytes_per_token(q.rounding)); });
  add("", "cache_bytes_per_token_after_windows", binary_text, [&q](const CostRow& row) {
    return json_number(slopes_of(row.cache, q.rounding).back().bytes);
  });
  add("", "cache_bytes_per_sequence", binary_text, [&q](const CostRow& row) {
    return json_number(static_cast<double>(row.cache.bytes(1, q.rounding).once.value()));
  });
  for (const Index context : q.contexts)
    add("at " + context_text(context), "cache_bytes_at_" + std::to_string(context), binary_text,
        [&q, context](const CostRow& row) { return json_number(bytes_of(q, row.cache, context)); });
  const auto add_fits = [&](const std::string& heading, const std::string& key, auto of) {
    all.push_back({heading, key, [=](const CostRow& row) { return count_text(of(row.cache)); },
                   [=](const CostRow& row) {
                     const std::optional<Index> count = of(row.cache);
                     return count ? Json(*count) : Json();
                   }});
  };
  if (q.memory) {
    add_fits("longest\ncontext", "longest_context",
             [&q](const ModelCache& cache) { return longest_context(q, cache); });
    for (const Index context : q.contexts)
      add_fits("sequences\nof " + context_text(context), "sequences_of_" + std::to_string(context),
               [&q, context](const ModelCache& cache) { return sequences_of(q, cache, context); });
  }
  if (q.is_list)
    all.push_back({"source", "source", {}, [](const CostRow& row) { return row.source; }, true});
  return all;
}

}  // namespace

std::string CostTable::text(Format format, std::size_t width) const {
  const CostTable& q = *this;
  std::string text;
  const auto add = [&](const std::string& line) {  // of a paragraph
    text += line + (format == Format::markdown ? "  \n" : "\n");
  };
  if (!q.is_list) {
    std::ranges::for_each(sentences(q), add);
    text += '\n';
  }
  std::ranges::for_each(headings(q), add);
  std::vector<Column<CostRow>> columns = cost_columns(q);
  std::erase_if(columns, [](const auto& column) { return column.heading.empty(); });
  std::vector<std::string_view> rare;
  for (const auto& column : columns)  // those of the first row stand above
    if (column.key.starts_with("sequences_of_")) rare.push_back(column.key);
  for (const char* key : {"cache_elements_per_token_per_layer", "decode_expansion_macs_per_layer",
                          "prefill_attention_macs_per_layer", "linear_macs_per_token_per_layer",
                          "decode_attention_macs_per_layer", "params_per_layer"})
    rare.emplace_back(key);
  text += '\n' + text_table(columns, q.rows, format, width, rare);
  std::ranges::for_each(legend(q), add);
  const std::vector<std::string> notes = notes_of(q.rows);
  const std::size_t first = q.rows.front().cache.notes.size();  // which stand above
  if (!q.is_list && notes.size() > first) text += '\n';
  for (std::size_t i = q.is_list ? 0 : first; i < notes.size(); ++i) add("note: " + notes[i]);
  return text;
}

Json CostTable::json() const {
  const CostTable& q = *this;
  Json result = {{"cache_dtype", q.rounding.text()},
                 {"contexts", q.contexts},
                 {"batch", q.batch},
                 {"shards", q.shards}};
  if (has_costs(q.rows)) result["macs_at"] = q.costs_at;
  if (q.memory) {
    result["memory_bytes"] = json_number(*q.memory);
    result["weight_bytes"] = q.weights ? json_number(*q.weights) : Json();
  }
  if (!q.is_list) {
    const ModelCache& cache = q.rows.front().cache;
    result["model_type"] = cache.type;
    result["layers"] = cache.layers.size();
    result["bytes_per_sequence"] = cache.bytes(1, q.rounding).once.value();
    for (const Slope& slope : slopes_of(cache, q.rounding))
      result["bytes_per_token"].push_back({{"until", slope.until > 0 ? Json(slope.until) : Json()},
                                           {"bytes", json_number(slope.bytes)}});
    result["terms"] = Json::array();
    for (const Term& term : terms_of(cache, q.rounding)) result["terms"].push_back(term.json());
    if (const auto context = state_context(cache, q.rounding)) result["state_context"] = *context;
    result["notes"] = notes_of(q.rows);
  }
  result["rows"] = json_rows(cost_columns(q), q.rows);
  return result;
}

Json CostTable::figures() const {
  constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel
  const CostTable& q = *this;
  const double room = free_memory(q);
  Json drawn = Json::array();
  for (const CostRow& row : q.rows) {
    if (row.is_form) continue;
    Json one = {{"spec", short_name(row.label())},
                {"points", points_of([&](Index tokens) { return bytes_of(q, row.cache, tokens); },
                                     q.contexts, room)}};
    if (std::ssize(row.cache.layers) <= kMostDrawn)
      one["cache"] = cache_layers(row.cache, q.rounding);
    drawn.push_back(std::move(one));
  }
  Json figures = {{"contexts", q.contexts}, {"batch", q.batch}, {"caches", std::move(drawn)}};
  if (q.memory)
    figures["room"] = {
        {"bytes", room},
        {"name", binary_text(room) + (q.weights ? " beside the weights" : " of memory")}};
  return figures;
}

}  // namespace headcount
