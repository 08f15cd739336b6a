#include <algorithm>
#include <iostream>
#include <set>
#include <utility>

#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/cost/config_cache.h"
#include "models/cost/model_file.h"
#include "train/cli/commands.h"
#include "train/options.h"
#include "train/run/loaded.h"
#include "train/show/cache_cost.h"
#include "train/show/units.h"
#include "train/view/report.h"

namespace headcount {

namespace {

// What the flags ask, without rows, by default at the `usual` contexts and that of the model, `own`
// if it has one. Rows are of type `unrounded` unless flags say otherwise.
CostTable table_of(const CommandLine& line, CacheType unrounded, Index own,
                   std::set<Index> usual = {1 << 12, 1 << 15, 1 << 17}) {
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
  if (const std::string* const text = line.find("context")) {
    own = 0;
    usual.clear();
    for (const std::string_view part : split_text(*text, ','))
      usual.insert(parse_value("context", WholeRange{1}, part).get<Index>());
  }
  table.costs_at = own > 0 ? own : *usual.rbegin();
  usual.insert(table.costs_at);
  table.contexts.assign(usual.begin(), usual.end());
  return table;
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
    row.cache = row.cache.of_shard(table.shards);
    for (std::string& note : row.cache.notes) note = as_flags(note);
    table.rows.push_back(std::move(row));
  }
}

// A run, and attentions with the sizes that flags or the run give: those that are asked for, or
// all that fit.
CostTable of_settings(const Call& call) {
  for (const char* flag : {"as", "mtp"})
    if (call.line.has(flag)) throw UsageError("--{} goes with --config", flag);
  CommandLine line = call.line;  // of sizes alone
  std::erase_if(line.given, [](const auto& flag) {
    return flag.first == "attention" || flag.first == "context";
  });
  Given own(call.settings);
  const bool of_run = line.has("from");
  if (of_run) {
    const std::string run = line.get("from");
    own.put_known(to_json(named_by("from", [&] { return read_run_options(run); })));
  }
  for (const char* flag : {"heads", "dim"})  // widths of the run follow from them
    if (of_run && line.has(flag) && line.get(flag) != std::to_string(own.whole(flag)))
      throw UsageError("--{} {} is not that of the run; leave --from out to count other sizes",
                       flag, line.get(flag));
  CostTable table = table_of(call.line, CacheType::real, own.whole("context"));
  own.put("context", table.costs_at);
  const std::string attention_of_run = own.text("attention");
  std::vector<std::string> left_out, attentions = attentions_of(call.line);
  std::vector<nlohmann::ordered_json> models;
  const bool all = attentions.empty();
  for (const AttentionKind* kind : attention_kinds()) {
    const std::vector<LayerSpec> cycle = parse_attention_spec(attention_of_run).cycle;
    const bool is_run = of_run && cycle.size() == 1 && cycle.front().kind == kind;
    if (all && !is_run) attentions.emplace_back(kind->name);
  }
  if (of_run) {
    Given given = own;
    put_flags(line, given);
    const ModelPlan model = resolve_model(given);
    add_rows(table, cost_rows(model, model->word, table.costs_at));
  }
  for (const std::string& attention : attentions) {
    Given given = of_run ? settings_beside(own, attention) : own;
    line.given.emplace_back("attention", attention);
    put_flags(line, given);
    line.given.pop_back();
    try {
      const ModelPlan model = resolve_model(given);
      models.push_back(model->settings);
      add_rows(table, cost_rows(model, attention, table.costs_at));
    } catch (const Error& error) {
      if (!all) throw;
      left_out.push_back(attention + ": " + error.what());
    }
  }
  if (!all)
    refuse_unread(line, model_settings(), models,
                  [&](const Setting&) { return "--attention " + call.line.get("attention"); });
  if (table.rows.empty()) throw ShapeError("{}", left_out.front());
  for (const std::string& reason : left_out) std::cerr << "left out " << as_flags(reason) << '\n';
  return table;
}

// The model of a config.json, beside the same with other attentions.
CostTable of_config(const CommandLine& line) {
  for (const auto& [name, text] : line.given)
    if (name != "attention" && name != "context" && find_setting(model_settings(), name) != nullptr)
      throw UsageError("--{} has no effect with --config, which gives all sizes", name);
  if (line.has("cache-levels"))
    throw UsageError("--cache-levels has no effect with --config: all levels take the same bytes");
  const ModelFile file = named_by("config", [&] { return read_model_file(line.get("config")); });
  ModelCache own = named_by("config", [&] {
    return named_error<DataError>(file.name,
                                  [&] { return read_config_cache(file.config, line.get("as")); });
  });
  const std::string name = file.source.empty() ? own.type : file.name;
  CostTable table = table_of(line, CacheType::bf16, own.context);
  if (line.has("mtp")) {
    if (own.draft.empty())
      throw UsageError("--mtp adds the layers of num_nextn_predict_layers, and {} has none", name);
    own = own.with_draft();
  }
  std::optional<Given> known;
  if (!file.settings.is_null()) known.emplace(model_settings(), file.settings);
  add_rows(table, cost_rows(own, name, table.costs_at, known));
  for (const std::string& attention : attentions_of(line))
    add_rows(table, rows_beside(own, attention, table.costs_at, known));
  try {
    if (table.memory && !file.folder.empty()) table.weights = weight_bytes(file.folder);
  } catch (const DataError& error) {
    table.memory.reset();
    table.rows.front().cache.notes.push_back("memory is left out: " + std::string(error.what()));
  }
  return table;
}

CostTable of_released_models(const CommandLine& line) {
  line.refuse_beside("list", {"config", "from", "report", "attention", "as", "mtp"},
                     "; it lists whole models");
  CostTable table = table_of(line, CacheType::bf16, 0, {1 << 17});
  table.is_list = true;
  for (const ModelFile& model : released_models())
    add_rows(
        table,
        {{.name = model.name, .cache = read_config_cache(model.config), .source = model.source}});
  return table;
}

SettingList cost_settings() {
  SettingList all = model_settings();
  add_settings(all, settings_in(Scope::cache, cache_settings()));
  return all;
}

int cost_command(const Call& call) {
  const CommandLine& line = call.line;
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
      "config", "from", "list", "report", "memory", "shards", "format", "wide"}},
    cost_settings,
    {{"config",
      "config.json of any model of a known type, its folder, - for standard input, or a name "
      "from --list, before which --config may be left out; --attention then lists what it might "
      "have instead, and --cache-dtype is by default bf16",
      true, false, true},
     {"from", "take the sizes of this run folder, made by headcount train", true},
     {"list", "print the released models that --config knows by name", false},
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
