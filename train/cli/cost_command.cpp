#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/cost.h"
#include "train/cli/command_line.h"
#include "train/cli/commands.h"
#include "train/options.h"

namespace headcount {

namespace {

const CommandHelp kHelp = {
    "cost",
    "Count parameters, multiply-accumulates and KV cache of each attention, from sizes alone.",
    "  headcount cost --dim 256 --heads 8 --kv-heads 4 --bias --context 10\n"
    "  headcount cost --preset llama-3-8b --context 131072 --cache-dtype bf16\n"
    "  headcount cost --from runs/demo --context 4096 --csv\n"};

const std::vector<Flag> kFlags = {
    {"preset", "sizes of a well-known model; --help lists them", true},
    {"from", "sizes of a run that headcount train made", true},
    {"csv", "comma-separated values", false},
    {"json", "print one JSON object", false}};

constexpr std::array<const char*, 9> kColumns = {"attention",
                                                 "params_per_layer",
                                                 "linear_macs_per_token_per_layer",
                                                 "prefill_attention_macs_per_layer",
                                                 "decode_attention_macs_per_layer",
                                                 "decode_expansion_macs_per_layer",
                                                 "cache_elements_per_token_per_layer",
                                                 "cache_elements_per_layer",
                                                 "cache_bytes"};

std::array<Count, 8> numbers(const CostRow& row) {
  return {row.params_per_layer,
          row.linear_macs_per_token_per_layer,
          row.prefill_attention_macs_per_layer,
          row.decode_attention_macs_per_layer,
          row.decode_expansion_macs_per_layer,
          row.cache_elements_per_token_per_layer,
          row.cache_elements_per_layer,
          row.cache_bytes};
}

// 1,234 up to six digits, then four digits and a unit of `base`.
std::string short_number(Count count, double base, const std::array<const char*, 7>& units) {
  auto value = static_cast<double>(count.value());
  std::size_t unit = 0;
  while (value >= base * (unit == 0 ? 100 : 1) && unit + 1 < units.size()) {
    if (unit == 0 && value < 1e5) break;
    value /= base;
    ++unit;
  }
  std::array<char, 48> text;
  if (unit == 0) {
    std::snprintf(text.data(), text.size(), "%.0f%s", value, units[0]);
  } else {
    std::snprintf(text.data(), text.size(), "%.4g %s", value, units[unit]);
  }
  return text.data();
}

std::string decimal(Count count) {
  return short_number(count, 1000, {"", "K", "M", "G", "T", "P", "E"});
}
std::string binary(Count count) {
  return short_number(count, 1024, {" B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

void print_table(const std::vector<CostRow>& rows, const ModelConfig& config, Index context,
                 Index bytes, const std::string& published) {
  std::printf(
      "%td layers, width %td, context %td, %td bytes a number; MACs are multiply-accumulates\n\n",
      config.layers, config.dim, context, bytes);
  std::printf("%-13s %12s %12s %12s %12s %12s %11s %12s\n", "", "parameters", "linear MACs",
              "prefill", "decode", "decode", "cache", "cache");
  std::printf("%-13s %12s %12s %12s %12s %12s %11s %12s\n", "attention", "a layer", "a token",
              "pairs", "pairs", "expansion", "a token", "all layers");
  for (const CostRow& row : rows) {
    std::printf(
        "%-13s %12s %12s %12s %12s %12s %11s %12s%s\n", row.attention.c_str(),
        decimal(row.params_per_layer).c_str(), decimal(row.linear_macs_per_token_per_layer).c_str(),
        decimal(row.prefill_attention_macs_per_layer).c_str(),
        decimal(row.decode_attention_macs_per_layer).c_str(),
        decimal(row.decode_expansion_macs_per_layer).c_str(),
        decimal(row.cache_elements_per_token_per_layer).c_str(), binary(row.cache_bytes).c_str(),
        row.attention.starts_with(published) && !published.empty() ? "  <- as published" : "");
  }
}

void print_csv(const std::vector<CostRow>& rows) {
  for (std::size_t i = 0; i < kColumns.size(); ++i) std::cout << (i ? "," : "") << kColumns[i];
  std::cout << '\n';
  for (const CostRow& row : rows) {
    std::cout << row.attention;
    for (const Count count : numbers(row)) std::cout << ',' << count.value();
    std::cout << '\n';
  }
}

void print_json(const std::vector<CostRow>& rows, Index layers, Index context, Index bytes) {
  nlohmann::ordered_json result = {{"context", context},
                                   {"dtype_bytes", bytes},
                                   {"layers", layers},
                                   {"rows", nlohmann::ordered_json::array()}};
  for (const CostRow& row : rows) {
    nlohmann::ordered_json object = {{"attention", row.attention}};
    const auto values = numbers(row);
    for (std::size_t i = 0; i < values.size(); ++i) object[kColumns[i + 1]] = values[i].value();
    result["rows"].push_back(object);
  }
  std::cout << result.dump(2) << '\n';
}

// Sizes of a run: the settings that its model and `config` share.
void read_run(const std::string& run, Settings& settings) {
  const std::string path = run + "/config.json";
  if (!std::filesystem::exists(path))
    throw DataError("--from " + run + " is no run folder: cannot read " + path);
  const std::string text = read_file(path);
  try {
    const nlohmann::json values = parse_json(text);
    if (!values.is_object()) throw DataError("no configuration: it must be a JSON object");
    if (!values.contains("dim")) throw DataError("no configuration of a run: it has no 'dim'");
    for (const auto& [name, value] : values.items()) {
      const Setting* setting = settings.find(name);
      if (setting != nullptr)
        setting->parse(value.is_string() ? value.get<std::string>() : value.dump());
    }
  } catch (const Error& error) {
    throw DataError(path + ": " + error.what());
  }
}

}  // namespace

int cost_command(const std::vector<std::string>& arguments) {
  ModelConfig config;
  struct Bytes {
    Index element, vector;
    bool operator==(const Bytes&) const = default;
  } bytes{sizeof(float), 0};
  Settings settings = config.settings();
  settings.group("Cache");
  settings.choice<Bytes>(
      "cache-dtype", "type of the cached numbers", bytes,
      {{"f32", {4, 0}}, {"bf16", {2, 0}}, {"f16", {2, 0}}, {"int8", {1, sizeof(float)}}});
  CommandHelp help = kHelp;
  help.examples += "\nModels for --preset:\n";
  for (const KnownModel& model : known_models())
    help.examples += "  " + model.name + ": " + model.source + '\n';
  const CommandLine line = parse_command_line(arguments, help, settings, kFlags);
  if (line.has("help")) return 0;
  if (line.has("preset") && line.has("from"))
    throw UsageError("--preset and --from both give sizes; name one of them");
  if (line.has("csv") && line.has("json"))
    throw UsageError("--csv and --json both say how to print; name one of them");
  std::string published;
  if (line.has("preset")) {
    settings.read(known_model(line.get("preset")).settings);
    published = config.attention.kind;
  }
  if (line.has("from")) {
    read_run(line.get("from"), settings);
    published = config.attention.kind;
  }
  for (const auto& [name, text] : line.settings) settings.find(name)->parse(text);

  std::vector<std::string> left_out;
  const std::vector<CostRow> rows =
      cost_table(config, config.context, bytes.element, left_out, bytes.vector);
  for (const std::string& reason : left_out) std::cerr << "left out " << as_flags(reason) << '\n';
  if (line.has("json")) {
    print_json(rows, config.layers, config.context, bytes.element);
  } else if (line.has("csv")) {
    print_csv(rows);
  } else {
    print_table(rows, config, config.context, bytes.element, published);
  }
  return 0;
}

}  // namespace headcount
