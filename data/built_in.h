#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "autograd/base/settings.h"
#include "data/story.h"

/// The corpora that are written here, not read from files.
namespace headcount {

/// What a built-in corpus declares, in its one file. Flags, help and config.json follow from it.
struct BuiltInCorpus {
  std::string_view name;
  OwnFields own = {};  ///< how hard it is
  /// What writes its stories. Throws ShapeError for settings that do not fit together.
  std::function<Story(const Chooser&)> (*writer)(const Given& given) = nullptr;
  /// Settings of model and optimizer with which it is learned in seconds or a minute. Flags,
  /// presets and configurations come before them.
  nlohmann::json (*defaults)() = nullptr;
  /// What a comparison of attentions is of, unless others are named; empty: what it is of
  /// elsewhere.
  std::string_view attentions = {};
  bool only_answers = false;  ///< the loss counts answers alone; the other characters are random
  Index story_length = 0;     ///< characters of every story, so that contexts can end where one
                              ///< does; 0: stories differ
};

/// All of them, in the order of help.
std::span<const BuiltInCorpus* const> built_in_corpora();
/// Null where `data` names a file.
const BuiltInCorpus* find_built_in(std::string_view data);
/// The settings of all, each marked with the corpora that it is for.
const SettingList& corpus_settings();

extern const BuiltInCorpus kTales;   // tales.cpp
extern const BuiltInCorpus kLookup;  // lookup.cpp

}  // namespace headcount
