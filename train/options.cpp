#include "train/options.h"

#include <algorithm>
#include <limits>

#include "autograd/base/text.h"
#include "autograd/products/products.h"

namespace headcount {

namespace {

constexpr Named<Precision> kPrecisions[] = {{"f32", Precision::f32}, {"bf16", Precision::bf16}};
constexpr Named<Decay> kDecays[] = {{"cosine", Decay::cosine},
                                    {"linear", Decay::linear},
                                    {"constant", Decay::constant},
                                    {"wsd", Decay::wsd}};
constexpr Named<bool> kNewlines[] = {{"keep", false}, {"unix", true}};

// Settings of TrainSettings, in the order of config.json.
template <class Settings, class Visit>
void visit_run(Settings& s, const Visit& visit) {
  const WholeRange any = {0};
  visit(s.data,
        {"data",
         "text to train on: the built-in " + joined(built_in_corpora(), &BuiltInCorpus::name) +
             ", whose own defaults replace those of other settings, or the path of a UTF-8 "
             "text file",
         Text{}, "tales", Traits{.scope = Scope::data}});
  visit(s.steps, {"steps", "optimizer steps of the run", WholeRange{1}, 1000});
  visit(s.batch, {"batch", "sequences per forward pass", WholeRange{1, 1 << 20}, 8});
  visit(s.accumulate, {"accumulate", "forward passes per step, whose gradients are averaged",
                       WholeRange{1, 1 << 16}, 1});
  visit(s.shards,
        {"shards",
         "parts of a batch that threads and MPI ranks compute in parallel; 0: up to 8, by batch, "
         "context and dim. The number changes results by rounding only; with dropout, it changes "
         "which activations are zeroed",
         WholeRange{0, 1 << 12}, 0, Traits{.quiet = true}});
  visit(s.learning_rate,
        {"lr", "peak learning rate, at the end of the warm-up", NumberRange{0, 100}, 1e-3});
  visit(s.least_learning_rate,
        {"min-lr", "learning rate at the end of its decay", NumberRange{0, 100},
         Default("lr / 10", [](const Given& v) { return v.number("lr") / 10; }),
         Traits{.only_where = OnlyWhere{"decay", "constant", "keeps the peak rate", true}}});
  visit(s.decay,
        {"decay",
         "how the learning rate falls from lr to min-lr: cosine and linear after the warm-up, wsd "
         "linearly over the last fifth of the steps (arXiv 2404.06395, 2405.18392), constant not "
         "at all",
         kDecays, "cosine", Traits{.quiet = true}},
        kDecays);
  visit(s.warmup,
        {"warmup",
         "steps of linear warm-up of the learning rate; a tenth of the run if the run is shorter",
         any, 100});
  visit(s.gradient_clip,
        {"grad-clip",
         "largest norm of all gradients together; if it is greater, they are scaled down to this; "
         "0: no limit",
         NumberRange{0}, 1.0});
  visit(s.dropout, {"dropout", "probability that dropout zeroes an activation", kFraction, 0.0});
  visit(s.precision,
        precision_setting(
            Traits{.quiet = true, .never_swept = "losses at two precisions do not compare"}),
        kPrecisions);
  visit(s.seed,
        {"seed", "random seed of the initial weights, batches, dropout and the sample text",
         Naturals{}, 1U,
         Traits{.scope = Scope::single, .never_swept = "every variant is trained with all seeds"}});
  visit(s.eval_every,
        {"eval-every", "steps between evaluations on the validation part; 0: at the end only", any,
         250, Traits{.scope = Scope::run}});
  visit(s.checkpoint_every,
        {"checkpoint-every",
         "steps between checkpoints; an evaluation with the lowest loss so far saves one as well; "
         "0: at the end only",
         any, 250, Traits{.scope = Scope::run}});
  visit(s.keep,
        {"keep", "number of newest checkpoints to keep, besides the one of lowest validation loss",
         WholeRange{1}, 2, Traits{.scope = Scope::single}});
  visit(s.stop_after,
        {"stop-after",
         "end the run after so many evaluations in a row that did not lower the lowest validation "
         "loss; the learning rate still follows the schedule of all steps; 0: train all steps",
         any, 0, Traits{.quiet = true, .scope = Scope::single}});
  const Traits of_stop = {.quiet = true, .never_swept = "it says when a run has learned"};
  visit(s.stop_at_answers,
        {"stop-at-answers",
         "end the run at the first evaluation with this percentage of right answers, on lookup in "
         "each direction; 0: train on",
         NumberRange{0, 100}, 0.0, of_stop});
  visit(s.stop_at_loss,
        {"stop-at-loss",
         "end the run at the first evaluation with a validation loss below this; 0: train on",
         NumberRange{0}, 0.0, of_stop});
  visit(s.init,
        {"init",
         "start from the weights of this run, checkpoint or Hugging Face model folder [random "
         "weights]",
         Text{}, "",
         Traits{.scope = Scope::single, .never_swept = "all models start from random weights"}});
}

// Settings of CorpusOptions that are not of one built-in text.
template <class Options, class Visit>
void visit_text(Options& options, const Visit& visit) {
  const auto one_text = "all variants are evaluated on one text";
  visit(options.validation_characters,
        {"eval-characters",
         "evaluate on the first so many characters of the validation part (of a built-in text: on "
         "the whole stories that contain them); 0: all",
         WholeRange{0}, 0, Traits{.quiet = true, .scope = Scope::run, .never_swept = one_text}});
  visit(options.validation_fraction,
        {"validation-part", "share of the text, at its end, to evaluate on instead of training",
         NumberRange{0.001, 0.999}, CorpusOptions().validation_fraction,
         Traits{.quiet = true,
                .scope = Scope::run,
                .never_swept = one_text,
                .only_where = OnlyWhere{"validation", "", "is evaluated on instead"}}});
  visit(options.validation,
        {"validation",
         "text file to evaluate on, instead of a part of the file to train on; the vocabulary has "
         "the characters of both",
         Text{}, "", Traits{.quiet = true, .scope = Scope::data}});
  visit(options.unix_newlines,
        {"newlines",
         "line ends \\r\\n and \\r of a text file, and byte order marks; keep: as they are, unix: "
         "read "
         "as \\n, without the marks",
         kNewlines, "unix", Traits{.scope = Scope::data}},
        kNewlines);
  visit(
      options.documents,
      {"documents",
       "what a text file is made of, and a training window never leaves: one document; lines, each "
       "a document; or paragraphs, between blank lines. Samples begin and end as documents do",
       kKindsOfDocuments, "one", Traits{.quiet = true, .scope = Scope::data}},
      kKindsOfDocuments);
}

struct WriteMembers {
  nlohmann::ordered_json& all;

  void operator()(const auto& member, const Setting& row) const { all[row.name] = member; }
  template <class Value, std::size_t count>
  void operator()(Value member, const Setting& row, const Named<Value> (&names)[count]) const {
    all[row.name] = std::ranges::find(names, member, &Named<Value>::second)->first;
  }
};

// Throws if other settings contradict the text that `data` names.
void check_data(const TrainOptions& options) {
  const BuiltInCorpus* const built_in = find_built_in(options.data);
  if (built_in == nullptr || built_in->story_length == nullptr) return;
  const Index length = built_in->story_length(options.corpus.own_of(*built_in));
  const Index context = options.model->context;
  require_setting(context % length == 0,
                  "`context` must be a multiple of {}, the length of a line of {}, is {}", length,
                  options.data, context);
}

}  // namespace

bool TrainSettings::learned(const Evaluation& evaluation) const {
  const bool answers = stop_at_answers > 0 &&
                       100 * evaluation.least_answer_accuracy().value_or(0) >= stop_at_answers;
  return answers || evaluation.loss < stop_at_loss;
}

const SettingList& training_settings() {
  static const SettingList list = [] {
    SettingList rows;
    TrainSettings run;
    CorpusOptions text;
    visit_run(run, ListSettings{rows});
    visit_text(text, ListSettings{rows});
    SettingList all = together({model_settings(), settings_in(Scope::optimizer, rows)});
    add_settings(all, corpus_settings());
    add_settings(all, optimizer_settings());
    return all;
  }();
  return list;
}

CorpusOptions corpus_options(const Given& given) {
  CorpusOptions options;
  visit_text(options, ReadMembers{given});
  options.own.put_known(given.values());
  return options;
}

TrainOptions resolve_training(const Given& given) {
  TrainOptions options{{}, resolve_model(given), corpus_options(given), resolve_optimizer(given)};
  TrainSettings& own = options;
  visit_run(own, ReadMembers{given});
  check_data(options);
  require_setting(own.shards <= own.batch,
                  "`shards` {} must not exceed the sequences of `batch`, {}", own.shards,
                  own.batch);
  const Index characters = options.corpus.validation_characters, context = options.model->context;
  require_setting(characters == 0 || characters > context,
                  "`eval-characters` {} must be more than `context`, {}, or 0 for all", characters,
                  context);
  require_setting(own.stop_after == 0 || (own.eval_every > 0 && own.checkpoint_every > 0),
                  "`stop-after` {} needs evaluations and their checkpoints on the way; raise "
                  "`eval-every` and `checkpoint-every` above 0",
                  own.stop_after);
  require_setting(!own.stops_when_learned() || own.eval_every > 0,
                  "`stop-at-answers` and `stop-at-loss` need evaluations on the way; raise "
                  "`eval-every` above 0");
  require_setting(
      own.stop_at_answers == 0 || find_built_in(own.data) != nullptr,
      "`stop-at-answers` {}: {} marks no answers; take a built-in text, or `stop-at-loss`",
      shortest_text(own.stop_at_answers), own.data);
  require_setting(own.least_learning_rate <= own.learning_rate,
                  "`min-lr` is greater than `lr`; lower `min-lr` or raise `lr`");
  constexpr auto kStep = static_cast<double>(kDropoutStep);
  constexpr auto kSteps = static_cast<Index>(1 / kStep);
  require_setting(own.dropout == 0 || (own.dropout >= kStep && own.dropout <= 1 - kStep),
                  "`dropout` must be 0, or 1/{} to 1 - 1/{}: masks have 16 bits", kSteps, kSteps);
  // Each batch has a number of 32 bits, from which it is drawn.
  constexpr std::int64_t kMostBatches = std::numeric_limits<std::uint32_t>::max();
  require_setting(own.steps <= kMostBatches / own.accumulate,
                  "`steps` times `accumulate` must be below 2^32, the number of different batches; "
                  "lower one of them");
  return options;
}

nlohmann::json recorded_settings(nlohmann::json config) {
  const auto data = config.find("data");
  if (data != config.end() && data->is_string() &&
      find_built_in(data->get<std::string>()) == nullptr)
    config.emplace("newlines", "keep");
  for (const Setting& setting : training_settings()) {
    const auto before = config.find(setting.traits.formerly);
    if (setting.traits.formerly.empty() || before == config.end()) continue;
    config.emplace(setting.name, *before);
    config.erase(before);
  }
  return config;
}

std::string warmup_note(const TrainOptions& options) {
  if (options.warmup == options.steps && options.decay != Decay::constant) {
    return formatted(
        "the warm-up takes all %td steps, so that the learning rate never decays; shorten it",
        options.steps);
  }
  if (options.warmup <= options.steps) return "";
  return formatted("the warm-up of %td steps is longer than the run of %td; it is shortened to %td",
                   options.warmup, options.steps, options.schedule().warmup);
}

nlohmann::ordered_json to_json(const TrainOptions& options) {
  const TrainSettings& own = options;
  nlohmann::ordered_json all = options.model->settings;
  visit_run(own, WriteMembers{all});
  visit_text(options.corpus, WriteMembers{all});
  if (find_built_in(own.data) != nullptr) {  // which is no file
    for (const char* name : {"validation", "newlines", "documents"}) all.erase(name);
  }
  all.update(options.optimizer.values());
  if (const BuiltInCorpus* const built_in = find_built_in(own.data)) {
    const Given of_text = options.corpus.own_of(*built_in);
    for (const Setting& setting : corpus_settings()) {
      if (setting.is_for(own.data)) all[setting.name] = of_text.get(setting.name);
    }
  }
  for (const Setting& setting : training_settings()) {
    const auto value = all.find(setting.name);
    if (value == all.end()) continue;
    if (!setting.silenced_by(all).empty() ||
        (setting.traits.quiet && nlohmann::json(*value) == setting.standard.value))
      all.erase(value);
  }
  return all;
}

Setting precision_setting(const Traits& traits) {
  return {"precision",
          "number type to which linear layers and, on processors with AMX, attention of 64 tokens "
          "or more round the operands of their matrix products; sums, and all other numbers, are "
          "f32",
          kPrecisions, "f32", traits};
}

Precision read_precision(const Given& given) { return given.chosen("precision", kPrecisions); }

void require_fast(Precision precision, std::string_view remedy) {
  if (precision == Precision::f32) return;
  const std::string lacks = bf16_lacks();
  require_setting(lacks.empty(), "`precision` bf16 would be slower than f32 here: {}; {}", lacks,
                  remedy);
}

nlohmann::json data_defaults(std::string_view data) {
  const BuiltInCorpus* const built_in = find_built_in(data);
  return built_in == nullptr ? nlohmann::json::object() : built_in->defaults();
}

const std::vector<Preset>& presets() {
  const auto with = [](nlohmann::json shared, const char* sizes) {
    shared.update(nlohmann::json::parse(sizes));
    return shared;
  };
  // The two character-level configurations of nanoGPT, which has no flag for most of this.
  const auto nanogpt = nlohmann::json::parse(R"({
      "norm": "layer", "activation": "gelu", "positions": "learned", "tie-embeddings": "on",
      "bias": "off", "lr": 1e-3, "min-lr": 1e-4, "warmup": 100, "beta1": 0.9, "beta2": 0.99,
      "weight-decay": 0.1, "grad-clip": 1.0, "eval-every": 250})");
  // Recipes for Tiny Shakespeare: RoPE, RMSNorm and SwiGLU, as in current models, trained by Muon.
  // `shakespeare` has about as many parameters as nanogpt-cpu, `shakespeare-10m` fewer than
  // nanogpt-gpu. Rates and weight decay were searched on the training part, at the size of
  // `shakespeare`.
  const auto shakespeare = nlohmann::json::parse(R"({
      "norm": "rms", "activation": "swiglu", "positions": "rope", "tie-embeddings": "off",
      "context": 256, "batch": 8, "optimizer": "muon", "lr": 1.2e-2, "min-lr": 1e-4,
      "muon-lr": 0.01, "muon-weight-decay": 0.1, "warmup": 100, "beta2": 0.99,
      "weight-decay": 0.1, "eval-every": 250})");
  static const std::vector<Preset> all = {
      {"nanogpt-cpu", with(nanogpt, R"({
        "layers": 4, "heads": 4, "dim": 128, "context": 64, "batch": 12, "dropout": 0.0,
        "steps": 2000})")},
      {"nanogpt-gpu", with(nanogpt, R"({
        "layers": 6, "heads": 6, "dim": 384, "context": 256, "batch": 64, "dropout": 0.2,
        "steps": 5000})")},
      {"shakespeare", with(shakespeare, R"({
        "layers": 4, "heads": 4, "dim": 128, "dropout": 0.0, "steps": 2000})")},
      {"shakespeare-10m", with(shakespeare, R"({
        "layers": 6, "heads": 6, "dim": 192, "dropout": 0.1, "steps": 3000})")},
  };
  return all;
}

std::string preset_names() { return joined(presets(), &Preset::name); }

const Preset& preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  if (found == presets().end())
    throw SettingError("`preset` must be one of {}, is '{}'", preset_names(), name);
  return *found;
}

}  // namespace headcount
