#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "autograd/base/files.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/cost/cost.h"
#include "models/decoder.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"
#include "train/compare/rounded.h"
#include "train/evaluation.h"
#include "train/run/provenance.h"
#include "train/show/fields.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Writes the tokens of a text's first context and what the model predicts after each in its window
// of the evaluation, through the cache if that rounds: "tokens" [length], "logits" [length,
// vocabulary].
void write_logits(const std::string& path, const LanguageModel& model, const Corpus& text,
                  const CacheRounding& rounding) {
  const TextPart part = text.validation.first(model.plan()->context);
  const std::span<const std::int32_t> tokens = part.tokens;
  const Index size = std::ssize(tokens);
  std::vector<Index> ends = {0};  // of a text of one token
  if (size > 1) ends = evaluation_windows(size, size, part.starts);
  ends.push_back(size);
  std::vector<Real> logits;
  for (std::size_t window = 0; window + 1 < ends.size(); ++window) {
    const auto begin = static_cast<std::size_t>(ends[window]);
    const auto read = tokens.subspan(begin, static_cast<std::size_t>(ends[window + 1]) - begin);
    Tape tape(model.parameters());
    std::optional<Decoder> decoder;
    if (rounding.rounds()) decoder.emplace(model, DecodeOptions{.rounding = rounding});
    const std::span<const Real> rows =
        decoder ? decoder->feed(read) : model.logits(tape, read, 1).value();
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  const std::array<TensorSource, 2> tensors = {
      {{"tokens", {std::ssize(tokens)}, Dtype::i32, tokens.data()},
       {"logits", {std::ssize(tokens), model.vocabulary()}, kRealDtype, logits.data()}}};
  write_safetensors(path, tensors);
}

// Throws UsageError for --attention-stats where no layer has scores.
void require_attention(const CommandLine& line, const LanguageModel& model) {
  const ModelPlan& plan = model.plan();
  const auto attends = [](const AttentionPlan& a) { return a.kind().attends; };
  if (line.has("attention-stats") && std::ranges::none_of(plan->cycle, attends))
    throw UsageError("--attention-stats does not apply to {}, whose attention is {}; leave it out",
                     line.get("from"), plan->word);
}

// Throws UsageError if --logits would replace a file that eval did not write.
void check_logits_file(const std::string& path) {
  if (!is_there(path) || std::filesystem::is_other(path)) return;  // devices, pipes
  try {
    open_safetensors(path).at("logits");
  } catch (const DataError&) {
    throw UsageError("--logits {} is there and holds no logits; name another file", path);
  }
}

// The window of all layers, or the list of windows that layers have in turn.
nlohmann::ordered_json windows(const ModelPlan& plan) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const AttentionPlan& attention : plan->cycle) all.push_back(attention.window);
  return all.size() == 1 ? all.front() : all;
}

// Version and hashes of the program, the model and the evaluated text; ranks compare them.
std::string what_is_evaluated(LanguageModel& model, const Corpus& text) {
  const auto bytes = [](auto numbers) {
    const auto all = std::as_bytes(numbers);
    return std::string_view(reinterpret_cast<const char*>(all.data()), all.size());
  };
  return version_text() + sha256_hex(bytes(model.parameters().all_values())) +
         sha256_hex(bytes(std::span(text.validation.tokens)));
}

// Settings of caches, of which the type may be a list.
SettingList eval_cache_settings() {
  SettingList all = cache_settings();
  for (Setting& setting : all) {
    if (setting.name != "cache-dtype") continue;
    setting.help += "; " + std::string(kEachHelp);
    setting.takes = Text{[](std::string_view text) {
      std::string_view types = text;
      CacheRounding::take_each(types);
      CacheRounding::parse(types);
      return std::string(text);
    }};
  }
  return all;
}

SettingList eval_settings() {
  return settings_in(Scope::evaluation, together({eval_cache_settings(),
                                                  {precision_setting(),
                                                   {"window",
                                                    "sliding window: latest tokens that each token "
                                                    "attends to, itself included [as trained]",
                                                    WholeRange{1}},
                                                   {"eval-characters",
                                                    "evaluate on the first so many characters; 0: "
                                                    "all [all of --data, or as many as in "
                                                    "training]",
                                                    WholeRange{0}},
                                                   threads_setting()}}));
}

// The run that --from names, with the setting `window` in place of its model's windows.
LoadedRun load_run_with_window(const Call& call, const Given& given) {
  LoadedRun run = load_named_run(call);
  if (!given.has("window")) return run;
  const ModelPlan& plan = run.model->plan();
  const Index window = given.whole("window");
  if (window > plan->context)
    throw UsageError(
        "--window {} is more than the model's context, {}, which all tokens see without it; leave "
        "it out",
        window, plan->context);
  const auto narrower = [&](const AttentionPlan& a) { return a.window > 0 && a.window < window; };
  if (std::ranges::any_of(plan->cycle, narrower))
    tell("`window` " + std::to_string(window) +
         " is wider than that of training: what lies beyond was never read");
  const ModelPlan windowed = with_settings(plan, {{"attention", without_windows(plan->attention)},
                                                  {"window", given.values()["window"]}});
  run.model = std::make_unique<LanguageModel>(windowed, *run.model);
  run.model->parameters().set_precision(read_precision(given));
  return run;
}

// Prints the result; `each` has a run through that cache and those with one layer at a time as
// computed, or none.
int print(const Call& call, const Given& given, const Evaluation& result, const Corpus& text,
          const ModelPlan& plan, const VariantResult& each) {
  const CacheRounding rounding = read_rounding(given);
  const std::string unit = text.unit();
  const double bits = result.loss / std::numbers::ln2;
  nlohmann::ordered_json json = {
      {"loss", result.loss},
      {"unit", unit},
      {"bits_per_" + unit, bits},
      {"accuracy", result.accuracy},
      {"characters", result.characters},
      {"cache_dtype", given.text("cache-dtype")},
      {"cache_bytes_per_token", kv_cache_bytes_per_token(plan, rounding)},
      {"precision", given.text("precision")},
      {"window", windows(plan)},
      {"loss_by_position", json_of(result.loss_by_position)}};
  std::optional<double> change;
  if (result.change) change = result.loss - result.change->exact_loss;
  FieldWriter{json}(Presence::known, "answer_accuracy", result.answer_accuracy,
                    "answers_by_direction", result.answers_by_direction, "answer_baselines",
                    text.baselines, "attention_entropy", result.attention_entropy, "loss_change",
                    change, "change", result.change);
  const Index longest = std::min(plan->context, std::ssize(text.validation.tokens) - 1);  // window
  std::string lines = printable(text.name) + ": " + counted(result.characters, unit) +
                      formatted("\nloss %.4f nats per %s, %.4f bits, accuracy %.1f %%\n",
                                result.loss, unit.c_str(), bits, 100 * result.accuracy) +
                      loss_by_position_line(result.loss_by_position, longest) +
                      answers_line(result, text.baselines, text.stories_fit(plan->context)) +
                      note_line(cut_stories_note(text.longest_story, plan->context));
  if (result.attention_entropy)
    lines += formatted("entropy of attention %.3f nats\n", *result.attention_entropy);
  lines += change_line(result);
  if (result.change) lines += cache_bytes_text(plan, rounding) + "\n";
  if (each.runs.empty()) return print_result(call.format, json, json, lines);
  ComparisonResult alone;
  alone.variants.push_back(each);
  json["each_layer_exact"] = json_of(each.runs.front().rounded);
  lines += "\n" + rounded_table(alone, call.format, table_width(call.line));
  return print_result(call.format, json, json["each_layer_exact"], lines);
}

int eval_command(const Call& call) {
  const CommandLine& line = call.line;
  Ranks& ranks = call.ranks;
  Given given = flags_given(call);
  const std::string given_types = given.text("cache-dtype");
  std::string_view types = given_types;
  const bool is_each = CacheRounding::take_each(types);
  if (is_each) given.put("cache-dtype", std::string(types));
  const CacheRounding rounding = read_rounding(given);
  if (line.has("logits")) check_logits_file(line.get("logits"));

  const LoadedRun run = load_run_with_window(call, given);
  kv_cache_bytes(run.model->plan(), 1, rounding);  // refuses what does not fit the model
  std::optional<Index> characters;
  if (given.has("eval-characters")) characters = given.whole("eval-characters");
  const Corpus text = load_eval_text(line, run, characters);
  require_attention(line, *run.model);
  require_same(ranks, what_is_evaluated(*run.model, text), "program, model or text");
  if (line.has("logits") && ranks.rank() == 0)
    write_logits(line.get("logits"), *run.model, text, rounding);
  EvaluationOptions options = {.marks = text.marks(text.validation),
                               .attention_stats = line.has("attention-stats"),
                               .ranks = &ranks};
  if (rounding.rounds()) options.rounding = rounding;
  const ModelPlan& plan = run.model->plan();
  const std::span<const std::int32_t> tokens = text.validation.tokens;
  const Evaluation result = evaluate(*run.model, tokens, options);
  VariantResult each;
  each.spec = plan->word;
  std::vector<CacheRounding> roundings;
  if (is_each) {
    each.runs.emplace_back();
    roundings = rounding.each_exact(plan->layers);
    roundings.insert(roundings.begin(), rounding);
  }
  for (const CacheRounding& one : roundings) {
    each.runs.front().rounded.push_back(rounded_run(*run.model, one, tokens, options));
    each.rounded.push_back({rounding_name(one), kv_cache_bytes_per_token(plan, one)});
  }
  return print(call, given, result, text, plan, each);
}

}  // namespace

const Command kEvalCommand = {
    {"eval", "Compute loss, bits per character and accuracy of a trained model over a text.",
     "  headcount eval --from runs/mla\n"
     "  headcount eval --from runs/mla --cache-dtype int8\n"
     "  headcount eval --from runs/mla --data other.txt --window 32 --format json\n"},
    eval_settings,
    {kFromFlag,
     kBestFlag,
     {"data",
      "text file, evaluated as a whole, or built-in text, evaluated on its validation part "
      "[the validation part of the run's own text]",
      true},
     {"attention-stats", "also report the mean entropy of attention weights, in nats", false},
     {"logits",
      "write the tokens of the text's first context and their logits to this safetensors file",
      true},
     kAllowNonFinite,
     kFormatFlag,
     kWideFlag},
    eval_command,
    true};

}  // namespace headcount
