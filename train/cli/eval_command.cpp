#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "data/text.h"
#include "models/checkpoint/safetensors.h"
#include "train/cli/command_line.h"
#include "train/cli/commands.h"
#include "train/cli/use_threads.h"
#include "train/loaded_run.h"
#include "train/run_record.h"
#include "train/trainer.h"

namespace headcount {

namespace {

const CommandHelp kHelp = {
    "eval", "Loss, bits per character and accuracy of a trained model over a whole text.",
    "  headcount eval --from runs/demo\n"
    "  headcount eval --from runs/demo --cache-dtype int8\n"
    "  headcount eval --from runs/demo --data other.txt --window 32 --json\n"};

const std::vector<Flag> kFlags = {
    {"from", "run folder, or checkpoint folder", true},
    {"data", "a text file, all of it; default: the validation part of the run's own data", true},
    {"attention-stats", "measure the entropy of attention, too", false},
    {"logits", "write tokens and logits of the text's first context to this safetensors file",
     true},
    {"json", "print one JSON object instead of text", false}};

struct EvalText {
  std::string name;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> answers = {};
  std::vector<Index> starts = {};
  bool only_answers = false;
  std::optional<double> answer_chance = {};

  TextMarks marks() const { return {answers, starts, only_answers}; }
};

EvalText load_text(const CommandLine& line, const LoadedRun& run) {
  if (line.has("data")) {
    const std::string path = line.get("data");
    EvalText text{path, {}};
    try {
      text.tokens = run.vocabulary.encode(decode_utf8(read_file(path), path));
    } catch (const DataError& error) {
      throw DataError("--data " + path + ": " + error.what());
    }
    const Index context = run.model->config().context;
    if (std::ssize(text.tokens) <= context) {
      throw DataError("--data " + path + " has " + std::to_string(text.tokens.size()) +
                      " characters, the model's context of " + std::to_string(context) +
                      " needs more than that; name a longer text");
    }
    return text;
  }
  if (!run.options)
    throw UsageError("--from names a checkpoint without its run; give the text with --data");
  const TrainOptions options = found_from_here(*run.options, line.get("from"));
  Corpus corpus = load_corpus(options.data, options.corpus);
  const std::string trained_on = read_run_record(line.get("from")).data_sha256;
  if (corpus.sha256 != trained_on) {
    throw DataError(corpus.name + " is no longer the text of this run: its SHA-256 was " +
                    trained_on + ", it is now " + corpus.sha256 +
                    "; give the old text back, or name a text with --data");
  }
  try {
    adopt_vocabulary(corpus, run.vocabulary);
  } catch (const DataError& error) {
    throw DataError(corpus.name + ": " + error.what());
  }
  return {corpus.name + ", validation part",
          std::move(corpus.validation),
          std::move(corpus.validation_answers),
          std::move(corpus.validation_starts),
          corpus.only_answers,
          corpus.answer_chance};
}

// What the model makes of the first tokens: "tokens" [length], "logits" [length, vocabulary].
void write_logits(const std::string& path, const LanguageModel& model,
                  std::span<const std::int32_t> tokens) {
  Tape tape(model.parameters());
  const Var logits = model.logits(tape, tokens, 1);
  const std::array<TensorSource, 2> tensors = {
      {{"tokens", {std::ssize(tokens)}, Dtype::i32, tokens.data()},
       {"logits",
        {std::ssize(tokens), model.vocabulary()},
        sizeof(Real) == sizeof(double) ? Dtype::f64 : Dtype::f32,
        logits.value().data()}}};
  write_safetensors(path, tensors);
}

// Of all layers, or what layers have in turn.
nlohmann::ordered_json windows(const ModelConfig& config) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const AttentionConfig& attention : config.turn) all.push_back(attention.window);
  return all.size() == 1 ? all.front() : all;
}

}  // namespace

int eval_command(const std::vector<std::string>& arguments) {
  CacheType cache_type = CacheType::real;
  Index window = 0, threads = 0;
  Settings settings;
  settings.group("Evaluation");
  add_cache_type(settings, cache_type);
  settings.integer("window", "a token sees only this many; default: as trained", window, 1);
  settings.group("Run");
  settings.integer("threads", "0: all processors", threads, 0, 1024);
  const CommandLine line = parse_command_line(arguments, kHelp, settings, kFlags);
  if (line.has("help")) return 0;
  for (const auto& [name, text] : line.settings) settings.find(name)->parse(text);
  if (!line.has("from"))
    throw UsageError("--from is missing; name a run folder that headcount train made");
  use_threads(threads);

  const LoadedRun run =
      load_run(line.get("from"), window > 0 ? std::optional(window) : std::nullopt);
  const EvalText text = load_text(line, run);
  if (line.has("logits")) {
    const auto length = static_cast<std::size_t>(run.model->config().context);
    write_logits(line.get("logits"), *run.model, std::span(text.tokens).first(length));
  }
  const Evaluation exact =
      evaluate(*run.model, text.tokens,
               {.marks = text.marks(), .attention_stats = line.has("attention-stats")});
  Evaluation result = exact;
  const bool rounded = cache_type != CacheType::real;
  if (rounded)
    result = evaluate(*run.model, text.tokens, {.marks = text.marks(), .cache_type = cache_type});

  const double bits = result.loss / std::numbers::ln2;
  if (line.has("json")) {
    nlohmann::ordered_json json = {{"loss", result.loss},
                                   {"bits_per_character", bits},
                                   {"accuracy", result.accuracy},
                                   {"characters", result.characters},
                                   {"cache_dtype", settings.find("cache-dtype")->value()},
                                   {"window", windows(run.model->config())}};
    if (result.answer_accuracy) json["answer_accuracy"] = *result.answer_accuracy;
    if (text.answer_chance) json["answer_chance"] = *text.answer_chance;
    if (exact.attention_entropy) json["attention_entropy"] = *exact.attention_entropy;
    if (rounded) json["loss_change"] = result.loss - exact.loss;
    std::cout << json.dump(2) << '\n';
    return 0;
  }
  const char* const unit = text.only_answers ? "answer" : "character";
  std::printf("%s: %td %ss\n", text.name.c_str(), result.characters, unit);
  std::printf("loss %.4f nats per %s, %.4f bits, accuracy %.1f %%", result.loss, unit, bits,
              100 * result.accuracy);
  std::printf("\n%s", answers_line(result, text.answer_chance).c_str());
  if (exact.attention_entropy)
    std::printf("entropy of attention %.3f nats\n", *exact.attention_entropy);
  if (rounded)
    std::printf("the cache's type changes the loss by %+.6f\n", result.loss - exact.loss);
  return 0;
}

}  // namespace headcount
