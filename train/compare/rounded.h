#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "nn/attention/cache_rounding.h"
#include "train/compare/comparison.h"
#include "train/compare/runner.h"
#include "train/evaluation.h"
#include "train/show/table.h"

/// Finished runs of a comparison, evaluated again through caches that round.
namespace headcount {

/// Roundings from a list of types, such as f32,int4,k=int4+v=int2, each with all values of the list
/// `rotate` of on and off; group, levels and recent tokens from `given`. "each:int4" stands for
/// int4 and then int4 with one of `layers` layers at a time as computed. Throws SettingError.
std::vector<CacheRounding> read_roundings(const Given& given, Index layers);
/// Name of a rounding in tables, which differs if caches do: "int4", "int4 rotated, group 32".
std::string rounding_name(const CacheRounding& rounding);
/// Evaluates `model` on `tokens` through a cache. Its loss is none if numbers overflow the cache.
/// Throws InterruptedError.
RoundedRun rounded_run(const LanguageModel& model, const CacheRounding& rounding,
                       std::span<const std::int32_t> tokens, EvaluationOptions options);
/// Throws the error of `roundings` that fit none of `models`.
void require_roundings(const std::vector<CacheRounding>& roundings,
                       const std::vector<ModelPlan>& models);
/// Evaluates the weights of a finished run of `variant` on `text`, a part of `corpus`, with each
/// rounding that the model's rows fit, and adds the figures to the run's row and the caches to the
/// variant. Keeps each evaluation in run.json, where a later call of this version finds it. Throws
/// InterruptedError, DataError, WriteError.
void evaluate_rounded(const RunPlan& run, const std::vector<CacheRounding>& roundings,
                      const Corpus& corpus, const TextPart& text, VariantResult& variant);
/// Table with a row for each attention and rounding, at most so wide unless that is 0; empty if
/// there is none.
std::string rounded_table(const ComparisonResult& result, Format format, std::size_t width = 0);

}  // namespace headcount
