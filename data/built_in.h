#pragma once

#include <span>
#include <string_view>

#include "autograd/base/settings.h"
#include "data/texts/story.h"

/// Corpora that a grammar writes, in place of files.
namespace headcount {

/// Declaration of a built-in corpus, in its one file. Flags, help and config.json follow from it.
struct BuiltInCorpus {
  std::string_view name;
  std::string_view about = {};  ///< what a story says and asks: a clause for people
  /// Settings of its difficulty.
  SettingList (*settings)() = [] { return SettingList(); };
  /// Returns the function that writes its stories.
  StoryGrammar (*writer)(const Given& given) = nullptr;
  /// Default settings of model and optimizer for this corpus, an object; never null. Flags, presets
  /// and configurations override them.
  nlohmann::json (*defaults)() = [] { return nlohmann::json::object(); };
  /// Attentions that `compare` trains by default; empty: its default for files.
  std::string_view attentions = {};
  bool only_answers = false;     ///< the loss counts answers alone; the other characters are random
  bool hidden_answers = false;   ///< see TextMarks::hidden_answers
  Index characters = 1'000'000;  ///< least length of the text
  /// Characters per story, which must divide the context; null: stories differ in length. Throws
  /// ShapeError for settings that contradict each other.
  Index (*story_length)(const Given& given) = nullptr;
  /// Direction, 0 .. kMostDirections - 1, in which a question asks that is this character; -1 for
  /// any other character. An answer follows its question. Null: questions have no directions.
  Index (*direction)(char32_t question, const Given& given) = nullptr;
};

/// All built-in corpora, in the order of help.
std::span<const BuiltInCorpus* const> built_in_corpora();
/// Adds a corpus, which must live as long as the program. Call it before `corpus_settings` is first
/// called, best before main. Throws ShapeError if the name is taken.
void register_corpus(const BuiltInCorpus& corpus);
/// Corpus of that name; null for any other text, which is a file.
const BuiltInCorpus* find_built_in(std::string_view data);
/// Settings of all built-in corpora, each marked with the corpora that have it.
const SettingList& corpus_settings();

}  // namespace headcount
