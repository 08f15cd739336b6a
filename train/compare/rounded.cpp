#include "train/compare/rounded.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/base/text.h"
#include "models/cost/cost.h"
#include "train/evaluation.h"
#include "train/interrupt.h"
#include "train/options.h"
#include "train/run/loaded.h"
#include "train/run/lock.h"
#include "train/run/provenance.h"
#include "train/run/record.h"
#include "train/show/cache_cost.h"
#include "train/show/table.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Returns true if the model caches the parts that `rounding` names. Throws ShapeError if its rows
// cannot be grouped or rotated so.
bool fits(const ModelPlan& model, const CacheRounding& rounding) {
  try {
    kv_cache_bytes(model, 1, rounding);
    return true;
  } catch (const SettingError&) {
    return false;
  }
}

// A row of the table.
struct RoundedRow {
  const VariantResult& variant;
  const RoundedCache& cache;

  // Mean over the runs of a figure.
  std::optional<Estimate> mean(const auto& figure) const {
    std::vector<double> values;
    for (const RunResult& run : variant.runs) {
      const auto through = std::ranges::find(run.rounded, cache.cache, &RoundedRun::cache);
      if (through == run.rounded.end()) continue;
      if (const std::optional<double> value = figure(*through)) values.push_back(*value);
    }
    return values.empty() ? std::nullopt : std::optional(estimate(values));
  }
};

std::string mean_text(const std::optional<Estimate>& e, int decimals, double unit) {
  return e ? estimate_text(*e, decimals, unit) : "-";
}

}  // namespace

std::vector<CacheRounding> read_roundings(const Given& given, Index layers) {
  std::vector<CacheRounding> all;
  if (!given.has("cache-dtype")) {
    for (const Setting& setting : cache_settings()) {
      if (given.has(setting.name)) throw SettingError("`{}` goes with `cache-dtype`", setting.name);
    }
    return all;
  }
  const std::string types = given.text("cache-dtype"), turns = given.text("cache-rotate");
  std::set<std::string> read, caches;  // settings that some type heeds; names so far
  for (std::string_view type : split_text(types, ',')) {
    const bool each = CacheRounding::take_each(type);
    for (const std::string_view turn : split_text(turns, ',')) {
      Given one(cache_settings());
      one.put("cache-dtype", std::string(type));
      one.put("cache-rotate", std::string(turn));
      const CacheRounding rounding = CacheRounding::parse(type);
      for (const char* const name : kOfSomeTypes) {
        if (!given.has(name) || !why_idle(rounding, name).empty()) continue;
        one.put(name, given.get(name));
        read.insert(name);
      }
      std::vector<CacheRounding> list = {read_rounding(one)};
      if (each) std::ranges::copy(list.front().each_exact(layers), std::back_inserter(list));
      for (CacheRounding& next : list) {
        all.push_back(next);
        std::ranges::sort(next.parts);
        if (!caches.insert(rounding_name(next)).second)
          throw SettingError("`cache-dtype` has the cache {} twice; name each once",
                             all.back().text());
      }
    }
  }
  for (const char* const name : kOfSomeTypes)
    if (given.has(name) && !read.contains(name))
      throw SettingError("`{}` has no effect with `cache-dtype` {}; leave it out", name, types);
  return all;
}

RoundedRun rounded_run(const LanguageModel& model, const CacheRounding& rounding,
                       std::span<const std::int32_t> tokens, EvaluationOptions options) {
  if (interrupted()) throw InterruptedError(interrupt_signal(), "stopped; its runs are saved");
  RoundedRun run{.cache = rounding_name(rounding), .characters = std::ssize(tokens)};
  options.rounding = rounding;
  try {
    const Evaluation result = evaluate(model, tokens, options);
    run.validation_loss = result.loss;
    run.answer_accuracy = result.answer_accuracy;
    run.change = result.change;
  } catch (const NonFiniteError&) {  // its numbers overflow the cache
  }
  return run;
}

std::string rounding_name(const CacheRounding& rounding) {
  const CacheFormat& all = rounding.all;
  std::string name = rounding.text() + (all.rotated ? " rotated" : "");
  if (all.group > 0) name += ", group " + std::to_string(all.group);
  if (all.rotated != (all.levels == CacheLevels::normal))
    name += all.rotated ? ", uniform levels" : ", normal levels";
  if (all.recent > 0) name += ", recent " + std::to_string(all.recent);
  return name;
}

void require_roundings(const std::vector<CacheRounding>& roundings,
                       const std::vector<ModelPlan>& models) {
  for (const CacheRounding& rounding : roundings) {
    const auto fits_it = [&](const ModelPlan& model) { return fits(model, rounding); };
    if (std::ranges::none_of(models, fits_it)) kv_cache_bytes(models.front(), 1, rounding);
  }
}

void evaluate_rounded(const RunPlan& run, const std::vector<CacheRounding>& roundings,
                      const Corpus& corpus, const TextPart& text, VariantResult& variant) {
  const LoadedRun loaded = load_run(run.folder.string());
  const ModelPlan& plan = loaded.model->plan();
  // Processes that share the runs evaluate each in turn.
  const FolderLock lock(run.folder, FolderLock::Holders::in_turn);
  RunRecord record = read_run_record(run.folder);
  RunResult saved;
  read_from(record.result, saved);
  if (record.version != version_text()) saved.rounded.clear();
  RunResult& result = *std::ranges::find(variant.runs, run.options.seed, &RunResult::seed);
  for (const CacheRounding& rounding : roundings) {
    if (!fits(plan, rounding)) continue;
    const std::string name = rounding_name(rounding);
    const auto is_it = [&](const RoundedRun& of) {
      const bool compared = of.change || !of.validation_loss;  // earlier programs did not
      return compared && of.cache == name && of.characters == std::ssize(text.tokens);
    };
    auto found = std::ranges::find_if(saved.rounded, is_it);
    if (found == saved.rounded.end()) {
      saved.rounded.push_back(
          rounded_run(*loaded.model, rounding, text.tokens, {.marks = corpus.marks(text)}));
      found = std::prev(saved.rounded.end());
      record.result["rounded"] = json_of(saved.rounded);
      write_run_record(run.folder, record);
    }
    result.rounded.push_back(*found);
    if (std::ranges::find(variant.rounded, name, &RoundedCache::cache) == variant.rounded.end())
      variant.rounded.push_back({.cache = name,
                                 .cache_bytes_per_token = kv_cache_bytes_per_token(plan, rounding),
                                 .layers = cache_layers(cache_of(plan), rounding)});
  }
}

std::string rounded_table(const ComparisonResult& result, Format format, std::size_t width) {
  std::vector<RoundedRow> rows;
  for (const VariantResult& variant : result.variants) {
    for (const RoundedCache& cache : variant.rounded) rows.push_back({variant, cache});
  }
  if (rows.empty()) return "";
  using Row = const RoundedRow&;
  std::vector<Column<RoundedRow>> columns = {
      {"attention", "", [](Row row) { return row.variant.spec; }, {}, true},
      {"cache", "", [](Row row) { return row.cache.cache; }, {}, true},
      {"KV B/\ntoken",
       "",
       [](Row row) { return tenths_text(row.cache.cache_bytes_per_token); },
       {}}};
  if (result.variants.size() == 1) columns.erase(columns.begin());
  // A figure that some run has, with its number of decimals and its unit.
  const auto add = [&](const char* heading, const char* key, int decimals, double unit,
                       const auto& figure) {
    if (std::ranges::none_of(rows, [&](Row row) { return row.mean(figure).has_value(); })) return;
    columns.push_back(
        {heading, key, [=](Row row) { return mean_text(row.mean(figure), decimals, unit); }, {}});
  };
  const auto change = [](auto RoundingChange::*member) {
    return [=](const RoundedRun& run) {
      return run.change ? std::optional<double>((*run.change).*member) : std::nullopt;
    };
  };
  add("loss", "", 4, 1, std::mem_fn(&RoundedRun::validation_loss));
  add("answers\nright, %", "", 1, 100, std::mem_fn(&RoundedRun::answer_accuracy));
  add("KL, nats", "kl_mean", 4, 1, change(&RoundingChange::divergence));
  add("KL, 99th\npercentile", "kl_p99", 4, 1, change(&RoundingChange::divergence99));
  add("first\nchoice\nstays, %", "first_choice_kept", 1, 100, change(&RoundingChange::same_choice));
  add("largest\nchange of\na logit", "largest_logit_change", 3, 1,
      change(&RoundingChange::largest_change));
  // A count of one run, or a mean over runs.
  const bool alone =
      std::ranges::all_of(rows, [](Row row) { return row.variant.runs.size() == 1; });
  add("answers\nturn\nwrong", "answers_lost", alone ? 0 : 1, 1, change(&RoundingChange::lost));
  add("turn\nright", "answers_gained", alone ? 0 : 1, 1, change(&RoundingChange::gained));
  return text_table(columns, rows, format, width,
                    {"largest_logit_change", "kl_p99", "answers_gained", "answers_lost",
                     "first_choice_kept", "kl_mean"});
}

}  // namespace headcount
