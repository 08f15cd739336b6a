#include <algorithm>
#include <iostream>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/checkpoint/durable.h"
#include "train/cli/commands.h"
#include "train/cli/progress.h"
#include "train/cli/training_flags.h"
#include "train/compare/compare.h"
#include "train/compare/premises.h"
#include "train/compare/result_files.h"
#include "train/compare/results.h"
#include "train/compare/rounded.h"
#include "train/compare/verdict.h"
#include "train/interrupt.h"
#include "train/run/lock.h"
#include "train/run/place.h"
#include "train/training.h"
#include "train/view/report.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

// Parses a list of attentions, or of controls; an error names the setting.
template <bool kControls>
std::string checked_attentions(std::string_view list) {
  named_error<SettingError>(kControls ? "`control`" : "`attention`",
                            [&] { return parse_attention_specs(list); });
  return std::string(list);
}

// Settings of caches, of which two take lists here.
SettingList rounding_settings() {
  SettingList all = cache_settings();
  for (Setting& setting : all) {
    if (setting.name == "cache-dtype") {
      setting.help =
          "after training, evaluate each run through KV caches of these types, separated by "
          "commas, such as f32,int8,int4,k=int4+v=int2,int4+layer1=bf16, where + joins types of "
          "parts and of layers of one cache; " +
          std::string(kEachHelp);
      setting.takes = Text{[](std::string_view list) {
        for (std::string_view type : split_text(list, ',')) {
          CacheRounding::take_each(type);
          CacheRounding::parse(type);
        }
        return std::string(list);
      }};
      setting.standard = {};
    }
    if (setting.name == "cache-rotate") {
      setting.help += "; off,on: each type both ways";
      setting.takes = Choices{{"on", "off", "off,on"}};
    }
  }
  all.push_back({"cache-characters",
                 "characters of the validation part, from its begin, that are evaluated through "
                 "these caches; 0: all",
                 WholeRange{0}, 0});
  for (Setting& setting : all)
    setting.traits.never_swept = "it rounds the caches of trained models";
  return all;
}

constexpr Index kTurns = 10;  // evaluations of a run that may overfit

// Attentions that are compared by default, for texts other than the default one.
std::string other_defaults() {
  std::string text = "default for other texts than " + std::string(kDefaultData) + ": " +
                     std::string(default_attentions(""));
  for (const BuiltInCorpus* corpus : built_in_corpora()) {
    if (corpus->attentions.empty() || corpus->name == kDefaultData) continue;
    text += "; for " + std::string(corpus->name) + ": " + std::string(corpus->attentions);
  }
  return text;
}

SettingList compare_settings() {
  SettingList all = settings_in(
      Scope::comparison,
      {{"attention", "attentions to compare, such as mha,gqa2,mqa/share; " + other_defaults(),
        Text{checked_attentions<false>}, default_attentions(kDefaultData)},
       {"control",
        "attentions too small for the text, such as mha@4,mhax2, which are compared, too. Unless "
        "each is shown to cost more than the tolerance, nothing is decided; and of losses, a "
        "quarter of the least that one costs is the tolerance if it is below the default",
        Text{checked_attentions<true>}},
       {"tolerance",
        "an attention is enough if it is worse than the reference by less than this: in nats per "
        "character of loss, in percentage points of right answers, or in percent more steps "
        "[1 % of the reference's loss, at least 0.001 nats, 5 points, or 25 % more steps]",
        NumberRange{0}},
       {"sweep",
        "a setting with values, such as lr=3e-4,1e-3: every attention is trained with each value "
        "and judged by its best one",
        parsed<Sweep>()},
       {"seeds",
        "training runs of each attention, with seeds 1, 2, ...; a range such as 3..20: 3 runs of "
        "each, then more until the verdict is decided, at most 20. Verdicts of a range correct "
        "for repeated looks: by repeated confidence intervals (Jennison and Turnbull), or for "
        "answers and steps by a sequential sign test",
        parsed<SeedRange>(),
        {"3, or 5..10 if answers or steps are compared", nullptr}},
       {"reference",
        "attention that the others are compared with",
        Text{},
        {"mha if it is compared, else the one with the largest KV cache", nullptr}},
       {"metric",
        "what verdicts compare: loss (its mean over seeds, assumed normal), answers (share of "
        "right answers, by a sign test over seeds; for texts that mark answers) or steps (to "
        "learn: a run ends at the first evaluation that passes stop-at-loss or stop-at-answers, "
        "by default " +
            formatted("%g %% right answers, of lookups 99 %%)", 100 * kLearned),
        kMetrics,
        {"steps if runs stop when they have learned, as on recall; answers if only answers count "
         "in the loss; else loss",
         nullptr}},
       {"intervals",
        "decide verdicts by 95 % confidence intervals over seeds, of which there must be two or "
        "more",
        kOnOff, "on"},
       {"match",
        "make the compared models equal in size: none, params (as many parameters as with the "
        "first attention, by ffn-dim) or kv=BYTES (KV-cache bytes per token, by the first number "
        "of an attention's word, such as kv-heads or kv-rank)",
        parsed<Match>(), Match().text()},
       {"sample",
        "number, from 1, of the validation passage that the report shows: a story of a built-in "
        "text, or a stretch of a file; 0: one whose last answer an attention that is not enough "
        "has not learned, else the first",
        WholeRange{0}, ComparisonOptions().passage},
       {"jobs", "runs to train in parallel; 0: one per thread", WholeRange{0, 1024}, 0}});
  add_settings(all, settings_in(Scope::comparison, rounding_settings()));
  for (Setting setting : training_settings()) {
    if (setting.traits.scope == Scope::single || setting.name == "attention") continue;
    if (setting.name == "data") setting.standard = kDefaultData;
    if (setting.name == "checkpoint-every") {
      setting.help =
          "steps between checkpoints, whatever --preset and --config say; 0: every five minutes "
          "and at the end";
    }
    if (setting.name == "eval-every") {
      setting.help =
          "steps between evaluations, whatever --preset and --config say; 0: only at the end";
    }
    if (setting.name == "checkpoint-every") setting.standard = 0;
    if (setting.name == "eval-every")
      setting.standard = {
          "those of the text if steps are compared; " + std::to_string(kTurns) +
              " evaluations of runs that read their text twice, so that overfitting "
              "shows; else 0",
          nullptr};
    all.push_back(std::move(setting));
  }
  add_settings(all, run_settings());
  return all;
}

constexpr const char* kStops[] = {"stop-at-answers", "stop-at-loss"};

bool stop_when_learned(const Given& common) {
  return std::ranges::any_of(kStops, [&](const char* stop) { return common.number(stop) > 0; });
}

ComparisonOptions read_comparison_options(const Given& given, const Given& common,
                                          const Corpus& corpus) {
  ComparisonOptions options;
  options.specs = parse_attention_specs(given.has("attention")
                                            ? given.text("attention")
                                            : std::string(default_attentions(common.text("data"))));
  Question& question = options.question;
  if (given.has("control")) {
    for (const AttentionSpec& control : parse_attention_specs(given.text("control"))) {
      auto same = std::ranges::find(options.specs, control.cycle, &AttentionSpec::cycle);
      if (same == options.specs.end()) same = options.specs.insert(same, control);
      question.controls.push_back(same->text);
    }
  }
  if (given.has("reference")) question.reference = given.text("reference");
  if (given.has("tolerance")) question.tolerance = given.number("tolerance");
  question.intervals = given.on("intervals");
  question.metric = given.has("metric") ? given.chosen("metric", kMetrics)
                                        : usual_metric(corpus, stop_when_learned(common));
  question.seeds =
      given.has("seeds") ? SeedRange::parse(given.text("seeds")) : usual_seeds(question);
  options.match = Match::parse(given.text("match"));
  if (given.has("sweep")) options.sweep = Sweep::parse(given.text("sweep"));
  options.passage = given.whole("sample");
  options.roundings = read_roundings(given, common.whole("layers"));
  options.rounded_characters = given.whole("cache-characters");
  if (given.has("cache-characters") && options.roundings.empty())
    throw SettingError("`cache-characters` goes with `cache-dtype`");
  return options;
}

// Folder and number of runs side by side. Throws if the folder has results of another command.
RunOrders read_orders(const CommandLine& line, const Given& given, const Given& common,
                      std::vector<std::string> arguments) {
  RunOrders orders;
  orders.folder = line.get("out", "runs/compare-" + fs::path(common.text("data")).stem().string());
  check_place_of_results(orders.folder);
  orders.jobs = given.whole("jobs");
  orders.again = line.has("force");
  std::erase(arguments, "--force");  // it would train finished runs again
  orders.command = command_text("compare", arguments);
  return orders;
}

// Processes that share the runs take turns: each writes the same files.
void write_results(const ComparisonResult& result, const fs::path& folder) {
  const FolderLock turn(folder / kRuns, FolderLock::Holders::in_turn);
  write_file_durably(folder / kResults, results_table(result, Format::json));
  write_file_durably(folder / kReport,
                     report_page({comparison_part(result, fs::exists(folder / kTrainingPage))}));
}

// Runs the comparison and writes its results; errors say how to continue.
ComparisonResult run_comparison(const ComparisonPlan& plan, const RunOrders& orders,
                                RunWatcher& watcher) {
  try {
    const ComparisonResult result = compare(plan, orders, watcher);
    write_results(result, orders.folder);
    return result;
  } catch (const WriteError& error) {
    throw Error("{}; continue with {}", error.what(), orders.command);
  } catch (const InterruptedError& error) {
    throw InterruptedError(error.signal(),
                           std::string(error.what()) + "; continue with " + orders.command);
  } catch (const OtherRunError& error) {
    throw UsageError("{}; name another folder with --out, or add --force to train all runs again",
                     error.what());
  }
}

// Lets runs end when they have learned if steps are compared; else all have the same length.
// `evaluations` is the text's own `eval-every`.
void settle_stops(const Given& flags, const nlohmann::json& evaluations, Given& common) {
  const bool steps = flags.has("metric") ? flags.chosen("metric", kMetrics) == Metric::steps
                                         : stop_when_learned(common);
  if (steps) {
    if (!stop_when_learned(common))
      common.put("stop-at-answers", 100 * share_to_learn(common.text("data")));
    if (!flags.has("eval-every")) common.put("eval-every", evaluations);
    return;
  }
  for (const char* stop : kStops) {
    if (flags.has(stop) && flags.number(stop) > 0) {
      throw UsageError(
          "--{} ends runs at different steps, which --metric {} does not compare; take --metric "
          "steps",
          stop, flags.text("metric"));
    }
    common.put(stop, 0.0);
  }
}

// The settings that all variants share: flags over a preset or a configuration.
Given common_settings(const CommandLine& line, const Given& flags) {
  Given common(training_settings());
  common.put("data", kDefaultData);
  put_preset_or_config(line, common, [](const std::string&) { return true; });
  if (const std::string init = common.text("init"); !init.empty()) {
    throw UsageError(
        "--config {} has init {}, but a comparison trains all models from random weights; take it "
        "out",
        line.get("config"), headcount::quoted(init));
  }
  const nlohmann::json evaluations = common.get("eval-every");
  // An evaluation or a checkpoint takes as long as many steps, and runs of seconds need none before
  // the last step.
  for (const char* every : {"eval-every", "checkpoint-every"}) common.put(every, 0);
  common.put("keep", 1);
  common.put("stop-after", 0);  // runs that are compared have one length
  nlohmann::ordered_json given = flags.values();
  given.erase("attention");  // a list of them
  common.put_known(given);
  settle_stops(flags, evaluations, common);
  return common;
}

// Evaluates runs on the way that read the training text twice or more: they may overfit, which the
// last loss alone does not show. If a tenth of the text is evaluated, they take at most 1/6 longer.
void show_overfitting(const Corpus& corpus, Given& common) {
  const Index steps = common.whole("steps"), every = std::max<Index>(1, steps / kTurns);
  const double read = static_cast<double>(steps) * static_cast<double>(common.whole("batch")) *
                      static_cast<double>(common.whole("accumulate")) *
                      static_cast<double>(common.whole("context"));
  if (read >= 2 * static_cast<double>(corpus.train.tokens.size())) common.put("eval-every", every);
}

// Throws UsageError for a flag that changes nothing in any run, and for an attention that differs
// from a simpler one in name only.
void refuse_without_effect(const CommandLine& line, const ComparisonPlan& plan) {
  std::vector<TrainOptions> meant;
  for (const PlannedVariant& variant : plan.variants) {
    for (const Candidate& candidate : variant.candidates) meant.push_back(candidate.options);
    refuse_idle_words(variant.spec, *meant.back().model);
  }
  refuse_foreign(line, meant);
}

std::string results_in(const CommandLine& line, Format format, const ComparisonResult& result,
                       const fs::path& folder) {
  if (format == Format::json || format == Format::csv) return results_table(result, format);
  const std::size_t width = table_width(line);
  return as_flags(comparison_table(result, format, width)) + "report " +
         (folder / kReport).string() + "\n" + verdict_lines(verdict_clauses(result), width);
}

int compare_command(const Call& call) {
  const CommandLine& line = call.line;
  const Given flags = flags_given(call);
  Given common = common_settings(line, flags);
  const RunOrders orders = read_orders(line, flags, common, call.arguments);
  require_fast(read_precision(common), "choose f32");
  const ProgressMode progress = use_run_settings(flags);

  Corpus corpus = named_by("data", [&] { return load_training_corpus(common); });
  for (const std::string& note : corpus.notes) tell(note);
  if (!flags.has("eval-every") && !stop_when_learned(common)) show_overfitting(corpus, common);
  ComparisonOptions options = read_comparison_options(flags, common, corpus);
  const ComparisonPlan planned = plan(common, std::move(options), std::move(corpus));
  refuse_without_effect(line, planned);

  catch_interrupts();  // from here on a signal must leave the runs' folders whole
  const FolderLock lock(orders.folder,
                        orders.again ? FolderLock::Holders::one : FolderLock::Holders::many);
  for (const char* file : {kReport, kResults})
    if (orders.again) erase(orders.folder / file);
  const std::string why = why_in_vain(planned);
  ComparisonProgress watcher(line.has("quiet") ? ProgressMode::never : progress,
                             why.empty() ? "" : "nothing will be decided: " + why);
  const ComparisonResult result = run_comparison(planned, orders, watcher);
  std::cout << results_in(line, call.format, result, orders.folder);
  if (result.failed_runs > result.diverged_runs)
    tell("runs failed; to train them again, repeat " + orders.command);
  if (result.diverged_runs > 0) return 4;
  return result.failed_runs > 0 ? 1 : 0;
}

}  // namespace

const Command kCompareCommand = {
    {"compare",
     "Train several attentions on a text and say which is enough, and at what KV cache.",
     "  headcount compare\n"
     "  headcount compare --preset nanogpt-cpu --data input.txt --attention mha,gqa2,mqa --seeds "
     "5\n"
     "  headcount compare --data input.txt --attention mha,gqa2,mqa --seeds 3..20 --tolerance "
     "0.01\n"
     "  headcount compare --attention gqa,mla --match kv=304\n"
     "  headcount compare --attention mha,mqa --match params --sweep lr=3e-4,1e-3\n"
     "  headcount compare --attention mha,mqa --cache-dtype f32,int8,int4,int2 --cache-rotate on\n",
     {"attention", "context", "data", "preset", "steps", "seeds", "metric", "match", "out", "force",
      "jobs", "format", "wide"}},
    compare_settings,
    {{"preset", "start from a named set of settings, which flags override: " + preset_names(),
      true},
     {"config",
      "start from the settings in this run.json of a run, except its seed, its attention and "
      "the sizes of that; flags override them",
      true},
     {"out",
      "folder of all runs and results [runs/compare-DATA]. Processes started with the "
      "same flags share the runs in it: any number, on all machines that see the folder, at any "
      "time",
      true},
     {"force",
      "erase the results of all seeds of this command and train all runs again; no other process "
      "may share the folder",
      false},
     {"quiet", "show no progress", false},
     kFormatFlag,
     kWideFlag},
    compare_command};

}  // namespace headcount
