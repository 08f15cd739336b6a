#include <algorithm>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "autograd/parallel.h"
#include "autograd/products/products.h"
#include "models/checkpoint/durable.h"
#include "models/checkpoint/hugging_face.h"
#include "models/cost/cost.h"
#include "models/sampling.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"
#include "train/cli/progress.h"
#include "train/cli/training_flags.h"
#include "train/interrupt.h"
#include "train/run/folder.h"
#include "train/run/loaded.h"
#include "train/run/place.h"
#include "train/run/provenance.h"
#include "train/show/fields.h"
#include "train/show/table.h"
#include "train/show/units.h"
#include "train/training.h"

namespace headcount {

namespace {

constexpr double kSampleTemperature = 0.8;

SettingList train_settings() {
  SettingList all = together({training_settings(), run_settings()});
  std::ranges::find(all, std::string("data"), &Setting::name)->standard = kDefaultData;
  return all;
}

std::string write_sample(const LanguageModel& model, const TrainOptions& run,
                         const Vocabulary& vocabulary, const std::filesystem::path& path) {
  constexpr Index kDocuments = 8;
  const TextFrame frame = text_frame(run, run.corpus.documents, vocabulary);
  GenerationOptions options;
  options.sampling.temperature = kSampleTemperature;
  options.sampling.seed = run.seed;
  options.tokens = 300;
  if (!frame.end.empty()) {
    options.stops = {frame.end};
    options.decode.sequences = kDocuments;
  }
  std::string text = frame.opening;
  for (const std::vector<std::int32_t>& sampled : generate(model, frame.prompt, options).texts) {
    const bool cut = !frame.end.empty() && !is_stopped(sampled, options.stops);
    text += vocabulary.decode(sampled) + (cut ? "\n" : "");
  }
  if (!frame.end.empty()) text.erase(text.find_last_not_of('\n') + 1);
  write_file_durably(path, text + "\n");
  return text;
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

// Throws UsageError if the folder `out` contains the weights or the text that the run begins with:
// a run that replaces it would lose them before it has any of its own.
void require_outside(const TrainOptions& options, const std::string& out) {
  std::vector<std::pair<const char*, std::string>> read = {{"init", options.init}};
  if (find_built_in(options.data) == nullptr)
    read.insert(read.end(), {{"data", options.data}, {"validation", options.corpus.validation}});
  for (const auto& [flag, path] : read) {
    if (lies_in(path, out))
      throw UsageError(
          "--{} {} lies in --out {}, whose contents the new run would replace; name a new folder",
          flag, path, out);
  }
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
  TrainOptions recorded = options;  // in a run that is resumed
  if (resumes) {
    if (writes) lock.emplace(run);
    wait_for_all(ranks);
    // Read again, now that the lock keeps other processes from changing them.
    const TrainOptions before = read_run_options(run);
    steps_before = before.steps;
    recorded = resumed_options(line);
    for (const auto& [flag, path, had] :
         {std::tuple("data", &recorded.data, &before.data),
          std::tuple("validation", &recorded.corpus.validation, &before.corpus.validation)}) {
      if (*path == *had) continue;
      if (!is_there(*path)) throw DataError("--{} '{}' is not there; check the path", flag, *path);
      // A new path is relative to this folder, not to that of the first start.
      *path = std::filesystem::absolute(*path);
    }
    options = found_from_here(recorded, run, ", or give its new path by --data or --validation");
  }
  Corpus corpus = named_by("data", [&] { return load_training_corpus(options); });
  if (resumes) require_own_text(corpus, run);  // rather than find a character that it lacked
  require_same(ranks, version_text() + to_json(options).dump() + corpus.sha256,
               "program, settings or text");
  catch_interrupts();  // from here on a signal must leave the run's folder whole
  auto [learner, state] =
      resumes
          ? resumed_learner(options, run, corpus.vocabulary)
          : std::pair(named_by("init", [&] { return initial_learner(options, corpus.vocabulary); }),
                      TrainingState{});
  if (options.steps > steps_before && state.stopped(options)) {
    throw UsageError("--steps {}: --stop-after has ended the run in {} at step {}; begin a new run",
                     options.steps, run, state.step);
  }
  adopt_vocabulary(corpus, learner.vocabulary);
  wait_for_all(ranks);  // what they read may be replaced now
  std::optional<RunFolder> folder;
  if (resumes && writes) {
    folder.emplace(RunFolder::resume(std::move(*lock), state, recorded, corpus, command));
  } else if (writes) {
    const std::filesystem::path out =
        line.has("out") ? std::filesystem::path(line.get("out")) : new_run_folder(options);
    const EarlierRun earlier = line.has("force") ? EarlierRun::replace : EarlierRun::keep;
    folder.emplace(
        RunFolder::create(lock_for_new_run(out, earlier), options, corpus.sha256, command));
  }
  if (writes) {
    for (const std::string& note : corpus.notes) tell(note);
    tell(folder->lost_metrics());
    tell(idle_ranks_note(options, ranks.size()));
    tell(longer_note(options, steps_before, state.step));
  }
  return {std::move(options), std::move(corpus), std::move(learner), state.step, std::move(folder)};
}

// Does what a run of `job` needs; errors that a resumed run does not repeat say how to resume.
template <class Work>
auto or_resume(const Job& job, const Work& work) {
  const std::string how = "; resume with headcount train --resume " +
                          (job.folder ? shell_word(job.folder->path().string()) : "RUN");
  try {
    return work();
  } catch (const InterruptedError& error) {
    throw InterruptedError(error.signal(), error.what() + how);
  } catch (const WriteError& error) {
    throw Error("{}{}", error.what(), how);
  }
}

TrainingOutcome train(const CommandLine& line, Job& job, ProgressMode shown,
                      TrainingProfile* profile, Ranks& ranks) {
  const TrainOptions& options = job.options;
  RunProgress progress(shown, options, job.learner, job.corpus, job.steps_done);
  const auto observe = [&](auto&&... step) { progress.update(step...); };
  TrainingLog none;
  return or_resume(job, [&] {
    return train_to_end(options, job.learner, job.corpus, job.folder ? *job.folder : none,
                        {observe, profile, line.has("trap-non-finite")}, ranks);
  });
}

// The result of a finished run.
Json json_of(const Job& job, const TrainingOutcome& outcome, const TrainingProfile* profile) {
  const TrainOptions& options = job.options;
  const Corpus& corpus = job.corpus;
  // Shards that are profiled run on one thread.
  const int step_threads = profile != nullptr && profile->shards > 1 ? 1 : threads();
  Json result = {{"attention", options.model->word},
                 {"params", job.learner.model->parameters().element_count()},
                 {"val_loss", outcome.validation.loss},
                 {"train_loss", outcome.last.loss},
                 {"steps", outcome.last.step},
                 {"tokens_per_second", outcome.tokens_per_second()},
                 {"ms_per_step_median", outcome.median_milliseconds()},
                 {"kv_cache_bytes_per_token", json_number(kv_cache_bytes_per_token(options.model))},
                 {"seed", options.seed},
                 {"threads", step_threads},
                 {"data_sha256", corpus.sha256},
                 {"val_accuracy", outcome.validation.accuracy},
                 {"run", job.folder->path().string()}};
  FieldWriter io{result};
  io(Presence::known, "val_answer_accuracy", outcome.validation.answer_accuracy,
     "answers_by_direction", outcome.validation.answers_by_direction, "answer_baselines",
     corpus.baselines);
  if (options.stops_when_learned()) io({}, "learned_at", outcome.learned_at);
  if (options.stop_after > 0) io({}, "stopped", outcome.stopped);
  io({}, "best_step", outcome.best.step, "best_val_loss", outcome.best.loss);
  if (corpus.stories_fit(options.model->context))
    io(Presence::known, "entropy_per_character", corpus.entropy_per_character);
  if (profile != nullptr) result["profile"] = to_json(*profile);
  return result;
}

// Where the validation loss was lowest and how that model is read; empty if it is the last one.
std::string lowest_line(const Job& job, const TrainingOutcome& outcome) {
  const BestEvaluation& best = outcome.best;
  if (best.step == 0 || best.step == outcome.last.step) return "";
  const bool overfit = overfits(best.loss, outcome.validation.loss);
  return formatted("lowest validation loss %.4f, at step %td%s; ", best.loss, best.step,
                   overfit ? ", from which on the run overfits" : "") +
         (is_there(job.folder->checkpoint(best.step))
              ? "headcount sample --from " + shell_word(job.folder->path().string()) +
                    " --best reads that checkpoint, and so does eval\n"
              : "that checkpoint is not kept; --checkpoint-every above 0 keeps it\n");
}

// The result for people.
std::string text_of(const Json& result, const Job& job, const TrainingOutcome& outcome) {
  const Evaluation& validation = outcome.validation;
  const ModelPlan& model = job.options.model;
  const Corpus& corpus = job.corpus;
  const auto number = [&](const char* key) { return result[key].dump(); };
  std::string text = model->word + ": " + number("params") + " parameters, " +
                     tenths_text(result["kv_cache_bytes_per_token"].get<double>()) +
                     formatted(" bytes of KV cache per token at %td tokens\n", model->context) +
                     formatted("validation loss %.4f nats per %s over %td %ss, accuracy %.1f %%\n",
                               validation.loss, corpus.unit(), validation.characters, corpus.unit(),
                               100 * validation.accuracy);
  if (result.contains("entropy_per_character"))
    text += formatted("best possible loss on this text %.4f\n", *corpus.entropy_per_character);
  text += answers_line(validation, corpus.baselines, corpus.stories_fit(model->context));
  for (const std::string& note : attention_notes(model)) text += note_line(note);
  text += note_line(cut_stories_note(corpus.longest_story, model->context)) +
          note_line(hugging_face_note(model));
  if (outcome.learned_at) {
    text += formatted("learned at step %td of %td, where the run ends\n", *outcome.learned_at,
                      job.options.steps);
  } else if (outcome.stopped) {
    text +=
        formatted("stopped at step %td of %td: no new lowest validation loss in %td evaluations\n",
                  outcome.last.step, job.options.steps, job.options.stop_after);
  }
  text += lowest_line(job, outcome);
  text += number("steps") + " steps, ";
  text += outcome.step_milliseconds.empty()
              ? "all of an earlier start"
              : formatted("median %.1f ms a step, %.0f tokens/s on ", outcome.median_milliseconds(),
                          result["tokens_per_second"].get<double>()) +
                    counted(result["threads"], "thread");
  return text + "\nrun folder " + printable(job.folder->path().string()) + "\n";
}

// What the model writes or, if only answers were learned, and the rest of a sample is noise,
// answers.
std::string example_of(const Job& job, const std::string& sample, const std::string& sample_file) {
  constexpr Index kShown = 3;
  return job.corpus.only_answers ? "\nquestions (more by headcount ask --from " +
                                       shell_word(job.folder->path().string()) + "):\n" +
                                       questions_text(*job.learner.model, job.corpus, kShown)
                                 : "\nsample, temperature " + shortest_text(kSampleTemperature) +
                                       " (" + sample_file + "):\n" + sample + "\n";
}

int train_command(const Call& call) {
  const CommandLine& line = call.line;
  Ranks& ranks = call.ranks;
  const Given flags = flags_given(call);
  const bool resumes = line.has("resume"), writes = ranks.rank() == 0;
  const TrainOptions options = resumes ? resumed_options(line) : new_options(line);
  refuse_foreign(line, {options});
  if (const std::string* spec = line.find("attention")) refuse_idle_words(*spec, *options.model);
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
  Job job = begin(line, command_text("train", call.arguments), options, ranks);
  const ProgressMode shown = line.has("quiet") || !writes ? ProgressMode::never : progress;
  if (shown != ProgressMode::never) {
    tell(warmup_note(job.options));
    if (!resumes) tell(init_note(job.options));
  }
  TrainingProfile measured;
  TrainingProfile* const profile = line.has("profile") ? &measured : nullptr;
  const TrainingOutcome outcome = train(line, job, shown, profile, ranks);
  if (!writes) return 0;
  const std::filesystem::path sample_file = job.folder->sample(outcome.last.step);
  const std::string sample = or_resume(job, [&] {
    return write_sample(*job.learner.model, job.options, job.corpus.vocabulary, sample_file);
  });
  const Json result = json_of(job, outcome, profile);
  return print_result(
      call.format, result, result,
      text_of(result, job, outcome) + (profile != nullptr ? "\n" + table(*profile) : "") +
          (call.format == Format::text ? example_of(job, sample, sample_file.string()) : ""));
}

}  // namespace

const Command kTrainCommand = {
    {"train",
     "Train a character-level transformer and report its loss and its KV-cache cost.",
     "  headcount train --attention gqa --kv-heads 2\n"
     "  headcount train --preset nanogpt-cpu --data input.txt --attention mla --kv-rank 48 "
     "--rope-dim 16\n"
     "  headcount train --layers 6 --attention '5*gqa2@64/gqa2'\n",
     {"attention", "kv-heads", "layers", "dim", "context", "data", "preset", "steps", "batch", "lr",
      "seed", "out", "resume", "force", "format"}},
    train_settings,
    {{"preset", "start from a named set of settings, which flags override: " + preset_names(),
      true},
     {"config",
      "start from the settings in this run.json of a run; flags override them. With another "
      "kind of --attention, what its own attention settled is left out",
      true},
     {"out", "run folder [runs/DATA-ATTENTION]", true},
     {"resume",
      "continue the run in this folder from its newest checkpoint. With more --steps than before, "
      "the learning rate follows the schedule of the longer run; a text that was moved is given by "
      "--data",
      true},
     {"force", "replace the run that is already in the run folder", false},
     {"quiet", "show no progress", false},
     {"profile", "report the time of a training step by op", false},
     {"trap-non-finite",
      "stop at the first NaN or infinity in a training step and name the op and its shapes; "
      "slower",
      false},
     kFormatFlag,
     {"print-config", "print the settings as JSON and stop", false}},
    train_command,
    true};

}  // namespace headcount
