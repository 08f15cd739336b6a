#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "autograd/parallel.h"
#include "data/text.h"
#include "models/checkpoint.h"
#include "models/durable.h"
#include "models/sampling.h"
#include "train/command_line.h"
#include "train/commands.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace headcount {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const CommandHelp kHelp = {
    "train", "Train a character-level transformer and report its loss and its KV-cache cost.",
    "  headcount train --attention gqa --kv-heads 2\n"
    "  headcount train --preset nanogpt-cpu --data input.txt --attention mla --kv-rank 48 "
    "--rope-dim 16\n"};

const std::vector<Flag> kFlags = {
    {"preset", "start from a named set of settings: nanogpt-cpu, nanogpt-gpu", true},
    {"config", "start from the settings of a config.json", true},
    {"out", "run folder; default runs/DATA-ATTENTION", true},
    {"force", "replace the run that is in the run folder", false},
    {"quiet", "no progress", false},
    {"json", "print one JSON object instead of text", false},
    {"print-config", "print the settings as JSON and stop", false}};

// What does not change the result of a run.
struct RunOptions {
  Index threads = 0;
  ProgressMode progress = ProgressMode::automatic;

  void add_to(Settings& settings) {
    settings.integer("threads", "0: all processors; results do not depend on it", threads, 0, 1024);
    settings.choice("progress", "on standard error", progress,
                    {{"auto", ProgressMode::automatic},
                     {"always", ProgressMode::always},
                     {"never", ProgressMode::never}});
  }
};

// Flags that were given but mean nothing for the attention or the data that were chosen.
void refuse_foreign(const CommandLine& line, const TrainOptions& options) {
  const nlohmann::ordered_json meant = to_json(options);
  const Settings all = const_cast<TrainOptions&>(options).settings();
  for (const auto& [name, text] : line.settings) {
    if (all.find(name) == nullptr || meant.contains(name)) continue;
    const bool of_data = all.find(name)->group == "Data";
    throw UsageError(
        "--" + name + " means nothing with " +
        (of_data ? "--data " + options.data : "--attention " + options.model.attention.kind) +
        " (it is for " + all.find(name)->help.substr(0, all.find(name)->help.find(':')) + ")");
  }
}

void read_settings(const CommandLine& line, Settings& settings) {
  if (line.has("preset")) settings.read(preset(line.get("preset")).settings);
  if (line.has("config")) {
    const std::string path = line.get("config");
    try {
      settings.read(nlohmann::json::parse(read_file(path)));
    } catch (const nlohmann::json::exception& error) {
      throw DataError("--config " + path + " is not valid JSON: " + error.what());
    } catch (const SettingError& error) {
      throw DataError("--config " + path + ": " + error.what());
    } catch (const DataError& error) {
      throw DataError("--config: " + std::string(error.what()));
    }
  }
  for (const auto& [name, text] : line.settings) settings.find(name)->parse(text);
}

void require_context_fits(const Corpus& corpus, Index context) {
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("--context " + std::to_string(context) + " is longer than the " + part +
                    " part of " + corpus.name + ", " + std::to_string(tokens) +
                    " characters; lower it or give more text");
  }
}

// What a run measured.
struct Outcome {
  StepResult last;
  Evaluation validation;
  double training_seconds = 0;
  std::vector<double> step_milliseconds;

  double median_milliseconds() const {
    std::vector<double> sorted = step_milliseconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

Outcome run_steps(const TrainOptions& options, LanguageModel& model, const Corpus& corpus,
                  RunFolder& folder, ProgressMode progress_mode) {
  Trainer trainer(model, options, corpus.train);
  Progress progress(progress_mode, options.steps,
                    options.batch * options.model.context * options.accumulate);
  Outcome outcome;
  while (trainer.steps_done() < options.steps) {
    const Clock::time_point start = Clock::now();
    outcome.last = trainer.step();
    const double seconds = seconds_since(start);
    outcome.training_seconds += seconds;
    outcome.step_milliseconds.push_back(1e3 * seconds);
    const Index step = outcome.last.step;
    const bool due =
        step == options.steps || (options.eval_every > 0 && step % options.eval_every == 0);
    std::optional<Evaluation> validation;
    if (due) {
      validation = evaluate(model, corpus.validation, {.answers = corpus.validation_answers});
      // The weights of the last step meet no other loss.
      if (!std::isfinite(validation->loss))
        throw DivergedError("validation loss", validation->loss, step);
    }
    folder.log(outcome.last, validation);
    progress.update(outcome.last, due ? std::optional(validation->loss) : std::nullopt,
                    outcome.training_seconds);
    if (due) outcome.validation = *validation;
  }
  return outcome;
}

std::string write_sample(const LanguageModel& model, const Corpus& corpus, std::uint64_t seed,
                         const std::filesystem::path& path) {
  constexpr Index kCharacters = 300;
  const bool has_newline = corpus.vocabulary.symbols().find(U'\n') != std::u32string::npos;
  const auto start = corpus.vocabulary.encode(
      has_newline ? std::u32string(U"\n") : corpus.vocabulary.symbols().substr(0, 1));
  GenerationOptions options;
  options.sampling.temperature = 0.8;
  options.sampling.seed = seed;
  options.tokens = kCharacters;
  const std::string text = corpus.vocabulary.decode(generate(model, start, options).texts.front());
  write_file_durably(path, text + "\n");
  return text;
}

void print_outcome(const TrainOptions& options, const LanguageModel& model, const Corpus& corpus,
                   const Outcome& outcome, const std::filesystem::path& folder, bool json) {
  const double tokens = static_cast<double>(options.steps * options.batch * options.accumulate *
                                            options.model.context);
  nlohmann::ordered_json result = {
      {"attention", options.model.attention.kind},
      {"params", model.parameters().element_count()},
      {"val_loss", outcome.validation.loss},
      {"train_loss", outcome.last.loss},
      {"steps", outcome.last.step},
      {"tokens_per_second", tokens / outcome.training_seconds},
      {"ms_per_step_median", outcome.median_milliseconds()},
      {"kv_cache_bytes_per_token", model.cache_bytes_per_token(sizeof(float))},
      {"seed", options.seed},
      {"threads", threads()},
      {"data_sha256", corpus.sha256},
      {"val_accuracy", outcome.validation.accuracy},
      {"attention_entropy", outcome.validation.attention_entropy},
      {"run", folder.string()}};
  if (outcome.validation.answer_accuracy)
    result["val_answer_accuracy"] = *outcome.validation.answer_accuracy;
  if (corpus.entropy_per_character) result["entropy_per_character"] = *corpus.entropy_per_character;
  if (json) {
    std::cout << result.dump(2) << '\n';
    return;
  }
  std::printf("%s: %td parameters, %td bytes of KV cache per token\n",
              options.model.attention.kind.c_str(), model.parameters().element_count(),
              model.cache_bytes_per_token(sizeof(float)));
  std::printf("validation loss %.4f nats per character over %td characters, accuracy %.1f %%\n",
              outcome.validation.loss, outcome.validation.characters,
              100 * outcome.validation.accuracy);
  if (corpus.entropy_per_character) {
    std::printf("best possible loss on this text %.4f; answers right %.1f %%\n",
                *corpus.entropy_per_character,
                100 * outcome.validation.answer_accuracy.value_or(0));
  }
  std::printf("%td steps, median %.1f ms a step, %.0f tokens/s on %d threads\nrun folder %s\n",
              outcome.last.step, outcome.median_milliseconds(), tokens / outcome.training_seconds,
              threads(), folder.c_str());
}

}  // namespace

int train_command(const std::vector<std::string>& arguments) {
  TrainOptions options;
  RunOptions run;
  Settings settings = options.settings();
  run.add_to(settings);
  const CommandLine line = parse_command_line(arguments, kHelp, settings, kFlags);
  if (line.has("help")) return 0;
  read_settings(line, settings);
  options.resolve();
  refuse_foreign(line, options);
  if (line.has("print-config")) {
    std::cout << to_json(options).dump(2) << '\n';
    return 0;
  }
  set_threads(static_cast<int>(run.threads));
  const Corpus corpus = load_corpus(options.data, options.corpus());
  require_context_fits(corpus, options.model.context);
  LanguageModel model(options.model, corpus.vocabulary.size());
  model.initialize(options.seed);
  RunFolder folder(
      line.has("out") ? std::filesystem::path(line.get("out")) : default_run_folder(options),
      options, line.has("force"));
  const Outcome outcome = run_steps(options, model, corpus, folder,
                                    line.has("quiet") ? ProgressMode::never : run.progress);
  save_checkpoint(folder.checkpoint(options.steps), model, corpus.vocabulary.symbols());
  const std::string sample =
      write_sample(model, corpus, options.seed, folder.sample(options.steps));
  print_outcome(options, model, corpus, outcome, folder.path(), line.has("json"));
  if (!line.has("json")) std::cout << "\n" << sample << '\n';
  return 0;
}

}  // namespace headcount
