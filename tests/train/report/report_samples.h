// What tests of the report share: a comparison of three attentions, and ways to look at a page.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "train/compare/verdict.h"
#include "train/report/report.h"
#include "train/run_program.h"

namespace headcount {

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What a reader sees: spaces that do not break lines are spaces to him.
inline std::string plain(std::string text) {
  for (auto at = text.find("\u00a0"); at != std::string::npos; at = text.find("\u00a0")) {
    text.replace(at, 2, " ");
  }
  return text;
}

/// Errors of Python's XML parser about files of `folder` that are not well-formed; empty if all
/// are.
inline std::string xml_faults(const std::filesystem::path& folder) {
  constexpr const char* kScript = HEADCOUNT_FIXTURE_FOLDER "/../train/report/well_formed.py";
  const ProgramResult result =
      run_shell("'" HEADCOUNT_PYTHON "' '" + std::string(kScript) + "' .", folder);
  return result.exit_code == 0 ? "" : result.err;
}

/// Results of three seeds: losses `loss` and 0.001 above and below, a falling curve, decoding at
/// two contexts.
inline VariantResult variant(const std::string& spec, Index cache, double loss, Index seeds = 3) {
  VariantResult result;
  result.spec = spec;
  result.parameters = 804096;
  result.cache_bytes_per_token = cache;
  for (Index seed = 0; seed < seeds; ++seed) {
    RunResult run;
    run.seed = static_cast<std::uint64_t>(seed + 1);
    run.version = "a version";
    run.machine = "a machine";
    run.validation_loss = loss + 0.001 * static_cast<double>(seed - 1);
    run.curve_steps = {10, 20, 30};
    run.curve_losses = {2.0 * loss, 1.5 * loss, run.validation_loss};
    result.runs.push_back(run);
  }
  result.loss.mean = loss;
  if (seeds > 1) result.loss.half_width = 0.0025;
  result.train_tokens_per_second = 38123;
  result.decode = {{128, 5200}, {512, 2600}};
  result.decode_tokens_per_second = 5200;
  return result;
}

inline ComparisonResult comparison() {
  ComparisonResult result;
  result.command = "headcount compare --attention mha,mqa,mla48+16 --seeds 3";
  result.data = "tales";
  result.data_sha256 = std::string(64, 'a');
  result.seeds = {1, 2, 3};
  result.match = "none";
  result.context = 128;
  result.config = {{"steps", 30}};
  result.machine = "a machine";
  result.version = "a version";
  result.hours = 0.5;
  result.variants = {variant("mha", 4096, 0.2410), variant("mqa", 1024, 0.2490),
                     variant("mla48+16", 2048, 0.2500)};
  result.variants[0].pareto = result.variants[1].pareto = true;
  result.variants[1].difference = Estimate{0.0080, 0.0031};
  result.variants[2].difference = Estimate{0.0090, 0.0210};
  result.question.tolerance = 0.004;
  for (const std::size_t i : {1, 2}) {
    VariantResult& v = result.variants[i];
    v.cost = v.difference;
    v.costs = {{1, v.cost->mean - 0.001}, {2, v.cost->mean}, {3, v.cost->mean + 0.001}};
    v.verdict = verdict(*v.cost, result.question.tolerance);
  }
  result.variants[0].cache = {{{"k", 4, 64}, {"v", 4, 64}}, {{"k", 4, 64, 32}, {"v", 4, 64, 32}}};
  result.variants[1].cache = {{{"k", 1, 64}, {"v", 1, 64}}};
  result.variants[2].cache = {{{"latent", 1, 48}, {"rope_key", 1, 16}}};
  return result;
}

inline const ReportChart* chart(const std::vector<ReportChart>& charts, const std::string& file) {
  const auto found = std::ranges::find(charts, file, &ReportChart::file);
  return found == charts.end() ? nullptr : &*found;
}

inline void expect_sound(const ComparisonResult& result) {
  constexpr std::string_view kNamespace = "http://www.w3.org/2000/svg";
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(folder.path() / file, std::ios::binary) << text;
  };
  const std::string page = comparison_report(result);
  ASSERT_TRUE(page.starts_with("<!DOCTYPE html>\n"));
  write("report.html", page);
  for (const ReportChart& chart : comparison_charts(result)) {
    write(chart.file, chart.svg);
    EXPECT_NE(std::ranges::find(kChartFiles, chart.file), kChartFiles.end()) << chart.file;
    EXPECT_TRUE(has(page, chart.svg)) << chart.file;
    for (const char* text : {"nan", "inf"}) EXPECT_FALSE(has(chart.svg, text)) << chart.svg;
  }
  EXPECT_EQ(xml_faults(folder.path()), "");
  EXPECT_EQ(count(page, "http"), count(page, kNamespace) + count(page, "http-equiv"));
  for (const char* text : {"<script", "<link", "<img", "url(", "@import", " src=", " href=", ">nan",
                           ">-nan", ">inf", "± nan"}) {
    EXPECT_FALSE(has(page, text)) << text;
  }
}

}  // namespace headcount
