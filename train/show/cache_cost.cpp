#include "train/show/cache_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "autograd/base/text.h"
#include "train/show/cache_terms.h"
#include "train/show/units.h"

namespace headcount {

namespace {

double once_bytes(const CostTable& q, const ModelCache& cache) {
  return static_cast<double>(cache.bytes(1, q.rounding).once.value());
}

// The context from which on the rows in a layer take as many bytes as another layer's state; null
// if the model has not both.
Json state_context(const CostTable& q) {
  double rows = 0, state = 0;
  Index number = 0;
  for (const CachedLayer& layer : q.rows.front().cache.layers) {
    const CacheRounding rounding = q.rounding.of_layer(number++);
    const ModelCache one = {.layers = {layer}};
    if (layer.has_state())
      state = std::max(state, once_bytes(q, one));
    else
      rows = std::max(rows, slopes_of(terms_of(one, rounding)).back().bytes);
  }
  if (rows == 0 || state == 0) return {};
  return static_cast<std::int64_t>(std::ceil(state / rows));
}

constexpr std::int32_t kAny = 2'147'483'647;  // tokens or sequences: nobody has as many

// Tokens that each sequence may have; null if any number fits.
Json longest_context(const CostTable& q, const ModelCache& cache) {
  Index fits = 0, too_long = kAny;
  while (too_long - fits > 1) {
    const Index middle = fits + (too_long - fits) / 2;
    (q.bytes(cache, middle) <= q.free_memory() ? fits : too_long) = middle;
  }
  return too_long == kAny ? Json() : Json(fits);
}

// Sequences of so many tokens that fit; null if any number does.
Json sequences_of(const CostTable& q, const ModelCache& cache, Index context) {
  const double one = q.bytes(cache, context) / static_cast<double>(q.batch);
  return q.free_memory() >= kAny * one ? Json() : Json(static_cast<Index>(q.free_memory() / one));
}

std::string number_or(const char* otherwise, std::string (*text)(double), const Json& number) {
  return number.is_null() ? otherwise : text(number.get<double>());
}

bool any_row(const CostTable& q, const std::function<bool(const CostRow&)>& has) {
  return std::ranges::any_of(q.rows, has);
}
bool has_costs(const CostRow& row) { return row.costs.has_value(); }

// Notes on the caches, each once, with the names of the rows but for the first, and on how they are
// counted.
std::vector<std::string> notes_of(const CostTable& q) {
  std::vector<std::pair<std::string, std::string>> notes;  // with the names of their rows
  std::string defaults;
  bool has_states = false;  // of a configuration
  for (const CostRow& row : q.rows) {
    if (row.is_form) continue;
    const bool is_first = !q.is_list && &row == &q.rows.front();
    for (const std::string& note : row.cache.notes) {
      const auto before = std::ranges::find(notes, note, &decltype(notes)::value_type::first);
      if (before == notes.end())
        notes.emplace_back(note, is_first ? "" : row.name);
      else if (!before->second.empty())
        before->second += ", " + row.name;
    }
    if (!row.defaults.empty())
      defaults += (defaults.empty() ? "" : ", ") + row.name + " is " + row.defaults;
    has_states = has_states || (!q.is_list && row.cache.unrounded != CacheType::real &&
                                once_bytes(q, row.cache) > 0);
  }
  std::vector<std::string> all;
  for (const auto& [note, names] : notes)
    all.push_back(printable(names.empty() ? note : names + ": " + note));
  if (has_states)
    all.emplace_back(
        "states and convolutions are counted in f32, 4 bytes a number, whatever the "
        "type of the cache; vLLM keeps them in the type of the model");
  if (!defaults.empty())
    all.push_back("numbers that are not in a name are this program's defaults: " + defaults);
  return all;
}

constexpr const char* kNoWeights =
    "weights not counted (no model*.safetensors beside a config.json)";

void add_memory(const CostTable& q, std::vector<std::string>& lines) {
  const ModelCache& cache = q.rows.front().cache;
  const std::string memory =
      binary_text(*q.memory) + " of memory" + (q.shards > 1 ? " on each GPU" : "") + ", ";
  const std::string size = binary_text(q.weights.value_or(0) / static_cast<double>(q.shards));
  if (q.free_memory() == 0)
    return lines.push_back(memory + "which weights of " + size + " do not fit");
  lines.push_back(
      memory + (q.weights ? size + " of it for weights:" : kNoWeights + std::string(", at most:")));
  const Json longest = longest_context(q, cache);
  if (longest == 0) return lines.push_back("  not one sequence fits");
  const std::string fits = number_or("any number of", thousands_text, longest);
  lines.push_back("  " + (q.batch == 1 ? "one sequence" : counted(q.batch, "sequence")) + " of " +
                  (longest.is_null() ? "" : "up to ") + fits + " tokens");
  if (cache.context > 0 && (longest.is_null() || longest > cache.context))
    lines.back() +=
        " (the model has " + thousands_text(static_cast<double>(cache.context)) + " positions)";
  for (const Index context : q.contexts)
    lines.back() += ", " + number_or("any", thousands_text, sequences_of(q, cache, context)) +
                    " of " + std::to_string(context);
}

// What stands above the table: the bytes of the first row, the sum that they are, and what fits
// into memory; and what the numbers of the table are.
std::vector<std::string> sentences(const CostTable& q) {
  std::vector<std::string> lines;
  if (!q.is_list) {
    const CostRow& row = q.rows.front();
    const std::string type = row.name == row.cache.type ? "" : " (" + row.cache.type + ")";
    const std::vector<Term> terms = terms_of(row.cache, q.rounding);
    lines = {row.name + type + ", " + counted(std::ssize(row.cache.layers), "layer") + ": " +
             bytes_text(slopes_of(terms), once_bytes(q, row.cache))};
    for (const Term& term : terms) lines.push_back("  " + term.text());
    if (const Json context = state_context(q); !context.is_null())
      lines.push_back("from a context of " + counted(context, "token") +
                      " on, the state of a layer takes no more bytes than the rows of another");
    if (q.memory) add_memory(q, lines);
    lines.emplace_back();
  }
  lines.push_back("KV cache of " + (q.batch == 1 ? "one sequence" : counted(q.batch, "sequence")) +
                  " in " + q.rounding.text() +
                  (q.shards > 1 ? ", on each of " + std::to_string(q.shards) + " GPUs" : "") +
                  ", all layers; numbers are of one layer");
  if (any_row(q, has_costs))
    lines.push_back("Parameters and MACs (multiply-accumulates) of attention" +
                    std::string(q.shards > 1 ? " on all GPUs" : "") + ": means per layer, at " +
                    counted(q.costs_at, "token"));
  if (q.is_list && q.memory) lines.push_back(binary_text(*q.memory) + " of memory, " + kNoWeights);
  return lines;
}

// A context in a heading: "4 k", "1 M", "100".
std::string context_text(Index context) {
  for (const auto& [unit, name] : {std::pair{1 << 20, " M"}, {1 << 10, " k"}})
    if (context % unit == 0) return std::to_string(context / unit) + name;
  return std::to_string(context);
}

// Costs in columns, in their order: heading, key.
constexpr std::tuple<const char*, const char*, Count Costs::*> kCosts[] = {
    {"parameters", "params_per_layer", &Costs::parameters},
    {"linear\nMACs/token", "linear_macs_per_token_per_layer", &Costs::linear_macs_per_token},
    {"attention\nMACs of\nprefill", "prefill_attention_macs_per_layer", &Costs::prefill_macs},
    {"attention\nMACs/new\ntoken", "decode_attention_macs_per_layer", &Costs::decode_macs},
    {"expansion\nMACs/token", "decode_expansion_macs_per_layer", &Costs::expansion_macs}};

Json mean(std::int64_t total, std::int64_t count) {
  if (total % count == 0) return total / count;
  return static_cast<double>(total) / static_cast<double>(count);
}

// Columns of the table, which must live as long; for people, those with a heading.
std::vector<Column<CostRow>> cost_columns(const CostTable& q) {
  std::vector<Column<CostRow>> all = {{q.is_list ? "model" : "attention", "name",
                                       [](const CostRow& row) { return row.label(); },
                                       [](const CostRow& row) { return row.name; }, true}};
  const auto add = [&](const std::string& heading, const std::string& key,
                       std::string (*text)(double), const auto& number,
                       const char* otherwise = "-") {
    const auto cell = [=](const CostRow& row) { return number_or(otherwise, text, number(row)); };
    all.push_back({heading, key, cell, number});
  };
  for (const auto& [heading, key, count] : kCosts)
    if (any_row(q, has_costs))
      add(heading, key, decimal_text, [count = count](const CostRow& row) {
        return row.costs ? mean(((*row.costs).*count).value(), std::ssize(row.cache.layers))
                         : Json();
      });
  if (any_row(q, [](const CostRow& row) { return row.replaced.has_value(); }))
    add("", "replaced_layers", decimal_text,
        [](const CostRow& row) { return row.replaced ? Json(*row.replaced) : Json(); });
  add("numbers/\ntoken", "cache_elements_per_token_per_layer", decimal_text, [](const auto& row) {
    return json_number(row.cache.per_token() / static_cast<double>(row.cache.layers.size()));
  });
  add("a token", "cache_bytes_per_token", binary_text,
      [&q](const CostRow& row) { return json_number(row.cache.bytes_per_token(q.rounding)); });
  add("", "cache_bytes_per_token_after_windows", binary_text, [&q](const CostRow& row) {
    return json_number(slopes_of(terms_of(row.cache, q.rounding)).back().bytes);
  });
  add("", "cache_bytes_per_sequence", binary_text,
      [&q](const CostRow& row) { return json_number(once_bytes(q, row.cache)); });
  for (const Index context : q.contexts)
    add("at " + context_text(context), "cache_bytes_at_" + std::to_string(context), binary_text,
        [&q, context](const CostRow& row) { return json_number(q.bytes(row.cache, context)); });
  const auto longest = [&q](const CostRow& row) { return longest_context(q, row.cache); };
  if (q.memory) add("longest\ncontext", "longest_context", thousands_text, longest, "any");
  for (const Index context : q.memory ? q.contexts : std::vector<Index>())
    add(
        "sequences\nof " + context_text(context), "sequences_of_" + std::to_string(context),
        thousands_text,
        [&q, context](const auto& row) { return sequences_of(q, row.cache, context); }, "any");
  if (q.is_list)
    all.push_back({"source", "source", {}, [](const CostRow& row) { return row.source; }, true});
  return all;
}

}  // namespace

double CostTable::bytes(const ModelCache& cache, Index context) const {
  return static_cast<double>(batch) *
         static_cast<double>(cache.bytes(context, rounding).total().value());
}

double CostTable::free_memory() const {
  return std::max(0.0, memory.value_or(0) - weights.value_or(0) / static_cast<double>(shards));
}

std::string CostTable::text(Format format, std::size_t width) const {
  std::string text;
  const auto add = [&](const std::string& line) {  // of a paragraph
    text += line + (format == Format::markdown && !line.empty() ? "  \n" : "\n");
  };
  std::ranges::for_each(sentences(*this), add);
  std::vector<Column<CostRow>> columns = cost_columns(*this);
  const auto expands = [](const CostRow& row) {
    return row.costs && row.costs->expansion_macs.value() > 0;
  };
  const std::string_view expansion = std::get<1>(kCosts[4]);
  std::erase_if(columns, [&](const auto& column) {
    return column.heading.empty() || (column.key == expansion && !any_row(*this, expands));
  });
  std::vector<std::string_view> rare = {std::get<1>(kCosts[2]), std::get<1>(kCosts[1]),
                                        "cache_elements_per_token_per_layer"};
  // Pairs without the expansion that absorbed attention spares would make that look dearer.
  for (const int i : {0, 3, 4}) rare.emplace_back(std::get<1>(kCosts[i]));
  for (const auto& column : columns)
    if (column.key.starts_with("sequences_of_")) rare.push_back(column.key);
  text += '\n' + text_table(columns, rows, format, width, rare);
  for (const auto& [end, meaning] :
       {std::pair{"-absorbed",
                  ": attention reads latents themselves, as in decoding; without it each new "
                  "token\n  rebuilds keys and values of the whole context (expansion)"},
        {"-merged", ": the same with kv_b_proj multiplied into other projections"},
        {"expanded", ": engines that hold keys and values of all heads instead of latents"}})
    if (any_row(*this, [end = end](const CostRow& row) { return row.name.ends_with(end); }))
      add(std::string(end) + meaning);
  const std::vector<std::string> notes = notes_of(*this);
  if (!notes.empty()) text += '\n';
  for (const std::string& note : notes) add("note: " + note);
  return text;
}

Json CostTable::json() const {
  Json result = {{"cache_dtype", rounding.text()},
                 {"contexts", contexts},
                 {"batch", batch},
                 {"shards", shards}};
  if (any_row(*this, has_costs)) result["macs_at"] = costs_at;
  if (memory) {
    result["memory_bytes"] = json_number(*memory);
    result["weight_bytes"] = weights ? json_number(*weights) : Json();
  }
  if (!is_list) {
    const ModelCache& cache = rows.front().cache;
    const std::vector<Term> terms = terms_of(cache, rounding);
    result["model_type"] = cache.type;
    result["layers"] = cache.layers.size();
    result["bytes_per_sequence"] = json_number(once_bytes(*this, cache));
    for (const Slope& slope : slopes_of(terms))
      result["bytes_per_token"].push_back({{"until", slope.until > 0 ? Json(slope.until) : Json()},
                                           {"bytes", json_number(slope.bytes)}});
    result["terms"] = Json::array();
    for (const Term& term : terms) result["terms"].push_back(term.json());
    if (const Json context = state_context(*this); !context.is_null())
      result["state_context"] = context;
  }
  result["notes"] = notes_of(*this);
  result["rows"] = json_rows(cost_columns(*this), rows);
  return result;
}

}  // namespace headcount
