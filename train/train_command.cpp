#include <cstdio>
#include <iostream>

#include "autograd/parallel.h"
#include "models/durable.h"
#include "models/sampling.h"
#include "train/commands.h"
#include "train/training_flags.h"
#include "train/training_run.h"

namespace headcount {

namespace {

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
                   const TrainingOutcome& outcome, const std::filesystem::path& folder, bool json) {
  const auto tokens = static_cast<double>(training_characters(options));
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
  read_preset_and_config(line, settings);
  read_flags(line, settings);
  options.resolve();
  refuse_foreign(line, {options});
  if (line.has("print-config")) {
    std::cout << to_json(options).dump(2) << '\n';
    return 0;
  }
  set_threads(static_cast<int>(run.threads));
  const Corpus corpus = load_training_corpus(options);
  LanguageModel model(options.model, corpus.vocabulary.size());
  model.initialize(options.seed);
  RunFolder folder(
      line.has("out") ? std::filesystem::path(line.get("out")) : default_run_folder(options),
      options, line.has("force"));
  const TrainingOutcome outcome = [&] {
    Progress progress(line.has("quiet") ? ProgressMode::never : run.progress, options.steps,
                      options.batch * options.model.context * options.accumulate);
    return train_to_end(
        options, model, corpus, folder,
        [&](const StepResult& result, std::optional<double> validation, double training_seconds) {
          progress.update(result, validation, training_seconds);
        });
  }();
  const std::string sample =
      write_sample(model, corpus, options.seed, folder.sample(options.steps));
  print_outcome(options, model, corpus, outcome, folder.path(), line.has("json"));
  if (!line.has("json")) std::cout << "\n" << sample << '\n';
  return 0;
}

}  // namespace headcount
