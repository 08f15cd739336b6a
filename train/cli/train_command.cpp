#include <cstdio>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "autograd/parallel.h"
#include "autograd/products.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"
#include "models/checkpoint/hugging_face.h"
#include "models/cost.h"
#include "models/sampling.h"
#include "train/cli/commands.h"
#include "train/cli/run_estimate.h"
#include "train/cli/training_flags.h"
#include "train/cli/use_threads.h"
#include "train/interrupt.h"
#include "train/run/loaded.h"
#include "train/run/lock.h"
#include "train/run/place.h"
#include "train/run/provenance.h"
#include "train/run/training.h"
#include "train/table.h"

namespace headcount {

namespace {

const CommandHelp kTrainHelp = {
    "train", "Train a character-level transformer and report its loss and its KV-cache cost.",
    "  headcount train --attention gqa --kv-heads 2\n"
    "  headcount train --preset nanogpt-cpu --data input.txt --attention mla --kv-rank 48 "
    "--rope-dim 16\n"
    "  headcount train --layers 6 --attention '5*gqa2@64/gqa2'\n"};

const std::vector<Flag> kTrainFlags = {
    {"preset", "start from a named set of settings: " + preset_names(), true},
    {"config", "start from the settings of a config.json", true},
    {"out", "run folder; default runs/DATA-ATTENTION", true},
    {"resume",
     "go on with the run in this folder where its newest checkpoint left it; with more --steps "
     "than it had, it becomes longer: from there on its learning rates are those of a run of so "
     "many steps, so its weights are not",
     true},
    {"force", "replace the run that is in the run folder", false},
    {"quiet", "no progress", false},
    {"profile", "measure where the time of a step goes, op by op", false},
    {"json", "print one JSON object instead of text", false},
    {"print-config", "print the settings as JSON and stop", false}};

constexpr double kSampleTemperature = 0.8;

const SettingList& train_settings() {
  static const SettingList list = together({training_settings(), run_settings()});
  return list;
}

std::string write_sample(const LanguageModel& model, const Corpus& corpus, std::uint64_t seed,
                         const std::filesystem::path& path) {
  constexpr Index kCharacters = 300;
  GenerationOptions options;
  options.sampling.temperature = kSampleTemperature;
  options.sampling.seed = seed;
  options.tokens = kCharacters;
  const auto texts = generate(model, corpus.vocabulary.default_prompt(), options).texts;
  const std::string text = corpus.vocabulary.decode(texts.front());
  write_file_durably(path, text + "\n");
  return text;
}

void print_outcome(const TrainOptions& options, const LanguageModel& model, const Corpus& corpus,
                   const TrainingOutcome& outcome, const std::filesystem::path& folder, bool json,
                   const TrainingProfile* profile) {
  // Shards that are profiled run on one thread.
  const int step_threads = profile != nullptr && profile->shards > 1 ? 1 : threads();
  const nlohmann::ordered_json per_token = json_number(kv_cache_bytes_per_token(options.model));
  nlohmann::ordered_json result = {{"attention", options.model->attention},
                                   {"params", model.parameters().element_count()},
                                   {"val_loss", outcome.validation.loss},
                                   {"train_loss", outcome.last.loss},
                                   {"steps", outcome.last.step},
                                   {"tokens_per_second", outcome.tokens_per_second(options)},
                                   {"ms_per_step_median", outcome.median_milliseconds()},
                                   {"kv_cache_bytes_per_token", per_token},
                                   {"seed", options.seed},
                                   {"threads", step_threads},
                                   {"data_sha256", corpus.sha256},
                                   {"val_accuracy", outcome.validation.accuracy},
                                   {"run", folder.string()}};
  if (outcome.validation.answer_accuracy)
    result["val_answer_accuracy"] = *outcome.validation.answer_accuracy;
  const bool stories_fit = corpus.stories_fit(options.model->context);
  const bool has_floor = stories_fit && corpus.entropy_per_character;
  if (corpus.baselines) result["answer_baselines"] = to_json(*corpus.baselines);
  if (has_floor) result["entropy_per_character"] = *corpus.entropy_per_character;
  if (profile != nullptr) result["profile"] = to_json(*profile);
  if (json) {
    std::cout << result.dump(2) << '\n';
    return;
  }
  std::printf("%s: %td parameters, %s bytes of KV cache per token at %td tokens\n",
              options.model->attention.c_str(), model.parameters().element_count(),
              per_token.dump().c_str(), options.model->context);
  const char* const unit = corpus.only_answers ? "answer" : "character";
  std::printf("validation loss %.4f nats per %s over %td %ss, accuracy %.1f %%\n",
              outcome.validation.loss, unit, outcome.validation.characters, unit,
              100 * outcome.validation.accuracy);
  if (has_floor)
    std::printf("best possible loss on this text %.4f\n", *corpus.entropy_per_character);
  std::cout << answers_line(outcome.validation, corpus.baselines, stories_fit);
  for (const std::string& note : {cut_stories_note(corpus.longest_story, options.model->context),
                                  hugging_face_note(options.model)}) {
    if (!note.empty()) std::printf("note: %s\n", note.c_str());
  }
  std::printf("%td steps, median %.1f ms a step, %.0f tokens/s on %d threads\nrun folder %s\n",
              outcome.last.step, outcome.median_milliseconds(), outcome.tokens_per_second(options),
              step_threads, folder.c_str());
  if (profile != nullptr) std::cout << "\n" << table(*profile);
}

// Throws UsageError where a run may not become longer: a comparison holds it against others.
void check_longer(const std::string& run, Index steps) {
  for (const char* file : {kResult, kUnfinished}) {
    if (!is_there(std::filesystem::path(run) / file)) continue;
    throw UsageError("--steps " + std::to_string(steps) + ": the run in " + run +
                     " is one of a comparison, which would no longer be of runs of one length; "
                     "begin a new run with its weights by headcount train --init " +
                     shell_word(run) + " --steps " + std::to_string(steps));
  }
}

// The options of the run that --resume names; other flags may repeat its settings, not change them,
// but for more steps.
TrainOptions resumed_options(const CommandLine& line) {
  const std::string run = line.get("resume");
  for (const char* flag : {"out", "force", "preset", "config"}) {
    if (line.has(flag))
      throw UsageError("--" + std::string(flag) +
                       " does not go with --resume, which names the run");
  }
  const TrainOptions trained = read_run_options(run);
  const nlohmann::ordered_json before = to_json(trained);
  Given given(training_settings());
  given.put_known(before);
  put_flags(line, given);
  const TrainOptions options = resolve_training(given);
  const nlohmann::ordered_json now = to_json(options);
  for (const Setting& setting : training_settings()) {
    const std::string& name = setting.name;
    const nlohmann::json was = before.value(name, setting.neutral),
                         is = now.value(name, setting.neutral);
    if (was == is) continue;
    if (name == "steps" && options.steps > trained.steps) {
      check_longer(run, options.steps);
      continue;
    }
    throw UsageError("--" + name + " is " + is.dump() + ", but the run in " + run + " has " +
                     (was.is_null() ? "none" : was.dump()) +
                     "; leave the flag out, or start a new run");
  }
  return options;
}

// What becomes of a run that had fewer steps and goes on from one of them; empty otherwise.
std::string longer_note(const TrainOptions& options, Index steps_before, Index step) {
  if (options.steps == steps_before) return "";
  const std::string all = std::to_string(options.steps);
  return "the run goes on from step " + std::to_string(step) + " to " + all + " instead of " +
         std::to_string(steps_before) + ", from here on with the learning rates of a run of " +
         all + " steps: it will not have the weights of one that had " + all + " from the start";
}

// The options of a new run. With --init its model is the one in that folder, or the newest of a
// run folder, and preset, configuration and flags may repeat what that model is, not change it.
TrainOptions new_options(const CommandLine& line) {
  Given given(training_settings());
  put_preset_and_config(line, given);
  put_flags(line, given);
  const auto init = given.get<std::string>("init", "");
  if (init.empty()) return resolve_training(given);
  const ModelPlan there = load_model_plan(find_checkpoint(init).value_or(init));
  nlohmann::ordered_json here;
  for (const auto& [name, value] : given.values().items()) {
    if (find_setting(model_settings(), name) != nullptr) here[name] = value;
  }
  require_same_model(init, here, there->settings);
  Given all(training_settings());
  all.put_known(there->settings);
  all.put_known(given.values());
  return resolve_training(all);
}

// The folder of the run, which rank 0 alone has: the run that --resume names, at `state`, or a new
// one.
std::optional<RunFolder> run_folder(const CommandLine& line, const TrainOptions& options,
                                    const std::string& command, const Corpus& corpus,
                                    std::optional<FolderLock> lock, const TrainingState& state,
                                    const Ranks& ranks) {
  if (ranks.rank() > 0) return std::nullopt;
  if (lock)
    return RunFolder::resume(std::move(*lock), state, options.steps, corpus.sha256, command);
  return RunFolder::create(
      line.has("out") ? std::filesystem::path(line.get("out")) : new_run_folder(options), options,
      corpus.sha256, command, line.has("force"));
}

// What to tell whoever started more ranks than the run can use; empty otherwise.
std::string idle_ranks_note(const TrainOptions& options, int ranks) {
  const Index shards = shard_count(options);
  if (ranks <= shards) return "";
  std::string note = std::to_string(ranks) + " ranks share the " + std::to_string(shards) +
                     " shards of a batch: " + std::to_string(ranks - shards) +
                     " of them only help to evaluate; a new run with ";
  constexpr Index kMostBatch = 1 << 12;
  TrainOptions more = options;
  more.shards = 0;
  while (shard_count(more) < ranks && more.batch < kMostBatch) ++more.batch;
  if (shard_count(more) >= ranks) note += "--batch " + std::to_string(more.batch) + " or ";
  note += "--shards " + std::to_string(ranks);
  if (options.batch < ranks) note += " --batch " + std::to_string(ranks);
  return note + " would use them";
}

void tell(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (!note.empty()) std::cerr << "headcount: " << note << '\n';
  }
}

}  // namespace

int train_command(const std::vector<std::string>& arguments, Ranks& ranks) {
  const CommandLine line = parse_command_line(arguments, kTrainHelp, train_settings(), kTrainFlags);
  if (line.has("help")) return 0;
  check_paths(line);
  const RunOptions run = read_run_options(flags_given(line, train_settings()));
  TrainOptions options = line.has("resume") ? resumed_options(line) : new_options(line);
  Index steps_before = options.steps;
  if (!line.has("resume")) {
    refuse_foreign(line, {options});
    if (line.has("out") && ranks.rank() == 0) check_out_folder(line.get("out"));
  }
  if (line.has("print-config")) {
    std::cout << to_json(options).dump(2) << '\n';
    return 0;
  }
  use_threads(run.threads);
  use_folder_locks(run.lock);
  const std::future<void> kernels = std::async(prepare_gemm);  // while the text is read
  std::optional<FolderLock> lock;
  if (line.has("resume")) {
    if (ranks.rank() == 0) lock.emplace(line.get("resume"));
    wait_for_all(ranks);
    // As they are now that nobody changes them.
    steps_before = read_run_options(line.get("resume")).steps;
    options = found_from_here(resumed_options(line), line.get("resume"));
  }
  Corpus corpus = load_training_corpus(options);
  require_same(ranks, version_text() + to_json(options).dump() + corpus.sha256,
               "program, settings or text");
  catch_interrupts();  // from here on a run folder may be there, which must be left in order
  const std::string command = command_text("train", arguments);
  auto [learner, state] = line.has("resume")
                              ? resumed_learner(options, line.get("resume"), corpus)
                              : std::pair(initial_learner(options, corpus), TrainingState{});
  const LanguageModel& model = *learner.model;
  wait_for_all(ranks);  // what they read may be replaced now
  std::optional<RunFolder> folder =
      run_folder(line, options, command, corpus, std::move(lock), state, ranks);
  const bool speaks = ranks.rank() == 0;
  const ProgressMode shown = line.has("quiet") || !speaks ? ProgressMode::never : run.progress;
  if (speaks) {
    tell({folder->lost_metrics(), idle_ranks_note(options, ranks.size())});
    if (line.has("resume")) tell({longer_note(options, steps_before, state.step)});
  }
  if (shown != ProgressMode::never) tell({warmup_note(options)});
  std::optional<TrainingProfile> profile;
  if (line.has("profile")) profile.emplace();
  TrainingProfile* const profile_or_null = profile ? &*profile : nullptr;
  const TrainingOutcome outcome = [&] {
    Progress progress(shown, options.steps,
                      options.batch * options.model->context * options.accumulate, state.step);
    RunEstimate estimate(options, learner, corpus, state.step);
    progress.tell(estimate.sizes());
    return train_to_end(
        options, learner, corpus, folder ? &*folder : nullptr,
        [&](const StepResult& result, std::optional<double> validation, double training_seconds) {
          progress.update(result, validation, training_seconds);
          if (const auto takes = estimate.measured(result, training_seconds)) progress.tell(*takes);
        },
        profile_or_null, ranks);
  }();
  if (!speaks) return 0;
  const std::filesystem::path sample_file = folder->sample(options.steps);
  const std::string sample = write_sample(model, corpus, options.seed, sample_file);
  print_outcome(options, model, corpus, outcome, folder->path(), line.has("json"), profile_or_null);
  // Of a text whose answers alone were learned the sample is noise.
  if (!line.has("json") && !corpus.only_answers) {
    std::cout << "\nsample, temperature " << kSampleTemperature << " (" << sample_file.string()
              << "):\n"
              << sample << '\n';
  }
  return 0;
}

}  // namespace headcount
