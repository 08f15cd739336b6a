#include "train/options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/checkpoint/hugging_face.h"
#include "train/formatted.h"

namespace headcount {

namespace {

template <class Options>
void add_options(Settings& settings, Options& options,
                 const std::vector<GrammarOption<Options>>& list) {
  for (const GrammarOption<Options>& option : list) {
    settings.integer(std::string(option.name), std::string(option.help), options.*option.field,
                     option.low, option.high);
  }
}

}  // namespace

Settings TrainOptions::settings() {
  Settings s = model.settings();
  s.group("Data");
  s.text("data", "tales, lookup, or a UTF-8 text file", data);
  s.only_for("tales");
  add_options(s, corpus.tales, tales_options());
  s.only_for("lookup");
  add_options(s, corpus.lookup, lookup_options());
  s.group("Optimiser");
  s.integer("steps", "updates", steps, 1);
  s.integer("batch", "sequences in a forward pass", batch, 1, 1 << 20);
  s.integer("accumulate", "forward passes in a step", accumulate, 1, 1 << 16);
  s.integer("shards",
            "parts of a batch that threads and ranks compute side by side; 0: by sizes, 8 at most. "
            "Results depend on it as on rounding, with dropout also by chance",
            shards, 0, 1 << 12);
  s.number("lr", "peak learning rate", learning_rate, 0, 100);
  s.number("min-lr", "learning rate after the last step; default lr / 10", least_learning_rate, 0,
           100);
  s.integer("warmup", "steps of linear warm-up; if more than all steps, a tenth of these", warmup,
            0);
  s.number("beta1", "AdamW: decay of the mean", optimizer.beta1, 0, 1, true);
  s.number("beta2", "AdamW: decay of the mean square", optimizer.beta2, 0, 1, true);
  s.number("weight-decay", "AdamW: of matrices", optimizer.weight_decay, 0, 100);
  s.number("grad-clip", "greatest gradient norm; 0: any", gradient_clip, 0);
  s.group("Run");
  s.unsigned_integer("seed", "of weights, batches, dropout and the sample", seed);
  s.integer("eval-every", "steps between evaluations; 0: at the end only", eval_every, 0);
  s.token_count("eval-characters",
                "evaluate on so many characters of the validation part, the first ones (of a "
                "built-in text on the stories that have them); 0: all",
                corpus.validation_characters, 0);
  s.integer("checkpoint-every", "steps between checkpoints; 0: at the end only", checkpoint_every,
            0);
  s.integer("keep", "newest checkpoints that are kept, besides the best", keep, 1);
  s.text("init", "start from the weights of this run, checkpoint or Hugging Face model folder",
         init);
  return s;
}

Settings TrainOptions::settings() const {
  return const_cast<TrainOptions*>(this)->settings().read_only();  // nothing writes through it
}

void TrainOptions::resolve() {
  model.resolve();
  require_savable(model);
  if (least_learning_rate < 0) least_learning_rate = learning_rate / 10;
  if (warmup > steps) {
    asked_warmup = warmup;
    warmup = steps / 10;
  }
  check(corpus.tales);
  require_setting(data != "lookup" || model.context % kLookupLine == 0,
                  "`context` must be a multiple of " + std::to_string(kLookupLine) +
                      ", the length of a line of lookup, is " + std::to_string(model.context));
  require_setting(shards <= batch, "`shards` " + std::to_string(shards) +
                                       " are more than `batch` " + std::to_string(batch) +
                                       " has sequences");
  require_setting(corpus.validation_characters == 0 || corpus.validation_characters > model.context,
                  "`eval-characters` " + std::to_string(corpus.validation_characters) +
                      " must be more than `context`, " + std::to_string(model.context) +
                      ", or 0 for all");
  require_setting(least_learning_rate <= learning_rate, "`min-lr` is greater than `lr`");
  require_setting(static_cast<Real>(model.dropout) < 1,
                  "`dropout` is so near to 1 that nothing is left; lower it");
  // Each batch has a number of 32 bits, from which it is drawn.
  require_setting(
      steps <= std::numeric_limits<std::uint32_t>::max() / accumulate,
      "`steps` times `accumulate` must be below 2^32, the number of batches that differ");
}

std::string warmup_note(const TrainOptions& options) {
  if (options.asked_warmup == 0) return "";
  return formatted("the warm-up of %td steps is longer than the run of %td; it is shortened to %td",
                   options.asked_warmup, options.steps, options.warmup);
}

nlohmann::ordered_json to_json(const TrainOptions& options) {
  nlohmann::ordered_json values;
  const Settings settings = options.settings();
  for (const Setting& setting : settings.all()) {
    const bool used =
        setting.group == "Data" ? setting.is_for(options.data) : options.model.uses(setting);
    if (used) values[setting.name] = setting.value();
  }
  for (const std::string_view name : kLeftOutAtZero) {
    if (settings.find(name)->value() == 0) values.erase(std::string(name));
  }
  if (options.model.positions != Positions::rope) {
    for (const char* name : {"rope-theta", "rope-layout"}) values.erase(name);
  }
  return values;
}

void add_cache_type(Settings& settings, CacheType& type) {
  settings.choice("cache-dtype", "type of the cached numbers", type,
                  {{"f32", CacheType::real},
                   {"bf16", CacheType::bf16},
                   {"f16", CacheType::f16},
                   {"int8", CacheType::int8}});
}

void add_forms(Settings& settings, std::string& form) {
  for (const AttentionKind* kind : attention_kinds()) {
    AttentionConfig config;
    config.kind = kind->name;
    resolve(config);
    const std::vector<AttentionForm> forms = describe(config).forms;
    if (forms.size() < 2) continue;
    std::vector<std::pair<std::string, std::string>> choices = {{"auto", ""}};
    for (const AttentionForm& one : forms) choices.emplace_back(one.name, one.name);
    settings.only_for(std::string(kind->name));
    settings.choice(std::string(kind->name), "how it decodes", form, std::move(choices));
  }
  settings.only_for("");
}

const nlohmann::json& data_defaults(std::string_view data) {
  // A head of width 2 tells one kind of row from another and no more. Positions mean nothing to a
  // lookup, and unscaled scores leave the mean of all tokens sooner.
  static const nlohmann::json lookup = {{"layers", 1},
                                        {"dim", 64},
                                        {"heads", 4},
                                        {"head-dim", 2},
                                        {"ffn-dim", 64},
                                        {"context", kLookupLine},
                                        {"batch", 32},
                                        {"steps", 3000},
                                        {"positions", "none"},
                                        {"lr", 2e-3},
                                        {"warmup", 20},
                                        {"beta2", 0.95},
                                        {"score-scale", "none"},
                                        {"eval-every", 500}};
  // The longest tale has 279 characters unless other settings make them longer.
  static const nlohmann::json tales = {{"layers", 2},          {"dim", 64},    {"context", 288},
                                       {"lr", 3e-3},           {"warmup", 20}, {"beta2", 0.95},
                                       {"score-scale", "none"}};
  static const nlohmann::json none = nlohmann::json::object();
  return data == "lookup" ? lookup : data == "tales" ? tales : none;
}

const std::vector<Preset>& presets() {
  // The two character-level configurations of nanoGPT, which has no flag for most of this.
  static const nlohmann::json nanogpt = {
      {"norm", "layer"},        {"activation", "gelu"}, {"positions", "learned"},
      {"tie-embeddings", "on"}, {"bias", "off"},        {"lr", 1e-3},
      {"min-lr", 1e-4},         {"warmup", 100},        {"beta1", 0.9},
      {"beta2", 0.99},          {"weight-decay", 0.1},  {"grad-clip", 1.0},
      {"eval-every", 250}};
  const auto with = [](nlohmann::json settings, const nlohmann::json& more) {
    settings.update(more);
    return settings;
  };
  static const std::vector<Preset> all = {
      {"nanogpt-cpu", "4 layers, 4 heads, 128 wide, context 64: 0.8 M parameters",
       with(nanogpt, {{"layers", 4},
                      {"heads", 4},
                      {"dim", 128},
                      {"context", 64},
                      {"batch", 12},
                      {"dropout", 0.0},
                      {"steps", 2000}})},
      // For Tiny Shakespeare: rotary positions, RMSNorm and SwiGLU, as models have now.
      {"shakespeare-rope",
       "4 layers, 4 heads, 128 wide, context 256, rotary: 0.8 M parameters",
       {{"layers", 4},
        {"heads", 4},
        {"dim", 128},
        {"context", 256},
        {"norm", "rms"},
        {"activation", "swiglu"},
        {"positions", "rope"},
        {"batch", 8},
        {"steps", 1000},
        {"lr", 3e-3},
        {"warmup", 100},
        {"beta2", 0.99},
        {"weight-decay", 0.1},
        {"eval-every", 500}}},
      {"nanogpt-gpu", "6 layers, 6 heads, 384 wide, context 256: 10.7 M parameters",
       with(nanogpt, {{"layers", 6},
                      {"heads", 6},
                      {"dim", 384},
                      {"context", 256},
                      {"batch", 64},
                      {"dropout", 0.2},
                      {"steps", 5000}})},
  };
  return all;
}

std::string preset_names() { return joined(presets(), &Preset::name); }

const Preset& preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  if (found == presets().end())
    throw SettingError("`preset` must be one of " + preset_names() + ", is '" + std::string(name) +
                       "'");
  return *found;
}

}  // namespace headcount
