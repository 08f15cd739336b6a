#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "models/checkpoint/durable.h"
#include "train/cli/board.h"
#include "train/cli/commands.h"
#include "train/cli/training_flags.h"
#include "train/cli/use_threads.h"
#include "train/compare/compare.h"
#include "train/compare/results.h"
#include "train/compare/run_result.h"
#include "train/compare/verdict.h"
#include "train/folder_lock.h"
#include "train/report/report.h"
#include "train/run_place.h"
#include "train/training_run.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

const CommandHelp kHelp = {
    "compare",
    "Train several attentions on the same text, set their loss against their cache, and say which "
    "is enough.",
    "  headcount compare\n"
    "  headcount compare --attention mha,gqa2,mqa,mla48+16 --seeds 5 --preset nanogpt-cpu --data "
    "input.txt\n"
    "  headcount compare --attention mha,gqa2,mqa --seeds 3..20 --tolerance 0.01\n"
    "  headcount compare --attention gqa,mla --match kv=1024\n"
    "  headcount compare --attention mha,mqa --match params --sweep lr=3e-4,1e-3\n"};

const std::vector<Flag> kFlags = {
    {"preset", "start from a named set of settings: nanogpt-cpu, nanogpt-gpu", true},
    {"config", "start from the settings of a config.json, but for its attention and seed", true},
    {"out", "folder of all runs and results; default runs/compare-DATA", true},
    {"force", "train all runs again, finished ones too", false},
    {"quiet", "no progress", false},
    {"json", "print results.json instead of the table", false}};

// Flags of train that a comparison has otherwise, or that mean nothing to it.
constexpr std::string_view kOwn[] = {"attention", "seed", "init", "checkpoint-every", "keep"};

// Says which flag the list is of.
std::vector<AttentionSpec> parse_attention_flag(std::string_view text) {
  try {
    return parse_attention_specs(text);
  } catch (const SettingError& error) {
    throw SettingError("`attention`: " + std::string(error.what()));
  }
}

double parse_tolerance(std::string_view text) {
  double number = 0;
  Settings setting;
  setting.number("tolerance", "", number, 0);
  setting.find("tolerance")->parse(text);
  return number;
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

void add_settings(ComparisonOptions& options, Settings& s) {
  s.group("Comparison");
  s.custom(
      "attention", "which, with their sizes: a list such as mha,gqa2,mqa/share,mla48+16",
      [&options](std::string_view text) { options.specs = parse_attention_flag(text); },
      [&options] {
        std::string list;
        for (const AttentionSpec& spec : options.specs)
          list += (list.empty() ? "" : ",") + spec.text;
        return nlohmann::json(list);
      });
  Question& question = options.question;
  s.custom(
      "seeds",
      "runs of each, with seeds 1, 2, ...; 3..20: of each 3, then more where the verdict is open, "
      "20 at most. Intervals then allow for the looks in between (repeated confidence intervals of "
      "Jennison and Turnbull, error spending of Lan and DeMets)",
      [&question](std::string_view text) { question.seeds = SeedRange::parse(text); },
      [&question] { return nlohmann::json(question.seeds.text()); });
  s.custom(
      "reference", "the attention that others are judged by; default the largest cache",
      [&question](std::string_view text) { question.reference = text; },
      [&question] { return text_or_null(question.reference); });
  s.choice("metric", "what verdicts are about: loss, or answers right where the text marks them",
           question.metric, {{"loss", Metric::loss}, {"answers", Metric::answers}});
  s.custom(
      "tolerance",
      "what is enough costs less than this: nats per character, or percentage points; default 1 % "
      "of the reference's loss, or 1 point",
      [&question](std::string_view text) { question.tolerance = parse_tolerance(text); },
      [&question] {
        return question.tolerance ? nlohmann::json(*question.tolerance) : nlohmann::json();
      });
  s.on_off("intervals", "95 % confidence intervals, from two seeds on; they decide the verdict",
           question.intervals);
  s.custom(
      "match", "none, params (adjusts ffn-dim) or kv=BYTES (adjusts KV heads or latent rank)",
      [&options](std::string_view text) { options.match = Match::parse(text); },
      [&options] { return nlohmann::json(options.match.text()); });
  s.custom(
      "sweep", "a flag with values, e.g. lr=3e-4,1e-3: each variant gets its best",
      [&options](std::string_view text) { options.sweep = Sweep::parse(text); },
      [&options] {
        return options.sweep ? nlohmann::json(options.sweep->text()) : nlohmann::json();
      });
  s.integer("sample",
            "the passage of the validation part that the report looks at: a story of a built-in "
            "text, a stretch of a file",
            options.passage, 1);
  s.integer("jobs", "runs side by side; 0: as many as there are threads", options.jobs, 0, 1024);
}

void write_results(const ComparisonResult& result, const fs::path& folder) {
  write_file_durably(folder / "results.json", comparison_json(result).dump(2) + "\n");
  write_file_durably(folder / "results.csv", comparison_csv(result));
  for (const ReportChart& chart : comparison_charts(result))
    write_file_durably(folder / chart.file, chart.svg);
  write_file_durably(folder / "report.html", comparison_report(result));
}

ComparisonResult run_comparison(const ComparisonOptions& options, Corpus corpus,
                                const std::vector<PlannedVariant>& variants, RunWatcher& watcher) {
  try {
    return compare(options, std::move(corpus), variants, watcher);
  } catch (const OtherRunError& error) {
    throw DataError(std::string(error.what()) +
                    "; name another folder with --out, or add --force to train all runs again");
  }
}

}  // namespace

int compare_command(const std::vector<std::string>& arguments) {
  ComparisonOptions options;
  TrainOptions& common = options.common;
  RunOptions run;
  Settings settings, shared = common.settings();
  add_settings(options, settings);
  for (const Setting& setting : shared.all()) {
    if (std::ranges::find(kOwn, setting.name) == std::end(kOwn)) settings.add(setting);
  }
  run.add_to(settings);
  const CommandLine line = parse_command_line(arguments, kHelp, settings, kFlags);
  if (line.has("help")) return 0;
  check_paths(line);
  read_preset_and_config(line, shared);
  if (!common.init.empty()) {
    throw UsageError("--config " + line.get("config") + " has init " +
                     headcount::quoted(common.init) +
                     ", but a comparison trains all models from random weights; take it out");
  }
  // An evaluation or a checkpoint takes as long as many steps; only those after the last step are
  // used.
  common.eval_every = common.checkpoint_every = 0;
  read_flags(line, settings);
  if (options.question.seeds.last < 2 && options.question.intervals) {
    throw UsageError("--seeds " + options.question.seeds.text() +
                     " gives no confidence intervals; give 2 or more, or --intervals off");
  }
  options.folder = line.get("out", "runs/compare-" + fs::path(common.data).stem().string());
  check_out_folder(options.folder);
  options.command = command_text("compare", arguments);
  options.again = line.has("force");

  use_threads(run.threads);
  Corpus corpus = load_training_corpus(common);
  const std::vector<PlannedVariant> variants = plan_comparison(
      common, options.specs, options.match, options.sweep, corpus.vocabulary.size());
  require_answerable(options.question, options.specs, corpus);
  std::vector<TrainOptions> meant;
  for (const PlannedVariant& variant : variants) {
    for (const Candidate& candidate : variant.candidates) meant.push_back(candidate.options);
  }
  refuse_foreign(line, meant);

  const FolderLock lock(options.folder);
  Board board(line.has("quiet") ? ProgressMode::never : run.progress);
  const ComparisonResult result = run_comparison(options, std::move(corpus), variants, board);
  write_results(result, options.folder);
  if (line.has("json")) {
    std::cout << comparison_json(result).dump(2) << '\n';
  } else {
    std::cout << as_flags(comparison_table(result)) << "report "
              << (options.folder / "report.html").string() << "\nverdict: " << verdict_text(result)
              << '\n';
  }
  if (result.diverged_runs > 0) return 4;
  return result.failed_runs > 0 ? 1 : 0;
}

}  // namespace headcount
