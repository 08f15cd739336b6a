#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "models/checkpoint/contents.h"
#include "train/trainer.h"

/// The program in a browser: what a page asks for, as JSON objects.
namespace headcount::page {

using Json = nlohmann::ordered_json;

/// File of a checkpoint in memory.
struct File {
  std::string name;
  std::string_view bytes;
};

/// One model on one text, in training or opened from files. Throws the library's errors:
/// SettingError, ShapeError, DataError, NonFiniteError. After an error the session is as before;
/// `step` keeps the steps that succeeded.
class Session {
 public:
  /// What a training with `settings` would be, as the page's interface describes it. `settings`
  /// are named as in config.json; "text" is an own text. Settings that are not given have the
  /// defaults of the text.
  Json plan(const nlohmann::json& settings);
  /// As `plan`; the session then trains that model from its first step.
  Json start(const nlohmann::json& settings);
  /// Trains `steps` steps, or as many as are left.
  Json step(Index steps);
  /// Evaluates on the first `tokens` tokens of the validation part; 0: on all.
  Json evaluate(Index tokens) const;
  /// Continues a prompt.
  Json ask(const nlohmann::json& request) const;
  /// An excerpt of the validation part, and questions with their answers: see text_json.
  Json text() const;
  /// Files of a checkpoint, valid until the next call.
  std::vector<File> save();
  /// Opens the checkpoint in the files of a folder, which can be asked; it cannot be trained
  /// further. Throws DataError that names the file and what is wrong in it. The reply says how to
  /// train such a model again on the text `data`: "spec" is its attention with all settings that
  /// differ from the defaults, and "changed" has the other settings that do and that the page does
  /// not show.
  Json open(std::span<const File> files, std::string_view data);

 private:
  // A text, with what it was made of.
  struct Text {
    std::string key;
    Corpus corpus;
  };
  // What a model learns by. The trainer refers to the other members.
  struct Training {
    TrainOptions options;
    std::shared_ptr<const Text> text;
    std::unique_ptr<Trainer> trainer;
  };

  std::shared_ptr<const Text> text_of(const TrainOptions& options,
                                      const nlohmann::json& settings) const;
  const LanguageModel& model() const;

  std::shared_ptr<const Text> text_;  // the latest one
  Checkpoint checkpoint_;
  std::optional<Training> training_;
  std::map<std::string, std::string> saved_;
};

}  // namespace headcount::page
