#include <algorithm>
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
#include "train/cli/from_run.h"
#include "train/cli/run_estimate.h"
#include "train/cli/training_flags.h"
#include "train/interrupt.h"
#include "train/run/folder.h"
#include "train/run/loaded.h"
#include "train/run/place.h"
#include "train/run/provenance.h"
#include "train/table.h"
#include "train/training.h"

namespace headcount {

const CommandHelp kTrainHelp = {
    "train",
    "Train a character-level transformer and report its loss and its KV-cache cost.",
    "  headcount train --attention gqa --kv-heads 2\n"
    "  headcount train --preset nanogpt-cpu --data input.txt --attention mla --kv-rank 48 "
    "--rope-dim 16\n"
    "  headcount train --layers 6 --attention '5*gqa2@64/gqa2'\n",
    {"attention", "kv-heads", "layers", "dim", "context", "data", "preset", "steps", "batch", "lr",
     "seed", "out", "resume", "force"}};

namespace {

const std::vector<Flag> kTrainFlags = {
    {"preset", "start from a named set of settings, which flags override: " + preset_names(), true},
    {"config",
     "start from the settings in this config.json of a run; flags override them. With another "
     "kind of --attention, what its own attention settled is left out",
     true},
    {"out", "run folder; default runs/DATA-ATTENTION", true},
    {"resume",
     "continue the run in this folder from its newest checkpoint. With more --steps than before, "
     "the learning rate follows the schedule of the longer run",
     true},
    {"force", "replace the run that is already in the run folder", false},
    {"quiet", "show no progress", false},
    {"profile", "report the time of a training step by op", false},
    {"trap-non-finite",
     "stop at the first NaN or infinity in a training step and name the op and its shapes; slower",
     false},
    {"json", "print one JSON object instead of text", false},
    {"print-config", "print the settings as JSON and stop", false}};

constexpr double kSampleTemperature = 0.8;

const SettingList& train_settings() {
  static const SettingList list = [] {
    SettingList all = together({training_settings(), run_settings()});
    std::ranges::find(all, std::string("data"), &Setting::name)->standard = kDefaultData;
    return all;
  }();
  return list;
}

std::string write_sample(const LanguageModel& model, const Corpus& corpus,
                         const std::string& opening, std::uint64_t seed,
                         const std::filesystem::path& path) {
  constexpr Index kCharacters = 300;
  GenerationOptions options;
  options.sampling.temperature = kSampleTemperature;
  options.sampling.seed = seed;
  options.tokens = kCharacters;
  const Vocabulary& vocabulary = corpus.vocabulary;
  const std::vector<std::int32_t> prompt = opening.empty()
                                               ? vocabulary.default_prompt()
                                               : vocabulary.encode(decode_utf8(opening, "a story"));
  const auto texts = generate(model, prompt, options).texts;
  const std::string text = opening + vocabulary.decode(texts.front());
  write_file_durably(path, text + "\n");
  return text;
}

// A finished run, for its results.
struct Trained {
  const TrainOptions& options;
  const Corpus& corpus;
  const TrainingOutcome& outcome;
  Index parameters;
  std::filesystem::path folder;
  const TrainingProfile* profile;  // null if none was taken

  double speed() const {
    return tokens_per_second(options, std::ssize(outcome.step_milliseconds),
                             outcome.training_seconds);
  }
  // Shards that are profiled run on one thread.
  int step_threads() const { return profile != nullptr && profile->shards > 1 ? 1 : threads(); }
  bool stories_fit() const { return corpus.stories_fit(options.model->context); }
  // The least loss that a model can have, if it is known and the context does not forbid it.
  std::optional<double> floor() const {
    return stories_fit() ? corpus.entropy_per_character : std::nullopt;
  }
  nlohmann::ordered_json cache_bytes() const {
    return json_number(kv_cache_bytes_per_token(options.model));
  }
};

void print_json(const Trained& run) {
  const TrainingOutcome& outcome = run.outcome;
  nlohmann::ordered_json result = {{"attention", run.options.model->attention},
                                   {"params", run.parameters},
                                   {"val_loss", outcome.validation.loss},
                                   {"train_loss", outcome.last.loss},
                                   {"steps", outcome.last.step},
                                   {"tokens_per_second", run.speed()},
                                   {"ms_per_step_median", outcome.median_milliseconds()},
                                   {"kv_cache_bytes_per_token", run.cache_bytes()},
                                   {"seed", run.options.seed},
                                   {"threads", run.step_threads()},
                                   {"data_sha256", run.corpus.sha256},
                                   {"val_accuracy", outcome.validation.accuracy},
                                   {"run", run.folder.string()}};
  if (const auto& accuracy = outcome.validation.answer_accuracy)
    result["val_answer_accuracy"] = *accuracy;
  if (run.corpus.baselines) result["answer_baselines"] = to_json(*run.corpus.baselines);
  if (run.options.stops_when_learned())
    result["learned_at"] =
        outcome.learned_at ? nlohmann::json(*outcome.learned_at) : nlohmann::json();
  if (run.options.stop_after > 0) {
    result.update({{"stopped", outcome.stopped},
                   {"best_step", outcome.best.step},
                   {"best_val_loss", outcome.best.loss}});
  }
  if (run.floor()) result["entropy_per_character"] = *run.floor();
  if (run.profile != nullptr) result["profile"] = to_json(*run.profile);
  std::cout << result.dump(2) << '\n';
}

void print_text(const Trained& run) {
  const Evaluation& validation = run.outcome.validation;
  const ModelPlan& model = run.options.model;
  const char* const unit = run.corpus.unit();
  std::printf("%s: %td parameters, %s bytes of KV cache per token at %td tokens\n",
              model->attention.c_str(), run.parameters, run.cache_bytes().dump().c_str(),
              model->context);
  std::printf("validation loss %.4f nats per %s over %td %ss, accuracy %.1f %%\n", validation.loss,
              unit, validation.characters, unit, 100 * validation.accuracy);
  if (run.floor()) std::printf("best possible loss on this text %.4f\n", *run.floor());
  std::cout << answers_line(validation, run.corpus.baselines, run.stories_fit());
  std::vector<std::string> notes = attention_notes(model);
  notes.push_back(cut_stories_note(run.corpus.longest_story, model->context));
  notes.push_back(hugging_face_note(model));
  for (const std::string& note : notes) {
    if (!note.empty()) std::printf("note: %s\n", as_flags(note).c_str());
  }
  if (run.outcome.learned_at) {
    std::printf("learned at step %td of %td, where the run ends\n", *run.outcome.learned_at,
                run.options.steps);
  } else if (run.outcome.stopped) {
    std::printf(
        "stopped at step %td of %td: no new lowest validation loss in %td evaluations; the lowest, "
        "%.4f, is that of step %td (sample --best)\n",
        run.outcome.last.step, run.options.steps, run.options.stop_after, run.outcome.best.loss,
        run.outcome.best.step);
  }
  std::printf("%td steps, ", run.outcome.last.step);
  if (run.outcome.step_milliseconds.empty()) {
    std::printf("all of an earlier start");
  } else {
    std::printf("median %.1f ms a step, %.0f tokens/s on %d thread%s",
                run.outcome.median_milliseconds(), run.speed(), run.step_threads(),
                run.step_threads() == 1 ? "" : "s");
  }
  std::printf("\nrun folder %s\n", run.folder.c_str());
  if (run.profile != nullptr) std::cout << "\n" << table(*run.profile);
}

// Throws UsageError if a comparison trains `run`, which in a sweep holds back text, and whose runs
// all have one number of steps: `longer` is the number that was asked for, if it is greater.
void check_comparison(const std::string& run, const std::string& data,
                      std::optional<Index> longer) {
  if (is_there(std::filesystem::path(run) / kUnfinished))
    throw UsageError("--resume ", run,
                     ": a comparison has begun this run and goes on with it if its command is "
                     "repeated; ",
                     run, "/run.json has that command");
  if (longer && is_there(std::filesystem::path(run) / kResult))
    throw UsageError("--steps ", *longer, ": the run in ", run,
                     " belongs to a comparison, whose runs have one length; begin a new run with "
                     "its weights by headcount train --init ",
                     shell_word(run), " --data ", shell_word(data), " --steps ", *longer);
}

// The options of the run that --resume names. Other flags may repeat its settings and raise its
// steps, but change nothing else.
TrainOptions resumed_options(const CommandLine& line) {
  const std::string run = line.get("resume");
  line.refuse_beside("resume", {"out", "force", "preset", "config"},
                     ", which continues a run in its folder, with its settings");
  const TrainOptions trained = named_by("resume", [&] { return read_run_options(run); });
  const nlohmann::ordered_json before = to_json(trained);
  Given given(training_settings());
  given.put_known(before);
  put_flags(line, given);
  const TrainOptions options = resolve_training(given);
  const nlohmann::ordered_json now = to_json(options);
  std::optional<Index> longer;
  for (const Setting& setting : training_settings()) {
    const std::string& name = setting.name;
    const nlohmann::json was = before.value(name, setting.standard.value),
                         is = now.value(name, setting.standard.value);
    if (was == is) continue;
    if (name == "steps" && options.steps > trained.steps) {
      longer = options.steps;
      continue;
    }
    throw UsageError("--", name, " is ", is.dump(), ", but the run in ", run, " has ",
                     was.is_null() ? "none" : was.dump(),
                     "; leave the flag out, or start a new run");
  }
  check_comparison(run, trained.data, longer);
  return options;
}

// Note on a run that is resumed with more steps than it had; empty if that changes no earlier rate.
std::string longer_note(const TrainOptions& options, Index steps_before, Index step) {
  TrainSettings before = options;
  before.steps = steps_before;
  bool same = true;
  for (Index i = 0; i < step; ++i)
    same = same && before.schedule().at(i) == options.schedule().at(i);
  if (same) return "";
  const std::string all = std::to_string(options.steps);
  return "the run continues from step " + std::to_string(step) + " to " + all + " instead of " +
         std::to_string(steps_before) + ", with the learning rates of a run of " + all +
         " steps: its weights will differ from those of a run that had " + all +
         " steps from the start";
}

// The options of a new run. With --init its model is that of the folder, and preset, configuration
// and flags may repeat the settings of that model, but change only those of UseOfWeights::start.
TrainOptions new_options(const CommandLine& line) {
  Given given(training_settings());
  given.put("data", kDefaultData);
  const std::string* const attention = line.setting("attention");
  put_preset_or_config(line, given, [&](const std::string& of_config) {
    return attention != nullptr && !std::ranges::equal(parse_attention_spec(*attention).cycle,
                                                       parse_attention_spec(of_config).cycle, {},
                                                       &LayerSpec::kind, &LayerSpec::kind);
  });
  put_flags(line, given);
  const std::string init = given.text("init");
  if (init.empty()) return resolve_training(given);
  const ModelPlan there =
      named_by("init", [&] { return load_config(require_checkpoint(init)).model; });
  nlohmann::ordered_json here;
  for (const auto& [name, value] : given.values().items()) {
    if (find_setting(model_settings(), name) != nullptr) here[name] = value;
  }
  require_same_model(init, here, there->settings, UseOfWeights::start);
  Given all(training_settings());
  all.put_known(there->settings);
  all.put_known(given.values());
  return resolve_training(all);
}

// Throws UsageError if the folder `out` contains the weights or the text that the run begins with:
// a run that replaces it would lose them before it has any of its own.
void require_outside(const TrainOptions& options, const std::string& out) {
  const auto require = [&](const char* flag, const std::string& path) {
    if (!lies_in(path, out)) return;
    throw UsageError("--", flag, " ", path, " lies in --out ", out,
                     ", whose contents the new run would replace; name a new folder");
  };
  require("init", options.init);
  if (find_built_in(options.data) != nullptr) return;
  require("data", options.data);
  require("validation", options.corpus.validation);
}

// Note on ranks that the run cannot use; empty if it uses all.
std::string idle_ranks_note(const TrainOptions& options, int ranks) {
  const Index shards = shard_count(options);
  if (ranks <= shards) return "";
  std::string note = std::to_string(ranks) + " ranks share the " + std::to_string(shards) +
                     " shards of a batch: " + std::to_string(ranks - shards) +
                     " of them only help to evaluate; a new run with --shards " +
                     std::to_string(ranks);
  if (options.batch < ranks) note += " --batch " + std::to_string(ranks);
  return note + " would use them";
}

// A run that is about to be trained.
struct Job {
  TrainOptions options;
  Corpus corpus;
  Learner learner;
  Index steps_done;
  std::optional<RunFolder> folder;  // rank 0 has it
};

// Loads text and learner of `options`, or of the run that --resume names, and opens its folder.
Job begin(const CommandLine& line, const std::string& command, TrainOptions options, Ranks& ranks) {
  const bool resumes = line.has("resume"), writes = ranks.rank() == 0;
  const std::string run = line.get("resume");
  std::optional<FolderLock> lock;
  Index steps_before = options.steps;
  if (resumes) {
    if (writes) lock.emplace(run);
    wait_for_all(ranks);
    // Read again, now that the lock keeps other processes from changing them.
    steps_before = read_run_options(run).steps;
    options = found_from_here(resumed_options(line), run);
  }
  Corpus corpus = named_by("data", [&] { return load_training_corpus(options); });
  require_same(ranks, version_text() + to_json(options).dump() + corpus.sha256,
               "program, settings or text");
  catch_interrupts();  // from here on a signal must leave the run's folder whole
  auto [learner, state] =
      resumes
          ? resumed_learner(options, run, corpus.vocabulary)
          : std::pair(named_by("init", [&] { return initial_learner(options, corpus.vocabulary); }),
                      TrainingState{});
  if (options.steps > steps_before &&
      TrainingLog::Position{state.step, state.unevaluated, state.best}.stopped(options)) {
    throw UsageError("--steps ", options.steps, ": --stop-after has ended the run in ", run,
                     " at step ", state.step, "; begin a new run");
  }
  adopt_vocabulary(corpus, learner.vocabulary);
  wait_for_all(ranks);  // what they read may be replaced now
  std::optional<RunFolder> folder;
  if (resumes && writes) {
    folder.emplace(RunFolder::resume(std::move(*lock), state, options.steps, corpus, command));
  } else if (writes) {
    const std::filesystem::path out =
        line.has("out") ? std::filesystem::path(line.get("out")) : new_run_folder(options);
    const EarlierRun earlier = line.has("force") ? EarlierRun::replace : EarlierRun::keep;
    folder.emplace(
        RunFolder::create(lock_for_new_run(out, earlier), options, corpus.sha256, command));
  }
  if (writes) {
    tell(corpus.newlines_note);
    tell(folder->lost_metrics());
    tell(idle_ranks_note(options, ranks.size()));
    tell(longer_note(options, steps_before, state.step));
  }
  return {std::move(options), std::move(corpus), std::move(learner), state.step, std::move(folder)};
}

TrainingOutcome train(const CommandLine& line, Job& job, ProgressMode shown,
                      TrainingProfile* profile, Ranks& ranks) {
  const TrainOptions& options = job.options;
  RunProgress progress(shown, options.steps,
                       options.batch * options.model->context * options.accumulate, job.steps_done);
  RunEstimate estimate(options, job.learner, job.corpus, job.steps_done);
  progress.tell(estimate.sizes());
  const auto observe = [&](const StepResult& result, std::optional<double> validation,
                           double training_seconds) {
    progress.update(result, validation, training_seconds);
    if (const auto takes = estimate.measured(result, training_seconds)) progress.tell(*takes);
  };
  TrainingLog none;
  try {
    return train_to_end(options, job.learner, job.corpus, job.folder ? *job.folder : none,
                        {observe, profile, line.has("trap-non-finite")}, ranks);
  } catch (const InterruptedError& error) {
    const std::string run = job.folder ? shell_word(job.folder->path().string()) : "RUN";
    throw InterruptedError(error.signal(), std::string(error.what()) +
                                               "; resume with headcount train --resume " + run);
  }
}

}  // namespace

int train_command(const std::vector<std::string>& arguments, Ranks& ranks) {
  const CommandLine line = parse_command_line(arguments, kTrainHelp, train_settings(), kTrainFlags);
  if (line.has("help")) return 0;
  const Given flags = flags_given(line, train_settings());
  const bool resumes = line.has("resume"), writes = ranks.rank() == 0, json = line.has("json");
  const TrainOptions options = resumes ? resumed_options(line) : new_options(line);
  refuse_foreign(line, {options});
  if (const std::string* spec = line.setting("attention"))
    refuse_idle(idle_setting(*spec, options.model));
  if (line.has("out") && writes) {
    check_out_folder(line.get("out"));
    require_outside(options, line.get("out"));
  }
  if (line.has("force") && !line.has("out"))
    throw UsageError("--force replaces the run in --out, which is missing; name it");
  if (line.has("print-config")) {
    std::cout << to_json(options).dump(2) << '\n';
    return 0;
  }
  require_fast(
      options.precision,
      resumes ? "resume the run on another machine, or begin a new one with f32" : "choose f32");
  const ProgressMode progress = use_run_settings(flags);
  const std::future<void> kernels = std::async(prepare_gemm);  // while the text is read
  Job job = begin(line, command_text("train", arguments), options, ranks);
  const ProgressMode shown = line.has("quiet") || !writes ? ProgressMode::never : progress;
  if (shown != ProgressMode::never) {
    tell(warmup_note(job.options));
    if (!resumes) tell(init_note(job.options));
  }
  TrainingProfile measured;
  TrainingProfile* const profile = line.has("profile") ? &measured : nullptr;
  const TrainingOutcome outcome = train(line, job, shown, profile, ranks);
  if (!writes) return 0;
  const LanguageModel& model = *job.learner.model;
  const std::filesystem::path sample_file = job.folder->sample(outcome.last.step);
  const std::string sample =
      write_sample(model, job.corpus, story_opening(job.options), job.options.seed, sample_file);
  const Trained trained{job.options,        job.corpus, outcome, model.parameters().element_count(),
                        job.folder->path(), profile};
  if (json) {
    print_json(trained);
    return 0;
  }
  print_text(trained);
  // If answers alone were learned, the rest of a sample is noise.
  if (job.corpus.only_answers) {
    constexpr Index kShown = 3;
    std::cout << "\nquestions (more by headcount ask --from "
              << shell_word(job.folder->path().string()) << "):\n";
    print_questions(model, job.corpus, kShown);
  } else {
    std::cout << "\nsample, temperature " << kSampleTemperature << " (" << sample_file.string()
              << "):\n"
              << sample << '\n';
  }
  return 0;
}

}  // namespace headcount
