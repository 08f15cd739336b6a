#include <algorithm>
#include <iostream>
#include <set>
#include <utility>

#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/cost/config_cache.h"
#include "models/cost/configuration.h"
#include "models/cost/released_models.h"
#include "train/cli/commands.h"
#include "train/cli/config_cost.h"
#include "train/options.h"
#include "train/run/loaded.h"
#include "train/show/cache_cost.h"
#include "train/show/units.h"
#include "train/view/report.h"

namespace headcount {

namespace {

// `line` without some flags, and with another value of one.
CommandLine without(CommandLine line, const std::vector<std::string>& flags) {
  std::erase_if(line.given, [&](const auto& flag) {
    return std::ranges::find(flags, flag.first) != flags.end();
  });
  return line;
}
CommandLine with(const CommandLine& line, const std::string& flag, const std::string& value) {
  CommandLine changed = without(line, {flag});
  changed.given.emplace_back(flag, value);
  return changed;
}

// What the flags ask, without rows. Rows are of type `unrounded` unless flags say otherwise.
CostTable table_of(const CommandLine& line, CacheType unrounded) {
  CostTable table;
  Given rounding(cache_settings(), {{"cache-dtype", std::string(row_of(unrounded).name)}});
  put_flags(line, rounding);
  table.rounding = read_rounding(rounding);
  if (!table.rounding.parts.empty()) table.rounding.all.type = unrounded;  // the rest
  const auto whole = [&](const char* flag) {
    return parse_value(flag, WholeRange{1, 1 << 20}, line.get(flag, "1")).get<Index>();
  };
  table.batch = whole("batch");
  table.shards = whole("shards");
  if (line.has("memory")) table.memory = memory_named(line.get("memory"));
  return table;
}

// Contexts that flags name, or usual ones with that of the model, `own` if it has one.
void set_contexts(CostTable& table, const CommandLine& line, Index own) {
  std::set<Index> contexts;
  if (const std::string* const text = line.find("context")) {
    for (const std::string_view part : split_text(*text, ','))
      contexts.insert(parse_value("context", WholeRange{1}, part).get<Index>());
    own = *contexts.rbegin();
  } else {
    contexts = {1 << 12, 1 << 15, 1 << 17};
    if (own == 0) own = *contexts.rbegin();
    contexts.insert(own);
  }
  table.contexts.assign(contexts.begin(), contexts.end());
  table.costs_at = own;
}

std::vector<std::string> attentions_of(const CommandLine& line) {
  std::vector<std::string> all;
  if (const std::string* const list = line.find("attention"))
    for (const std::string_view spec : split_text(*list, ',')) all.emplace_back(spec);
  return all;
}

// Adds rows; of those behind the first, one that the rounding does not fit is left out.
void add_rows(CostTable& table, std::vector<CostRow> rows) {
  for (CostRow& row : rows) {
    try {
      row.cache.require_fit(table.rounding);
    } catch (const Error& error) {
      if (table.rows.empty() || table.is_list) throw;
      if (!row.is_form)
        std::cerr << "left out " << row.name << ": " << as_flags(error.what()) << '\n';
      continue;
    }
    const Index heads = row.cache.kv_heads();
    row.cache = row.cache.of_shard(table.shards);
    if (heads % table.shards != 0 && !row.is_form && !table.is_list)
      row.cache.notes.push_back(counted(heads, "KV head") + " are not shared out evenly: " +
                                std::to_string(row.cache.kv_heads()) + " are counted on each GPU");
    for (std::string& note : row.cache.notes) note = as_flags(note);
    table.rows.push_back(std::move(row));
  }
}

// Rows of the attention in `given`.
void add_model(CostTable& table, const Given& given, const std::string& name) {
  std::vector<CostRow> rows = cost_rows(resolve_model(given), name, table.costs_at);
  for (CostRow& row : rows) row.cache.context = 0;  // it is what is asked for
  add_rows(table, rows);
}

// A run, and attentions with the sizes that flags or the run give: those that are asked for, or
// all that fit.
CostTable of_settings(const Call& call) {
  const CommandLine line = without(call.line, {"attention", "context"});
  for (const char* flag : {"as", "mtp"})
    if (line.has(flag)) throw UsageError("--{} goes with --config", flag);
  CostTable table = table_of(call.line, CacheType::real);
  Given own(call.settings);
  const bool of_run = line.has("from");
  if (of_run) {
    const std::string run = line.get("from");
    own.put_known(to_json(named_by("from", [&] { return read_run_options(run); })));
  }
  Given others = of_run ? for_another_attention(own) : own;
  for (const char* flag : {"heads", "dim"})  // widths of the run follow from them
    if (of_run && line.has(flag) && line.get(flag) != std::to_string(own.whole(flag)))
      throw UsageError("--{} {} is not that of the run; leave --from out to count other sizes",
                       flag, line.get(flag));
  set_contexts(table, call.line, own.whole("context"));
  for (Given* given : {&own, &others}) {
    given->put("context", table.costs_at);
    put_flags(line, *given);
  }
  const std::vector<LayerSpec> cycle = parse_attention_spec(own.text("attention")).cycle;
  if (of_run) add_model(table, own, own.text("attention"));
  std::vector<std::string> left_out;
  std::vector<std::string> attentions = attentions_of(call.line);
  const bool all = attentions.empty();
  for (const AttentionKind* kind : attention_kinds()) {
    const bool is_run = of_run && cycle.size() == 1 && cycle.front().kind == kind;
    if (all && !is_run) attentions.emplace_back(kind->name);
  }
  for (const std::string& attention : attentions) {
    Given given = others;
    put_flags(with(line, "attention", attention), given);
    const std::vector<LayerSpec> spec = parse_attention_spec(given.text("attention")).cycle;
    if (cycle.size() > 1 && has_scores(cycle) && !has_scores(spec)) {  // as in the run's pattern
      for (const char* name : kLeftToScores) given.erase(name);
    }
    try {
      add_model(table, given, attention);
    } catch (const Error& error) {
      if (!all) throw;
      left_out.push_back(attention + ": " + error.what());
    }
  }
  if (table.rows.empty()) throw ShapeError("{}", left_out.front());
  for (const std::string& reason : left_out) std::cerr << "left out " << as_flags(reason) << '\n';
  return table;
}

// Notes the query heads of layers that have others than the first one.
void set_query_heads(ModelCache& cache, const nlohmann::json& config, const std::string& as) {
  constexpr const char* kOfWindows = "swa_num_attention_heads";
  const Configuration all = Configuration::of(config, as);
  const bool windows = all.rule("windows") == "own" && all.find(kOfWindows) != nullptr;
  for (Index i = 0; i < std::ssize(cache.layers); ++i)
    cache.layers[i].heads = all.of_layer(i).whole(
        windows && cache.layers[i].window > 0 ? kOfWindows : "num_attention_heads", 0);
}

// The model of a config.json, beside the same with other attentions.
CostTable of_config(const CommandLine& line) {
  constexpr std::string_view kRead[] = {"context", "cache-dtype", "cache-group", "cache-recent",
                                        "attention"};
  const SettingList all = together({model_settings(), cache_settings()});
  refuse_unread(line, all, [&](const Setting& setting, const std::string&) {
    return std::ranges::count(kRead, setting.name) > 0
               ? ""
               : "has no effect with --config, which gives all sizes";
  });
  CostTable table = table_of(line, CacheType::bf16);
  const auto [file, read] = named_by("config", [&] {
    ConfigFile one = read_config_file(line.get("config"));
    try {
      ModelCache cache = read_config_cache(one.config, line.get("as"));
      set_query_heads(cache, one.config, line.get("as"));
      return std::pair(std::move(one), std::move(cache));
    } catch (const DataError& error) {
      const std::string path = line.get("config");
      throw DataError("{}: {}", path == "-" ? "standard input" : path, error.what());
    }
  });
  ModelCache own = read;
  set_contexts(table, line, own.context);
  if (line.has("mtp")) {
    if (own.draft.empty())
      throw UsageError("--mtp adds the layers of num_nextn_predict_layers, and {} has none",
                       file.name.empty() ? own.type : file.name);
    own = own.with_draft();
  }
  note_states(own);
  std::optional<Given> known;
  if (!file.settings.is_null()) known.emplace(model_settings(), file.settings);
  const std::string name = file.name.empty() ? own.type : file.name;
  std::vector<CostRow> rows = {{name, own}};
  if (known && !line.has("mtp")) {
    rows = cost_rows(resolve_model(*known), name, table.costs_at);
    for (CostRow& row : rows) row.cache = own;
  }
  if (own.has_latents()) rows.push_back({name + ", expanded", own.expanded()});
  add_rows(table, rows);
  for (const std::string& attention : attentions_of(line))
    add_rows(table, rows_beside(own, attention, table.costs_at, known));
  if (!table.memory) return table;
  try {
    if (file.folder) table.weights = weight_bytes(*file.folder);
  } catch (const DataError& error) {
    table.memory.reset();
    table.rows.front().cache.notes.push_back("memory is left out: " + std::string(error.what()));
  }
  return table;
}

CostTable of_released_models(const CommandLine& line) {
  line.refuse_beside("list", {"config", "from", "report", "attention", "as", "mtp"},
                     "; it lists whole models");
  CostTable table = table_of(line, CacheType::bf16);
  set_contexts(table, line.has("context") ? line : with(line, "context", "128k"), 0);
  table.is_list = true;
  for (const ReleasedModel& model : released_models()) {
    CostRow row{model.name, read_config_cache(model.config)};
    row.source = model.source;
    add_rows(table, {row});
  }
  return table;
}

SettingList cost_settings() {
  SettingList all = model_settings();
  add_settings(all, settings_in(Scope::cache, cache_settings()));
  return all;
}

int cost_command(const Call& call) {
  const CommandLine& line = call.line;
  if (line.has("preset"))
    throw UsageError("--preset is gone; --config {} takes the sizes of a released model",
                     line.get("preset"));
  line.refuse_beside("config", {"from"}, ": both give sizes; name one of them");
  const CostTable table = line.has("list")     ? of_released_models(line)
                          : line.has("config") ? of_config(line)
                                               : of_settings(call);
  const auto text = [&](Format format, std::size_t width) { return table.text(format, width); };
  if (line.has("report")) {
    ReportPart part;
    part.title = "KV cache of " + line.get("config", line.get("from", "each attention"));
    part.table = text;
    part.data = {{"cost", table.figures()}};
    write_file_durably(line.get("report"), report_page({part}));
  }
  const nlohmann::ordered_json json = table.json();
  return print_result(call.format == Format::markdown ? Format::text : call.format, json,
                      json["rows"], text(call.format, table_width(line)));
}

}  // namespace

const Command kCostCommand = {
    {"cost",
     "Count parameters, operations and KV cache of a model or of attentions, from sizes alone.",
     "  headcount cost --config llama-3.1-8b --attention mha,mqa,mla512+64 --memory h100\n"
     "  headcount cost --config config.json --context 32k,128k --memory 24GiB --shards 2\n"
     "  headcount cost --dim 256 --heads 8 --kv-heads 4 --bias --context 10\n"
     "  headcount cost --layers 24 --attention mqa/share\n"
     "  headcount cost --from runs/mla --context 4096 --format csv\n",
     {"attention", "heads", "head-dim", "kv-heads", "layers", "dim", "context", "cache-dtype",
      "config", "from", "list", "report", "memory", "format", "wide"}},
    cost_settings,
    {{"config",
      "config.json of any model of a known type, its folder, - for standard input, or a name "
      "from --list; --attention then lists what it might have instead, and --cache-dtype is by "
      "default bf16",
      true},
     {"from", "take the sizes of this run folder, made by headcount train", true},
     {"list", "print the released models that --config knows by name", false},
     {"preset", "gone: --config takes the names of released models", true},
     {"report", "write a page with the table, caches drawn to scale, and curves to this file",
      true},
     {"as", "with --config: the model_type whose rules apply", true},
     {"mtp", "with --config: add the cache of the draft layers of num_nextn_predict_layers", false},
     {"batch", "sequences at a time", true},
     {"memory",
      "memory of a GPU that weights and caches must fit into: 24GiB, 80GB, or a card such as h100",
      true},
     {"shards",
      "GPUs that share the heads and the weights out; caches and what fits into memory are then "
      "of one, parameters and MACs of all",
      true},
     kFormatFlag,
     kWideFlag},
    cost_command};

}  // namespace headcount
