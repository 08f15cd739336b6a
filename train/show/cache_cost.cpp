#include "train/show/cache_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "autograd/base/text.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Numbers that equal layers keep, with the bytes of each; where rows have scales, rows.
struct Term {
  std::string kind;            // of the layers
  std::int64_t layers, count;  // rows or numbers in a layer
  Index row;                   // numbers of a row; 0: numbers are counted
  std::int64_t bytes;          // of a row or a number
  Index block;                 // tokens that a row stands for; 0: 1
  Index after, until;          // tokens of which there are such rows; 0: all
  bool once;                   // of a sequence, not of each token

  bool operator==(const Term&) const = default;
  double total() const {
    return static_cast<double>(layers) * static_cast<double>(count) * static_cast<double>(bytes) /
           static_cast<double>(std::max<Index>(1, block));
  }
  // "full attention: 7 layers x 576 numbers x 2 B = 8,064 B a token".
  std::string text() const {
    const std::string things =
        row > 0 ? "rows of " + std::to_string(row) + " numbers and scales" : "numbers";
    std::string text = kind + ": " + counted(layers, "layer") + " x " +
                       thousands_text(static_cast<double>(count)) + ' ' + things + " x " +
                       std::to_string(bytes) + " B";
    if (block > 0) text += " / " + std::to_string(block) + " tokens";
    text += " = " + thousands_text(total()) + (once ? " B a sequence" : " B a token");
    if (after > 0) text += " after " + std::to_string(after);
    return text + (until > 0 ? " until " + std::to_string(until) : "");
  }
  Json json() const {
    Json json = {{"kind", kind}, {"layers", layers}};
    json[row > 0 ? "rows" : "numbers"] = count;
    if (row > 0) json["numbers_of_row"] = row;
    json[row > 0 ? "bytes_of_row" : "bytes_of_number"] = bytes;
    if (block > 0) json["tokens_of_row"] = block;
    if (after > 0) json["after"] = after;
    if (until > 0) json["until"] = until;
    json[once ? "bytes_per_sequence" : "bytes_per_token"] = json_number(total());
    return json;
  }
};

// A term of rows of one format, of the tokens after `after` and until `until`. `part` names them
// where parts of a layer differ.
Term term_of(const CachedLayer& layer, const Kept& kept, const std::string& part,
             const CacheFormat& format, Index after, Index until) {
  const CacheTypeRow& type = row_of(format.type);
  const bool plain = type.bits % 8 == 0 && type.scale_bytes == 0;
  const bool beside = kept.per_sequence && layer.has_rows() && !layer.has_state();
  return {.kind = layer.kind + (!beside          ? part
                                : kept.block > 0 ? ", open blocks"
                                                 : ", convolutions"),
          .layers = 1,
          .count = plain ? kept.numbers() : kept.heads,
          .row = plain ? 0 : kept.width,
          .bytes = plain ? type.bits / 8 : row_bytes(format, kept.width),
          .block = kept.per_sequence ? 0 : kept.block,
          .after = after,
          .until = until,
          .once = kept.per_sequence};
}

// Adds a term to the one that equals it but for `count`, if there is one.
void add_up(std::vector<Term>& all, const Term& term, std::int64_t Term::*count) {
  for (Term& other : all) {
    Term same = term;
    same.*count = other.*count;
    if (same != other) continue;
    other.*count += term.*count;
    return;
  }
  all.push_back(term);
}

// The cache of one sequence as a sum.
std::vector<Term> terms_of(const ModelCache& cache, const CacheRounding& rounding) {
  std::vector<Term> all;
  Index number = 0;
  for (const CachedLayer& layer : cache.layers) {
    std::vector<Term> own;
    const CacheRounding here = rounding.of_layer(number++);
    for (const Kept& kept : layer.parts) {
      const CacheFormat format = here.of(kept);
      const Index end = layer.is_windowed(kept) ? layer.window : 0, recent = format.recent;
      const bool rounds = end == 0 || recent < end;
      const std::string part = here.parts.empty() ? "" : ", " + kept.name;
      if (recent > 0)
        add_up(own,
               term_of(layer, kept, part, CacheFormat(cache.unrounded), 0, rounds ? recent : end),
               &Term::count);
      if (rounds) add_up(own, term_of(layer, kept, part, format, recent, end), &Term::count);
    }
    for (const Term& term : own) add_up(all, term, &Term::layers);
  }
  return all;
}

// Bytes that each token adds up to token `until`, after the slope before; 0: without end.
struct Slope {
  Index until;
  double bytes;
};
// Slopes between the ends of windows and of recent tokens. Of a row that stands for a block each of
// its tokens adds a share.
std::vector<Slope> slopes_of(const std::vector<Term>& terms) {
  const auto at = [&](Index token) {
    double bytes = 0;
    for (const Term& term : terms)
      if (!term.once && token > term.after && (term.until == 0 || token <= term.until))
        bytes += term.total();
    return bytes;
  };
  std::set<Index> bends = {0};
  for (const Term& term : terms) bends.insert({term.after, term.until});
  std::vector<Slope> all;
  for (const Index bend : bends)
    if (bend > 0 && at(bend) != at(bend + 1)) all.push_back({bend, at(bend)});
  all.push_back({0, at(*bends.rbegin() + 1)});
  return all;
}

// What engines log of a cache: "48 KiB + 98,304 B a token until 4096, then 16,384 B a token".
std::string bytes_text(const std::vector<Slope>& slopes, double once) {
  std::string text = once > 0 ? binary_text(once) : "";
  if (once > 0 && slopes.size() == 1 && slopes.front().bytes == 0) return text + " a sequence";
  for (const Slope& slope : slopes) {
    if (!text.empty()) text += &slope == &slopes.front() ? " + " : ", then ";
    text += thousands_text(slope.bytes) + " B a token";
    if (slope.until > 0) text += " until " + std::to_string(slope.until);
  }
  return text;
}

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
  std::erase_if(columns, [](const auto& column) { return column.heading.empty(); });
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
