#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "autograd/base/text.h"
#include "models/attention_spec.h"
#include "models/checkpoint/durable.h"
#include "models/cost.h"
#include "models/released_models.h"
#include "train/cli/commands.h"
#include "train/cli/config_cost.h"
#include "train/options.h"
#include "train/run/loaded.h"
#include "train/table.h"
#include "train/units.h"
#include "train/view/report.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

using Row = const CostRow&;

// A long context in a heading: "4 k".
std::string short_context(Index context) {
  constexpr Index kKilo = 1024, kMega = kKilo * kKilo;
  return context < kMega ? std::to_string(context / kKilo) + " k"
                         : std::to_string(context / kMega) + " M";
}

// An attention's name in a table: its beginning and end, with the names of forms, if it is long.
std::string shown(const std::string& attention) {
  constexpr std::size_t kBegin = 12, kEnd = 18;
  if (attention.size() <= kBegin + kEnd + 3) return attention;
  return attention.substr(0, kBegin) + "..." + attention.substr(attention.size() - kEnd);
}

constexpr std::size_t kWidth = 10;  // of most columns, with their headings

// Columns for programs, the last ones of long contexts. Tables for people have those with a
// heading.
std::vector<Column<CostRow>> columns() {
  std::vector<Column<CostRow>> all = {{"attention", "attention",
                                       [](Row row) { return shown(row.attention); },
                                       [](Row row) { return row.attention; }, true, kWidth + 2}};
  const auto add = [&](const char* heading, const char* key, Count CostRow::*count,
                       std::size_t width = kWidth) {
    const auto mean = [=](Row row) {  // over layers
      const std::int64_t total = (row.*count).value();
      return total % row.layers == 0
                 ? Json(total / row.layers)
                 : Json(static_cast<double>(total) / static_cast<double>(row.layers));
    };
    all.push_back(number_column<CostRow>(heading, key, mean, decimal_text, width));
  };
  add("parameters", "params_per_layer", &CostRow::parameters);
  add("linear\nMACs/token", "linear_macs_per_token_per_layer", &CostRow::linear_macs_per_token);
  add("pairs,\nMACs of\nprefill", "prefill_attention_macs_per_layer", &CostRow::prefill_macs);
  add("pairs,\nMACs/new\ntoken", "decode_attention_macs_per_layer", &CostRow::decode_macs);
  add("expansion\nMACs/token", "decode_expansion_macs_per_layer", &CostRow::expansion_macs);
  add("cache,\nnumbers/\ntoken", "cache_elements_per_token_per_layer",
      &CostRow::cache_elements_per_token, kWidth - 1);
  add("", "cache_elements_per_layer", &CostRow::cache_elements);
  const auto add_bytes = [&](const std::string& heading, const std::string& key, const auto& bytes,
                             std::size_t width = 0) {
    all.push_back(number_column<CostRow>(
        heading, key, [=](Row row) { return bytes(row).value(); }, binary_text, width));
  };
  add_bytes(
      "cache,\nall layers,\nbytes", "cache_bytes", [](Row row) { return row.cache_bytes; }, kWidth);
  for (std::size_t i = 0; i < long_contexts().size(); ++i) {
    const Index context = long_contexts()[i];
    add_bytes("bytes at\n" + short_context(context) + " tokens",
              "cache_bytes_at_" + std::to_string(context),
              [=](Row row) { return row.long_cache_bytes[i]; });
  }
  return all;
}

// Names of attentions, in `rows`, that are neither usual, nor a pattern, nor `asked`. Removes them.
std::string take_unusual(std::vector<CostRow>& rows, const AttentionKind* asked) {
  constexpr std::array<std::string_view, 4> kUsual = {"mha", "mqa", "gqa", "mla"};
  std::string names;
  std::erase_if(rows, [&](Row row) {
    const AttentionKind& kind = row.model->cycle.front().kind();
    if (row.model->cycle.size() > 1 || &kind == asked || std::ranges::count(kUsual, kind.name) > 0)
      return false;
    if (row.trained) names += (names.empty() ? "" : ", ") + row.attention;
    return true;
  });
  return names;
}

// Tables of all attentions, or if `width` is limited of most readers' and of `asked`: costs at one
// context, where `origin` says of one what its sizes are those of, and caches at long contexts.
std::string tables(std::vector<CostRow> rows, const ModelSettings& config,
                   const std::string& numbers, const std::function<std::string(Row)>& origin,
                   const AttentionKind* asked, Format format, std::size_t width) {
  const std::string others = width > 0 ? take_unusual(rows, asked) : "";
  const std::vector<Column<CostRow>> all = columns();
  const auto first_long = all.end() - std::ssize(long_contexts());
  std::vector<Column<CostRow>> costs(all.begin(), first_long), caches(first_long, all.end());
  std::erase_if(costs, [](const auto& column) { return column.heading.empty(); });
  costs.push_back({"", "origin", origin, {}, true});
  caches.insert(caches.begin(), all.front());
  std::string text =
      counted(config.layers, "layer") + ", width " + std::to_string(config.dim) + ", context " +
      std::to_string(config.context) + ".\nCached rows of tokens take " + numbers +
      ".\nMeans per layer, but for the last column; MACs are multiply-accumulates.\n\n" +
      text_table(costs, rows, format, width,
                 {"decode_expansion_macs_per_layer", "prefill_attention_macs_per_layer",
                  "linear_macs_per_token_per_layer", "params_per_layer"});
  std::erase_if(rows, [](Row row) { return !row.trained; });  // other forms have the same cache
  text += "\nKV cache of all layers\n" + text_table(caches, rows, format);
  std::string note = "\nnote: ";
  for (const CostRow& row : rows) {
    for (const std::string& kept : row.notes)
      text += std::exchange(note, "note: ") + shown(row.attention) + ": " + as_flags(kept) + '\n';
  }
  return text + (others.empty() ? "" : "\nother attentions, see --wide: " + others + "\n");
}

// What a page draws of the attentions: each once, not in each of its forms.
Json figures_of(const std::vector<CostRow>& rows, Index context, const CacheRounding& rounding) {
  std::vector<NamedCache> caches;
  for (const CostRow& row : rows) {
    if (row.trained) caches.push_back({shown(row.attention), row.cache});
  }
  std::set<Index> contexts(long_contexts().begin(), long_contexts().end());
  contexts.insert(context);
  return cost_figures(caches, rounding, {contexts.begin(), contexts.end()});
}

// What `given` says of sizes: a row of the table is of another attention, context or type.
nlohmann::ordered_json sizes_of(const Given& given) {
  nlohmann::ordered_json sizes = given.values();
  for (const char* name : {"context", "cache-dtype", "attention"}) sizes.erase(name);
  return sizes;
}

// Latents of a released model's MLA, but for what flags say of them.
nlohmann::json latents_of(const CommandLine& line) {
  nlohmann::json latents = released_latents();
  for (const auto& [name, text] : line.given) latents.erase(name);
  return latents;
}

SettingList cost_settings() {
  SettingList all = model_settings();
  add_settings(all, settings_in(Scope::cache, cache_settings()));
  return all;
}

// Costs of each attention with the sizes that flags, a preset or a run give.
CostAnswer costs_of_attentions(const Call& call) {
  const CommandLine& line = call.line;
  for (const char* flag : {"as", "batch", "memory", "shards"})
    if (line.has(flag)) throw UsageError("--{} goes with --config", flag);
  Given given(call.settings);
  if (line.has("preset")) given.put(known_model(line.get("preset")).settings);
  if (line.has("from")) {
    const std::string run = line.get("from");
    given.put_known(to_json(named_by("from", [&] { return read_run_options(run); })));
  }
  Given others = line.has("from") ? for_another_attention(given) : given;
  const Given before = given;
  put_flags(line, given);
  put_flags(line, others);
  std::function<std::string(Row)> origin = [](Row) { return ""; };
  if (sizes_of(given) == sizes_of(before) && (line.has("preset") || line.has("from"))) {
    const std::string mark = line.has("preset") ? "<- as published" : "<- the run";
    origin = [=, attention = before.text("attention")](Row row) {  // in the form that decodes
      return row.decodes && row.attention.starts_with(attention) ? mark : "";
    };
  }
  const ModelSettings config = read_model_settings(given);
  const CacheRounding rounding = read_rounding(given);
  std::vector<std::string> left_out;
  const std::vector<CostRow> rows =
      cost_table(given, others, config.context, rounding, left_out,
                 line.has("preset") ? latents_of(line) : nlohmann::json::object());
  for (const std::string& reason : left_out) std::cerr << "left out " << as_flags(reason) << '\n';
  const AttentionKind* const asked =
      parse_attention_spec(given.text("attention")).cycle.front().kind;
  const Json of_rows = json_rows(columns(), rows);
  const Json json = {
      {"context", config.context},
      {"cache_dtype", rounding.text()},
      {"dtype_bytes", json_number(static_cast<double>(row_of(rounding.all.type).bits) / 8)},
      {"state_dtype_bytes", kStateBytes},
      {"layers", config.layers},
      {"rows", of_rows}};
  return {[=, width = table_width(line)](Format shape) {
            return tables(rows, config, stored_text(rounding), origin, asked, shape, width);
          },
          json, of_rows, figures_of(rows, config.context, rounding),
          "KV cache of each attention in " + line.get("preset", line.get("from", "these sizes"))};
}

int cost_command(const Call& call) {
  const CommandLine& line = call.line;
  line.refuse_beside("list", {"config", "preset", "from", "report"}, "; --list stands alone");
  line.refuse_beside("from", {"preset"}, ": both give sizes; name one of them");
  line.refuse_beside("config", {"preset", "from"}, ": both give sizes; name one of them");
  const CostAnswer answer = line.has("list")     ? costs_of_released_models()
                            : line.has("config") ? cost_of_config(line)
                                                 : costs_of_attentions(call);
  if (line.has("report")) {
    ReportPart part;
    part.title = answer.title;
    part.table = [&](Format format, std::size_t) { return answer.text(format); };
    part.data = {{"cost", answer.figures}};
    write_file_durably(line.get("report"), report_page({part}));
  }
  return print_result(call.format == Format::markdown ? Format::text : call.format, answer.json,
                      answer.rows, answer.text(call.format));
}

}  // namespace

const Command kCostCommand = {
    {"cost",
     "Count parameters, operations and KV cache of each attention, from sizes alone.",
     "  headcount cost --dim 256 --heads 8 --kv-heads 4 --bias --context 10\n"
     "  headcount cost --preset llama-3-8b --context 131072 --cache-dtype bf16\n"
     "  headcount cost --config config.json --context 32k,128k --memory 24GiB\n"
     "  headcount cost --layers 24 --attention mqa/share\n"
     "  headcount cost --from runs/mla --context 4096 --format csv\n",
     {"attention", "heads", "head-dim", "kv-heads", "layers", "dim", "context", "cache-dtype",
      "preset", "config", "from", "list", "report", "memory", "format", "wide"}},
    cost_settings,
    {{"preset",
      "take the sizes of a well-known model: " + joined(known_models(), &ReleasedModel::name),
      true},
     {"from", "take the sizes of this run folder, made by headcount train", true},
     {"list", "print the released models that --config knows by name", false},
     {"report", "write a page with the tables, caches drawn to scale, and curves to this file",
      true},
     {"config",
      "config.json of any model of a known type, its folder, - for standard input, or a name "
      "from --list; --context may then list several, and --cache-dtype is by default bf16",
      true},
     {"as", "with --config: the model_type whose rules apply", true},
     {"batch", "with --config: sequences at a time", true},
     {"memory",
      "with --config: memory of a GPU, such as 24GiB, that weights and caches must fit into", true},
     {"shards", "with --config: GPUs that share the KV heads and the weights out", true},
     kFormatFlag,
     kWideFlag},
    cost_command};

}  // namespace headcount
