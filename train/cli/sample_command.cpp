#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/built_in.h"
#include "models/cost/cost.h"
#include "models/sampling.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"
#include "train/options.h"
#include "train/show/table.h"

namespace headcount {

namespace {

SettingList sample_settings() {
  const SamplingOptions standard;
  return together(
      {settings_in(Scope::decoding,
                   {{"tokens",
                     "number of characters to generate",
                     WholeRange{1},
                     GenerationOptions().tokens,
                     {.scope = Scope::sampling}},
                    {"cache",
                     "on: decode with a KV cache; off: recompute the whole text for each character",
                     kOnOff, "on"},
                    {"at-context",
                     "when the context is full: slide (drop its older half and continue) or stop",
                     Choices{{"slide", "stop"}}, "slide"}}),
       settings_in(
           Scope::sampling,
           {{"temperature",
             "number that divides the logits before softmax; 0: always the likeliest character",
             NumberRange{0, 1e6}, standard.temperature},
            {"top-k", "sample from the k likeliest characters only; 0: all", WholeRange{0},
             standard.top_k},
            {"top-p",
             "sample from the fewest likeliest characters that together reach this probability",
             NumberRange{0, 1}, standard.top_p},
            {"min-p",
             "sample from characters whose probability is at least this fraction of the likeliest "
             "one's",
             NumberRange{0, 1}, standard.min_p},
            {"seed", "random seed of the sampling", Naturals{}, standard.seed},
            {"repeat", "number of texts to sample in parallel from one prefill of the prompt",
             WholeRange{1, 4096}, DecodeOptions().sequences}}),
       settings_in(Scope::decoding, together({cache_settings(), {precision_setting()}})),
       form_settings(),
       {threads_setting()}});
}

GenerationOptions read_generation_options(const Given& given) {
  GenerationOptions options = {.sampling = {.temperature = given.number("temperature"),
                                            .top_k = given.whole("top-k"),
                                            .top_p = given.number("top-p"),
                                            .min_p = given.number("min-p"),
                                            .seed = given.get("seed").get<std::uint64_t>()},
                               .tokens = given.whole("tokens"),
                               .cache = given.on("cache"),
                               .decode = read_decode_options(given),
                               .slide = given.text("at-context") == "slide"};
  options.decode.sequences = given.whole("repeat");
  return options;
}

// Why a text ended: "stop" (a stop string), "tokens" (it has as many as were asked for) or
// "context" (the context is full).
const char* end_of(std::span<const std::int32_t> text, const GenerationOptions& options) {
  if (is_stopped(text, options.stops)) return "stop";
  return std::ssize(text) == options.tokens ? "tokens" : "context";
}

nlohmann::ordered_json json_of(const GenerationResult& result, const LoadedRun& run,
                               const GenerationOptions& options) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array(), ends = texts;
  Index decoded = 0;  // the first token of each text is part of the prefill
  for (const auto& tokens : result.texts) {
    texts.push_back(run.vocabulary.decode(tokens));
    ends.push_back(end_of(tokens, options));
    decoded += std::ssize(tokens) - 1;
  }
  const double seconds = result.decode_seconds;
  const double bytes_per_token =
      options.cache ? kv_cache_bytes_per_token(run.model->plan(), options.decode.rounding) : 0;
  nlohmann::ordered_json json = {
      {"text", texts.front()},
      {"tokens", result.texts.front().size()},
      {"ended_by", ends.front()},
      {"tokens_per_second", seconds > 0 ? static_cast<double>(decoded) / seconds : 0.0},
      {"prefill_ms", 1e3 * result.prefill_seconds},
      {"cache_bytes_per_token", json_number(bytes_per_token)},
      {"cache_bytes", result.cache_bytes}};
  if (texts.size() > 1) json.update({{"texts", texts}, {"texts_ended_by", ends}});
  return json;
}

int sample_command(const Call& call) {
  const CommandLine& line = call.line;
  const Given given = flags_given(call);
  GenerationOptions options = read_generation_options(given);
  const LoadedRun run = load_named_run(call);
  const ModelPlan& plan = run.model->plan();
  for (const auto& [name, text] : line.given) {
    const bool is_form = find_setting(form_settings(), name) != nullptr;
    if (!options.cache && (is_form || name.starts_with("cache-")))
      throw UsageError("--{} has no effect with --cache off; leave one of the two out", name);
    const auto is_its = [&name = name](const AttentionPlan& a) { return a.kind().name == name; };
    if (is_form && std::ranges::none_of(plan->cycle, is_its))
      throw UsageError("--{} does not apply to {}, whose attention is {}; leave it out", name,
                       line.get("from"), plan->word);
  }
  const TextFrame frame = text_frame(run.options, run.documents, run.vocabulary);
  const std::string begun = line.has("prompt") ? line.get("prompt") : frame.opening;
  std::vector<std::int32_t> prompt = frame.prompt;
  if (line.has("prompt")) {
    prompt = encode_flag("prompt", begun, run);
    // A document begins before its first character.
    if (!frame.end.empty() && prompt.front() != frame.end.back())
      prompt.insert(prompt.begin(), frame.end.back());
  }
  if (!frame.end.empty()) options.stops.push_back(frame.end);
  for (const std::string& stop : line.all("stop"))
    options.stops.push_back(encode_flag("stop", stop, run));
  if (!options.slide) require_room("prompt", prompt, run, " or choose --at-context slide");
  const bool stream = call.format == Format::text && options.decode.sequences == 1;
  std::string before = begun;  // printed with the first character
  const GenerationResult result =
      generate(*run.model, prompt, options, [&](Index, std::int32_t token) {
        if (!stream) return;
        std::cout << std::exchange(before, "") << run.vocabulary.decode(std::span(&token, 1))
                  << std::flush;
      });
  // The end of a document ends its line.
  const auto line_end = [&](const std::vector<std::int32_t>& tokens) {
    return !frame.end.empty() && tokens.back() == frame.end.back() ? "" : "\n";
  };
  std::string text = stream ? line_end(result.texts.front()) : "";
  for (std::size_t i = 0; !stream && i < result.texts.size(); ++i)
    text += "--- " + std::to_string(i + 1) + "\n" + begun + run.vocabulary.decode(result.texts[i]) +
            line_end(result.texts[i]);
  const nlohmann::ordered_json json = json_of(result, run, options);
  print_result(call.format, json, json, text);
  const CacheRounding& rounding = options.decode.rounding;
  if (call.format == Format::text && rounding.rounds()) tell(cache_bytes_text(plan, rounding));
  const BuiltInCorpus* const story = run.options ? find_built_in(run.options->data) : nullptr;
  if (story != nullptr && story->only_answers)
    tell("training on " + run.options->data +
         " counted answers only: all other characters are guesses (headcount ask shows answers)");
  return 0;
}

}  // namespace

const Command kSampleCommand = {
    {"sample", "Continue a text with a trained model, token by token, from its KV cache.",
     "  headcount sample --from runs/tales-mla --prompt \"Mary has\" --tokens 300 --temperature "
     "0.8\n"
     "  headcount sample --from runs/mla --repeat 3 --temperature 0 --cache off --format json\n"},
    sample_settings,
    {kFromFlag,
     kBestFlag,
     {"prompt",
      "text to continue [the first word of a story of a built-in text, a line break for a file]",
      true},
     {"stop",
      "end a text as soon as what was generated ends with this "
      "string, which is printed; may be given several times",
      true, true},
     kAllowNonFinite,
     kFormatFlag},
    sample_command};

}  // namespace headcount
