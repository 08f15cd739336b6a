#include "train/cli/config_cost.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/cost.h"
#include "train/cli/units.h"
#include "train/options.h"
#include "train/table.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// What the user wants to know of the cache.
struct CostQuestion {
  std::vector<Index> contexts;
  Index batch = 1, shards = 1;
  CacheType type = CacheType::bf16;
  std::string type_name = "bf16";
  std::optional<double> memory;  // bytes
  std::vector<std::string> others;
};

// Greatest configuration that is read, bytes: real ones have a few thousand.
constexpr std::uintmax_t kMostBytes = 16 << 20;

fs::path file_of(const std::string& path) {
  return fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
}

nlohmann::json read_config(const std::string& path) {
  if (path != "-" && !fs::exists(path) && path.find('/') == path.npos && !path.ends_with(".json"))
    return released_model(path).config;
  std::string text;
  if (path == "-") {
    std::copy_n(std::istreambuf_iterator<char>(std::cin), kMostBytes + 1, std::back_inserter(text));
  } else {
    const fs::path file = file_of(path);
    std::error_code error;
    if (fs::file_size(file, error) > kMostBytes && !error)
      throw DataError(file.string(), " has more than 16 MiB and is no config.json");
    text = read_file(file.string());
  }
  if (text.size() > kMostBytes) throw DataError("standard input is no config.json: over 16 MiB");
  try {
    return parse_json(text);
  } catch (const DataError& error) {
    throw DataError(path == "-" ? "standard input" : file_of(path).string(), ": ", error.what());
  }
}

// Bytes of the weights beside the configuration; none if there are none.
std::optional<double> weight_bytes(const std::string& path) {
  if (path == "-") return {};
  const fs::path folder = file_of(path).parent_path();
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(index)) {
    const nlohmann::json size = parse_json(read_file(index.string()))
                                    .value("/metadata/total_size"_json_pointer, nlohmann::json());
    if (size.is_number()) return size.get<double>();
  }
  double bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  }
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

// Bytes of one sequence: states and convolutions are never rounded.
struct Bytes {
  double growing, windowed, once;
  double total() const { return growing + windowed + once; }
};

Bytes bytes_of(const ConfigCache& cache, Index context, CacheType type, bool expanded = false) {
  const CacheNumbersOf numbers = cache.numbers(context, expanded);
  const CacheNumbers bytes = cache_numbers(type);
  const auto of = [&](Count elements, Count vectors) {
    return static_cast<double>(
        (elements * bytes.bytes_per_element + vectors * bytes.bytes_per_row).value());
  };
  return {of(numbers.growing, numbers.growing_vectors),
          of(numbers.windowed, numbers.windowed_vectors),
          static_cast<double>((numbers.once * kStateBytes).value())};
}

constexpr Index kLongest = Index{1} << 40;  // tokens: no cache that grows is as long

// The longest context whose caches fit into `bytes`, at most `kLongest` tokens.
Index longest_context(const ConfigCache& cache, double bytes, const CostQuestion& question) {
  Index fits = 0, too_long = kLongest + 1;
  while (too_long - fits > 1) {
    const Index middle = fits + (too_long - fits) / 2;
    const double needed =
        bytes_of(cache, middle, question.type).total() * static_cast<double>(question.batch);
    (needed <= bytes ? fits : too_long) = middle;
  }
  return fits;
}

// The share of one of `shards` GPUs in the numbers of a cache: KV heads are shared out, and copied
// where there are fewer of them than GPUs; latents are copied; states are shared out by heads.
ConfigCache share_of_shard(ConfigCache cache, Index shards) {
  const auto shared = [&](Count count) { return Count((count.value() + shards - 1) / shards); };
  for (CachedLayer& layer : cache.layers) {
    layer.state = shared(layer.state);
    layer.channels = shared(layer.channels);
    if (layer.kv_heads == 0) continue;
    const Index of_one = (layer.kv_heads + shards - 1) / shards;
    CachedRows& rows = layer.rows.front();
    rows.numbers = Count(rows.numbers.value() / layer.kv_heads) * of_one;
    rows.expanded = rows.numbers;
    rows.vectors = 2 * of_one;
  }
  return cache;
}

// Equal layers together, in the order in which they first appear.
struct Group {
  const CachedLayer* layer;
  Index layers;
};
std::vector<Group> groups_of(const ConfigCache& cache) {
  std::vector<Group> groups;
  const auto numbers = [](const CachedLayer& layer) {
    Count of_rows;
    for (const CachedRows& rows : layer.rows) of_rows += rows.numbers;
    return std::tuple(layer.kind, of_rows.value(), layer.state.value(),
                      layer.convolutions().value());
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
  return {
      {"layers", "layers", [](const Group& g) { return std::to_string(g.layers); },
       [](const Group& g) { return Json(g.layers); }, false, 6},
      {"keep", "kind", [](const Group& g) { return g.layer->kind; },
       [](const Group& g) { return Json(g.layer->kind); }, true, 16},
      {"numbers a token", "numbers_per_token",
       [](const Group& g) { return decimal_text(g.layer->per_token()); },
       [](const Group& g) { return json_number(g.layer->per_token()); }},
      {"once a sequence", "numbers_once",
       [](const Group& g) {
         return decimal_text(
             static_cast<double>((g.layer->state + g.layer->convolutions()).value()));
       },
       [](const Group& g) { return Json((g.layer->state + g.layer->convolutions()).value()); }}};
}

// A context and what the cache takes there, bytes.
struct At {
  Index context = 0;
  Bytes one = {};
  std::optional<double> expanded, shard;
  double all = 0;  // sequences of the batch
  std::vector<std::pair<std::string, double>> others;
  std::optional<Index> batch_that_fits;
};

std::vector<Column<At>> context_columns(const CostQuestion& question, const At& first) {
  std::vector<Column<At>> all = {{"context", "context",
                                  [](const At& at) { return std::to_string(at.context); },
                                  [](const At& at) { return Json(at.context); }, false, 9}};
  const auto add = [&](std::string heading, std::string key, std::function<double(const At&)> of) {
    all.push_back({std::move(heading), std::move(key),
                   [of](const At& at) { return binary_text(of(at)); },
                   [of](const At& at) { return json_number(of(at)); }});
  };
  add("rows of\nall tokens", "growing_bytes", [](const At& at) { return at.one.growing; });
  add("of windows", "windowed_bytes", [](const At& at) { return at.one.windowed; });
  add("once a\nsequence", "once_bytes", [](const At& at) { return at.one.once; });
  add("one\nsequence", "cache_bytes", [](const At& at) { return at.one.total(); });
  if (first.expanded)
    add("latents\nexpanded", "expanded_bytes", [](const At& at) { return *at.expanded; });
  if (question.batch > 1)
    add(std::to_string(question.batch) + "\nsequences", "batch_bytes",
        [](const At& at) { return at.all; });
  if (first.shard)
    add("on each of\n" + std::to_string(question.shards) + " GPUs", "shard_bytes",
        [](const At& at) { return *at.shard; });
  if (first.batch_that_fits)
    all.push_back({"batch\nthat fits", "batch_that_fits",
                   [](const At& at) { return std::to_string(*at.batch_that_fits); },
                   [](const At& at) { return Json(*at.batch_that_fits); }});
  for (std::size_t i = 0; i < first.others.size(); ++i)
    add("if " + first.others[i].first, "if_" + first.others[i].first,
        [i](const At& at) { return at.others[i].second; });
  return all;
}

Index context_of(std::string_view text) {
  return parse_value("context", tokens(1), text).get<Index>();
}

CostQuestion question_of(const CommandLine& line, const ConfigCache& cache) {
  CostQuestion question;
  if (const std::string* const text = line.setting("context")) {
    for (const std::string_view part : split_text(*text, ','))
      question.contexts.push_back(context_of(part));
  } else {
    question.contexts = {1 << 12, 1 << 15, 1 << 17};
    if (cache.context > 0) question.contexts.push_back(cache.context);
    std::ranges::sort(question.contexts);
    question.contexts.erase(std::unique(question.contexts.begin(), question.contexts.end()),
                            question.contexts.end());
  }
  if (const std::string* const text = line.setting("cache-dtype")) {
    static const SettingList settings = settings_in(Scope::cache, {cache_setting()});
    Given given(settings);
    given.put("cache-dtype", nlohmann::json(*text));
    question.type = read_decode_options(given).cache_type;
    question.type_name = *text;
  }
  const auto whole = [&](const char* flag) {
    return parse_value(flag, WholeRange{1, 1 << 20}, line.get(flag)).get<Index>();
  };
  if (line.has("batch")) question.batch = whole("batch");
  if (line.has("shards")) question.shards = whole("shards");
  if (line.has("memory")) question.memory = bytes_named("memory", line.get("memory"));
  if (const std::string* const text = line.setting("attention")) {
    for (const std::string_view spec : split_text(*text, ',')) question.others.emplace_back(spec);
  }
  return question;
}

double bytes_with(const std::string& attention, const ConfigCache& cache, Index context,
                  const CostQuestion& question) {
  if (cache.head_dim == 0)
    throw UsageError("--attention: the configuration's attention is not of ordinary heads");
  Given given(model_settings());
  given.put(nlohmann::json{{"attention", attention},
                           {"layers", std::ssize(cache.layers)},
                           {"dim", cache.width},
                           {"heads", cache.heads},
                           {"head-dim", cache.head_dim}});
  return static_cast<double>(
      kv_cache_bytes(resolve_model(given), context, cache_numbers(question.type)).value());
}

At at_context(const ConfigCache& cache, Index context, const CostQuestion& question, double free) {
  At at;
  at.context = context;
  at.one = bytes_of(cache, context, question.type);
  at.all = at.one.total() * static_cast<double>(question.batch);
  if (cache.has_latents()) at.expanded = bytes_of(cache, context, question.type, true).total();
  if (question.shards > 1)
    at.shard = bytes_of(share_of_shard(cache, question.shards), context, question.type).total();
  if (question.memory)
    at.batch_that_fits = static_cast<Index>(std::max(0.0, free) / at.one.total());
  for (const std::string& other : question.others)
    at.others.emplace_back(other, bytes_with(other, cache, context, question));
  return at;
}

// Tokens whose rows, in the model's layers of full attention, take as much as a state.
std::optional<double> tokens_of_state(const ConfigCache& cache) {
  double row = 0, state = 0;
  for (const CachedLayer& layer : cache.layers) {
    if (layer.kv_heads > 0) row = std::max(row, layer.per_token());
    state = std::max(state, static_cast<double>((layer.state + layer.convolutions()).value()));
  }
  if (row == 0 || state == 0) return {};
  return state / row;
}

}  // namespace

void print_released_models() {
  struct Row {
    const ReleasedModel& model;
    ConfigCache cache;
  };
  std::vector<Row> rows;
  for (const ReleasedModel& model : released_models())
    rows.push_back({model, read_config_cache(model.config)});
  constexpr Index kContext = 1 << 17;
  const std::vector<Column<Row>> columns = {
      {"model", "model", [](const Row& row) { return row.model.name; }, {}, true},
      {"bf16 bytes\na token",
       "",
       [&](const Row& row) { return binary_text(2 * row.cache.per_token()); },
       {}},
      {"at 128 k\ntokens",
       "",
       [&](const Row& row) {
         return binary_text(bytes_of(row.cache, kContext, CacheType::bf16).total());
       },
       {}},
      {"source", "", [](const Row& row) { return row.model.source; }, {}, true}};
  std::cout << text_table(columns, rows);
}

const std::vector<Flag>& config_cost_flags() {
  static const std::vector<Flag> flags = {
      {"config",
       "config.json of any model of a known type, its folder, - for standard input, or a name "
       "from --list; --context may then list several, and --cache-dtype is by default bf16",
       true},
      {"as", "with --config: the model_type whose rules apply", true},
      {"batch", "with --config: sequences at a time", true},
      {"memory", "with --config: memory, such as 24GiB, that weights and caches must fit into",
       true},
      {"shards", "with --config: GPUs that share the KV heads out", true}};
  return flags;
}

void print_config_cost(const CommandLine& line) {
  constexpr std::string_view kRead[] = {"context", "cache-dtype", "attention"};
  for (const auto& [name, text] : line.settings) {
    if (std::ranges::find(kRead, name) == std::end(kRead))
      throw UsageError("--", name, " has no effect with --config, which gives the model's sizes");
  }
  const std::string path = line.get("config");
  const ConfigCache cache =
      named_by("config", [&] { return read_config_cache(read_config(path), line.get("as")); });
  const CostQuestion question = question_of(line, cache);
  const std::optional<double> weights = weight_bytes(path);
  const double free = question.memory.value_or(0) - weights.value_or(0);
  std::vector<At> rows;
  for (const Index context : question.contexts)
    rows.push_back(at_context(cache, context, question, free));
  const std::vector<Group> groups = groups_of(cache);
  const auto columns = context_columns(question, rows.front());
  if (line.has("json")) {
    Json result = {{"model_type", cache.type},
                   {"cache_dtype", question.type_name},
                   {"cache_numbers", Json::object()},
                   {"layers", json_rows(layer_columns(), groups)},
                   {"contexts", json_rows(columns, rows)}};
    const CacheNumbersOf numbers = cache.numbers(question.contexts.front());
    result["cache_numbers"] = {{"total", numbers.total().value()},
                               {"growing", numbers.growing.value()},
                               {"windowed", numbers.windowed.value()},
                               {"once", numbers.once.value()}};
    if (weights) result["weight_bytes"] = *weights;
    if (question.memory) result["longest_context"] = longest_context(cache, free, question);
    std::cout << result.dump(2) << '\n';
    return;
  }
  if (line.has("csv")) {
    for (const std::string& row : csv_lines(columns, rows)) std::cout << row << '\n';
    return;
  }
  const Index element = cache_numbers(question.type).bytes_per_element;
  std::cout << cache.type << ", " << cache.layers.size() << " layers; "
            << binary_text(cache.per_token() * static_cast<double>(element))
            << " a token before windows are full\na number takes " << element
            << (element == 1 ? " byte (" : " bytes (") << question.type_name << "), one of a state "
            << kStateBytes << " (f32)\n\n"
            << text_table(layer_columns(), groups) << '\n'
            << text_table(columns, rows);
  if (const auto tokens = tokens_of_state(cache))
    std::cout << "\na state has as many numbers as the rows of "
              << static_cast<Index>(*tokens + 0.999) << " tokens in a layer of full attention\n";
  if (!question.memory) return;
  const Index longest = longest_context(cache, free, question);
  std::cout << '\n'
            << binary_text(*question.memory) << " of memory, "
            << (weights ? binary_text(*weights) + " of them for weights"
                        : "weights left out (no model.safetensors beside the file)")
            << "\nlongest context of " << question.batch
            << (question.batch == 1 ? " sequence: " : " sequences: ")
            << (free <= 0             ? "none, the weights do not fit"
                : longest == kLongest ? "any"
                                      : std::to_string(longest) + " tokens")
            << '\n';
}

}  // namespace headcount
