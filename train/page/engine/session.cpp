#include "train/page/engine/session.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/json.h"
#include "train/evaluation.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

namespace {

// Options for `settings`, with the defaults of their text. An own text is named "text" unless
// `data` has the name of its file.
TrainOptions options_of(nlohmann::json settings) {
  if (!settings.is_object()) throw DataError("'settings' must be an object");
  if (settings.contains("text")) {
    const auto name = settings.find("data");
    if (name == settings.end() || find_built_in(name->get<std::string>()) != nullptr)
      settings["data"] = "text";
    settings.erase("text");
  }
  Given given(training_settings());
  given.put(data_defaults(settings.value("data", given.text("data"))));
  given.put(settings);
  // What the attention's word says has priority over settings of all attentions.
  if (settings.contains("attention")) given.put("attention", settings["attention"]);
  TrainOptions options = resolve_training(given);
  require_setting(options.init.empty(), "`init` names a folder, and a page has none; open a file");
  require_fast(options.precision, "leave it f32");
  return options;
}

Json baselines_of(const Corpus& corpus) { return json_of(corpus.baselines); }

// The attention that `text` names: its shortest spec and, if its layers are of one kind, that kind,
// the settings in its word, and how many layers read one cache.
Json chosen(std::string_view text) {
  const std::vector<LayerSpec> cycle = parse_attention_spec(text).cycle;
  Json choice;
  if (std::all_of(cycle.begin() + 1, cycle.end(), [](const LayerSpec& layer) {
        return layer.shares() && !layer.gives("window");
      })) {
    choice = {{"kind", cycle[0].kind->name}, {"given", cycle[0].settings}, {"share", cycle.size()}};
  }
  return {{"spec", text_of(cycle)}, {"choice", choice}};
}

// What a page shows of a model before its training.
Json described(const LanguageModel& model, const Json& settings) {
  return {{"settings", settings},
          {"parameters", model.parameters().element_count()},
          {"vocabulary", model.vocabulary()},
          {"context", model.plan()->context},
          {"notes", attention_notes(model.plan())},
          {"cache", cache_json(model)}};
}

Json planned(const LanguageModel& model, const TrainOptions& options, const Corpus& corpus) {
  Json plan = described(model, to_json(options));
  plan["baselines"] = baselines_of(corpus);
  return plan;
}

// How to train a model with `settings` again on the text `data`, for sliders of the sizes that the
// page shows: the spec of its attention, with the settings that its layers need besides, and the
// other settings that differ from their defaults.
Json trained_again(const Json& settings, std::string_view data) {
  const std::string attention = settings["attention"];
  const std::vector<LayerSpec> cycle = parse_attention_spec(attention).cycle;
  Json shown = Json::object(), own = shown, changed = shown;
  for (const char* size : {"attention", "heads", "layers", "dim", "context"})
    shown[size] = settings[size];
  if (cycle.size() == 1) {
    for (const std::string_view name : cycle[0].kind->numbers) {
      if (!name.empty()) own[std::string(name)] = settings[std::string(name)];
    }
  }
  if (settings["dim"].get<Index>() % settings["heads"].get<Index>() != 0)  // no default width
    own["head-dim"] = settings["head-dim"];
  // Defaults of other settings depend on these: `rope-dim` on `head-dim`.
  shown.update(own);
  Given known(model_settings());
  known.put_known(data_defaults(data));
  known.put(shown);
  Json defaults = Json::object();
  try {
    defaults = resolve_model(known)->settings;
  } catch (const ShapeError&) {  // these settings alone give no model: all others are needed
  }
  for (const auto& [name, value] : settings.items()) {
    if (shown.contains(name) || (defaults.contains(name) && defaults[name] == value)) continue;
    (find_setting(attention_settings(), name) != nullptr ? own : changed)[name] = value;
  }
  return {{"spec", spec_with(attention, own)}, {"changed", changed}};
}

}  // namespace

// Writing a built-in text takes longer than planning a model: the latest text is kept. The caller
// stores the returned text once nothing can fail any more.
std::shared_ptr<const Session::Text> Session::text_of(const TrainOptions& options,
                                                      const nlohmann::json& settings) const {
  const auto own = settings.find("text");
  const BuiltInCorpus* const built_in = find_built_in(options.data);
  if (built_in == nullptr && (own == settings.end() || !own->is_string()))
    throw DataError("there is no text '{}'; give one, or name a built-in one", options.data);
  const CorpusOptions& corpus = options.corpus;
  const std::string& name = built_in != nullptr ? options.data : own->get_ref<const std::string&>();
  const std::string key =
      name + Json({corpus.own.values(), corpus.validation_characters, corpus.validation_fraction,
                   corpus.unix_newlines, corpus.documents})
                 .dump();
  std::shared_ptr<const Text> text = text_;
  if (text == nullptr || text->key != key) {
    text = std::make_shared<Text>(Text{
        key, built_in != nullptr
                 ? write_corpus(*built_in, corpus)
                 : text_corpus(options.data,
                               read_characters(name, options.data, corpus.unix_newlines), corpus)});
  }
  const Index context = options.model->context;
  const std::size_t train = text->corpus.train.tokens.size();
  const std::size_t validation = text->corpus.validation.tokens.size();
  if (own != settings.end() && std::cmp_less_equal(std::min(train, validation), context)) {
    const double needed = static_cast<double>(context + 1) / corpus.validation_fraction;
    throw DataError(
        "Your text has {} characters; to read {} at once, a model needs about {}. Paste more, or "
        "lower the context under Model and training.",
        train + validation, context, std::llround(needed));
  }
  require_longer(text->corpus, context);
  return text;
}

const LanguageModel& Session::model() const {
  if (checkpoint_.model == nullptr)
    throw DataError("there is no model yet; start a training or open a file");
  return *checkpoint_.model;
}

Json Session::plan(const nlohmann::json& settings) {
  const TrainOptions options = options_of(settings);
  auto text = text_of(options, settings);
  Json plan =
      planned(LanguageModel(options.model, text->corpus.vocabulary.size()), options, text->corpus);
  plan.update(chosen(settings.value("attention", kDefaultAttention)));
  text_ = std::move(text);
  return plan;
}

Json Session::start(const nlohmann::json& settings) {
  Training training{options_of(settings), nullptr, nullptr};
  training.text = text_of(training.options, settings);
  const Corpus& corpus = training.text->corpus;
  auto model = std::make_unique<LanguageModel>(training.options.model, corpus.vocabulary.size());
  model->initialize(training.options.seed);
  training.trainer = std::make_unique<Trainer>(*model, training.options, corpus.train.tokens, 0,
                                               corpus.marks(corpus.train));
  Json plan = planned(*model, training.options, corpus);
  text_ = training.text;
  training_.emplace(std::move(training));
  checkpoint_ = {std::move(model), text_->corpus.vocabulary, text_->corpus.documents};
  return plan;
}

Json Session::step(Index steps) {
  model();
  if (!training_) {
    throw DataError(
        "this model was opened from files and can be asked; start a training to train a new one");
  }
  Trainer& trainer = *training_->trainer;
  const Index left = std::min(steps, training_->options.steps - trainer.steps_done());
  double sum = 0;
  for (Index i = 0; i < left; ++i) sum += trainer.step().loss;
  return {{"step", trainer.steps_done()},
          {"steps", training_->options.steps},
          {"loss", left > 0 ? Json(sum / static_cast<double>(left)) : Json()}};
}

Json Session::evaluate(Index tokens) const {
  const LanguageModel& evaluated = model();
  if (!training_) throw DataError("a model that was opened from files has no text to evaluate on");
  const Corpus& corpus = training_->text->corpus;
  // A window, and the token after it, is the least that can be evaluated.
  const TextPart part =
      corpus.validation.first(tokens > 0 ? std::max(tokens, evaluated.plan()->context + 1) : 0);
  const Evaluation result =
      headcount::evaluate(evaluated, part.tokens, {.marks = corpus.marks(part)});
  return {{"step", training_->trainer->steps_done()},
          {"loss", result.loss},
          {"questions", result.answers_asked()},
          {"answers", result.answer_accuracy ? Json(*result.answer_accuracy) : Json()},
          {"learned", training_->options.learned(result)},
          {"baselines", baselines_of(corpus)}};
}

Json Session::ask(const nlohmann::json& request) const {
  return page::ask(model(), checkpoint_.vocabulary, request);
}

Json Session::text() const {
  if (text_ == nullptr) throw DataError("there is no text yet; plan or start a training");
  return text_json(text_->corpus);
}

std::vector<File> Session::save() {
  saved_ = checkpoint_files(model(), checkpoint_.vocabulary, checkpoint_.documents);
  std::vector<File> files;
  for (const auto& [name, bytes] : saved_) files.push_back({name, bytes});
  return files;
}

Json Session::open(std::span<const File> files, std::string_view data) {
  std::vector<std::string> weights;
  for (const File& file : files) {
    if (file.name.ends_with(".safetensors") && file.name != "optimizer.safetensors")
      weights.emplace_back(file.name);
  }
  const auto content = [&](const std::string& name) {
    const auto found = std::ranges::find(files, name, &File::name);
    if (found == files.end()) throw DataError("there is no {} beside the weights; add it", name);
    return std::string(found->bytes);
  };
  Checkpoint opened = read_checkpoint(content, weights);
  const Json& settings = opened.model->plan()->settings;
  Json plan = described(*opened.model, settings);
  plan.update(trained_again(settings, data));
  plan.update({{"baselines", nullptr}, {"step", nullptr}});
  const auto state = std::ranges::find(files, "trainer_state.json", &File::name);
  if (state != files.end()) plan["step"] = whole_number(parse_json(state->bytes), "step");
  training_.reset();
  checkpoint_ = std::move(opened);
  return plan;
}

}  // namespace headcount::page
