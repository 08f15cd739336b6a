#include "train/run/loaded.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run/record.h"

namespace headcount {

TrainOptions read_run_options(const std::string& folder) {
  if (std::filesystem::path(folder) == find_checkpoint(folder)) {
    throw DataError(
        "'{}' is a checkpoint, no run folder; name its run, or begin a new run with its weights by "
        "`init`",
        folder);
  }
  const std::filesystem::path path = std::filesystem::path(folder) / kRecord;
  if (!is_there(path))
    throw DataError("'{}' is no run folder: it has no {}; check the path", folder, kRecord);
  const RunRecord record = read_run_record(folder);
  return named_error<DataError, Error>(path.string(), [&] {
    return resolve_training(Given(training_settings(), recorded_settings(record.settings)));
  });
}

TrainOptions found_from_here(TrainOptions options, const std::filesystem::path& folder,
                             const std::string& otherwise) {
  const std::string directory = read_run_record(folder).working_directory;
  std::error_code error;
  const auto found = [&](const std::string& path) {
    const std::filesystem::path there = std::filesystem::path(directory) / path;
    return std::filesystem::exists(there, error) ? there.string() : path;
  };
  if (!options.init.empty()) options.init = found(options.init);
  if (find_built_in(options.data) != nullptr) return options;
  for (std::string* const text : {&options.data, &options.corpus.validation}) {
    if (text->empty()) continue;  // there is no validation file
    const std::string path = found(*text);
    if (!std::filesystem::exists(path, error)) {
      throw DataError(
          "the text of {}, '{}', is not here{}; bring it back, or start in the directory that has "
          "it{}",
          folder.string(), *text, directory.empty() ? "" : " and no longer in " + directory,
          otherwise);
    }
    *text = path;
  }
  return options;
}

void require_own_text(const Corpus& corpus, const std::filesystem::path& folder,
                      const std::string& otherwise) {
  const std::string trained_on = read_run_record(folder).data_sha256, &now = corpus.sha256;
  if (now == trained_on) return;
  const auto hashes = [](const std::string& both) {  // of the text and of the validation file
    const std::size_t plus = std::min(both.find('+'), both.size());
    return std::pair(both.substr(0, plus), both.substr(std::min(plus + 1, both.size())));
  };
  const auto [was, validation_was] = hashes(trained_on);
  const auto [is, validation_is] = hashes(now);
  const bool same = was == is;
  throw DataError(
      "{} is not the text of the run in {}: that had the SHA-256 {}, this has {}; restore the old "
      "text{}",
      same ? "the validation file" : corpus.name, folder.string(), same ? validation_was : was,
      same ? validation_is : is, otherwise);
}

namespace {

// What `load` makes of the newest checkpoint of `folder`, which is a run folder with checkpoints or
// a checkpoint folder itself. If that throws DataError, OlderCheckpointError names an older
// checkpoint of the run that loads, if there is one.
template <class Load>
auto load_newest(const std::filesystem::path& folder, const Load& load) {
  const std::filesystem::path newest = *find_checkpoint(folder);
  try {
    return load(newest);
  } catch (const DataError& error) {
    const std::filesystem::path siblings = newest.parent_path();
    if (siblings.filename() != kCheckpoints) throw;
    for (const std::filesystem::path& older : checkpoints_of(siblings.parent_path())) {
      if (step_of(older) >= step_of(newest)) continue;
      try {
        load(older);
      } catch (const Error&) {
        continue;
      }
      throw OlderCheckpointError("{}; {} is whole: to continue from it, remove {}", error.what(),
                                 older.string(), newest.string());
    }
    throw;
  }
}

// The checkpoint of a run at the lowest validation loss, as metrics.jsonl says up to the newest
// one.
std::filesystem::path best_checkpoint(const std::filesystem::path& folder) {
  const std::filesystem::path newest = *find_checkpoint(folder);
  if (newest == folder)
    throw DataError("'{}' is a checkpoint itself; name its run for the best one", folder.string());
  // A run that continues trains the steps after its newest checkpoint again.
  const BestEvaluation best = best_of(read_metrics(folder, *step_of(newest)));
  if (best.step == 0)
    throw DataError("'{}' has no evaluated checkpoint yet; take the newest one", folder.string());
  std::filesystem::path checkpoint = checkpoint_of(folder, best.step);
  if (!is_there(checkpoint)) {
    throw DataError(
        "'{}' has its lowest validation loss, {}, at step {}, whose checkpoint is not there; "
        "take the newest one without `best`, or train with `checkpoint-every` above 0, which keeps "
        "the best",
        folder.string(), formatted("%.4f", best.loss), best.step);
  }
  return checkpoint;
}

}  // namespace

std::filesystem::path require_checkpoint(const std::string& path) {
  if (const auto found = find_checkpoint(path)) return *found;
  if (!is_there(std::filesystem::path(path) / kRecord)) {
    throw DataError(
        "'{}' is no run folder and no checkpoint: it has neither checkpoints/step-N nor "
        "model.safetensors; check the path",
        path);
  }
  const TrainOptions options = read_run_options(path);
  Index first = options.steps;
  for (const Index every : {options.checkpoint_every, options.eval_every}) {
    if (every > 0 && options.checkpoint_every > 0) first = std::min(first, every);
  }
  throw DataError("'{}' has no checkpoint yet; its first comes at step {}", path, first);
}

LoadedRun load_run(const std::string& path, bool best, NonFinite allowed) {
  const std::filesystem::path folder = require_checkpoint(path);
  const auto load = [&](const std::filesystem::path& from) {
    return load_checkpoint(from, allowed);
  };
  LoadedRun run{best ? load(best_checkpoint(path)) : load_newest(path, load), std::nullopt};
  if (folder == std::filesystem::path(path)) return run;
  run.options = read_run_options(path);
  run.documents = run.options->corpus.documents;  // checkpoints of earlier versions lack them
  return run;
}

namespace {

// Returns true if a run that starts with weights may have the value `here` instead of `there`.
bool may_change(const std::string& name, const nlohmann::json& here, const nlohmann::json& there) {
  if (name == "attention") {
    const std::string a = setting_text(here), b = setting_text(there);
    const bool by_window = a.find("share@") != a.npos || b.find("share@") != b.npos;
    return !by_window && without_windows(a) == without_windows(b);
  }
  return name == "context" || name == "window" || name == "rope-theta";
}

}  // namespace

void require_same_model(const std::filesystem::path& folder, const nlohmann::json& here,
                        const nlohmann::json& there, UseOfWeights use) {
  std::string different;
  for (const auto& [name, value] : here.items()) {
    const nlohmann::json other = there.value(name, nlohmann::json());
    if (other == value || (use == UseOfWeights::start && may_change(name, value, other))) continue;
    different += (different.empty() ? "`" : ", `") + name + "` is " + value.dump() + " here and " +
                 (other.is_null() ? "nothing" : other.dump()) + " there";
  }
  if (different.empty()) return;
  throw SettingError("the model of {} differs: {}; leave out the settings that contradict it",
                     folder.string(), different);
}

std::string init_note(const TrainOptions& options) {
  if (options.init.empty()) return "";
  const ModelPlan there = load_config(require_checkpoint(options.init)).model;
  const auto text = [](const nlohmann::ordered_json& value) {  // "500", not "500.0"
    return value.is_number() ? shortest_text(value) : setting_text(value);
  };
  std::string changes;
  for (const auto& [name, value] : options.model->settings.items()) {
    const nlohmann::ordered_json other = there->settings.value(name, nlohmann::ordered_json());
    if (other == value || other.is_null()) continue;  // a pattern has it in its words
    changes +=
        (changes.empty() ? "`" : ", `") + name + "` " + text(value) + " instead of " + text(other);
  }
  if (changes.empty()) return "";
  const bool cut =
      options.model->positions == Positions::learned && options.model->context < there->context;
  return "the weights of " + options.init + " go on with " + changes +
         (cut ? "; later learned positions are left out" : "");
}

namespace {

// The learner that begins with `checkpoint`, which is of the model in `options`.
Learner learner_at(const std::filesystem::path& checkpoint, const TrainOptions& options,
                   UseOfWeights use) {
  Checkpoint read = load_checkpoint(checkpoint);
  const ModelPlan there = read.model->plan();
  require_same_model(checkpoint, options.model->settings, there->settings, use);
  if (options.model->settings != there->settings) {
    if (options.model->positions == Positions::learned && options.model->context > there->context) {
      throw SettingError("`context` {} is more than the {} learned positions of {}; lower it",
                         options.model->context, there->context, checkpoint.string());
    }
    read.model = std::make_unique<LanguageModel>(options.model, *read.model);
  }
  auto optimizer = options.optimizer.make(read.model->parameters());
  read.documents = options.corpus.documents;
  return {std::move(read), std::move(optimizer)};
}

}  // namespace

Learner initial_learner(const TrainOptions& options, const Vocabulary& vocabulary) {
  if (!options.init.empty())
    return learner_at(require_checkpoint(options.init), options, UseOfWeights::start);
  auto model = std::make_unique<LanguageModel>(options.model, vocabulary.size());
  model->initialize(options.seed);
  auto optimizer = options.optimizer.make(model->parameters());
  return {{std::move(model), vocabulary, options.corpus.documents}, std::move(optimizer)};
}

std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  const Vocabulary& vocabulary) {
  if (!find_checkpoint(folder)) return {initial_learner(options, vocabulary), TrainingState{}};
  const auto load = [&](const std::filesystem::path& checkpoint) {
    Learner learner = learner_at(checkpoint, options, UseOfWeights::resumed);
    const Index step =
        read_training_state(checkpoint, learner.model->parameters(), *learner.optimizer);
    return std::pair(std::move(learner), TrainingState{{step}});
  };
  auto newest = load_newest(folder, load);
  TrainingState& state = newest.second;
  if (state.step > options.steps)
    throw DataError(
        "{} has a checkpoint of step {}, but its `steps` are {}; give run.json the number that "
        "it was trained with",
        folder.string(), state.step, options.steps);
  const std::vector<LoggedStep> steps = read_metrics(folder, state.step);
  state.best = best_of(steps);
  if (!steps.empty()) state.logged = steps.back();
  return newest;
}

void require_vocabulary(const Learner& learner, const Vocabulary& vocabulary) {
  if (learner.vocabulary != vocabulary)
    throw DataError(
        "the vocabulary of the model is not that of the text; both must have the same characters");
}

}  // namespace headcount
