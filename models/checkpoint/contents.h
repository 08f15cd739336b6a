#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/vocabulary.h"
#include "models/language_model.h"

/// Contents of the files of a checkpoint, wherever these lie.

namespace headcount {

/// Names of its files.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kSumsFile = "SHA256SUMS";

/// Model with the characters that its tokens stand for.
struct Checkpoint {
  std::unique_ptr<LanguageModel> model;
  Vocabulary vocabulary;
};

/// Names and contents of the files of a checkpoint that are text, without the checksums.
std::vector<std::pair<std::string, std::string>> checkpoint_texts(const LanguageModel& model,
                                                                  const Vocabulary& vocabulary);

/// Line of SHA256SUMS for a file, as `sha256sum` writes it.
std::string sum_line(const std::string& sha256, const std::string& name);

/// Checkpoint with the configuration and the tokenizer in these texts, whose weights `read_weights`
/// then reads. `config_name` and `tokenizer_name` are the files' names in messages. Throws
/// DataError that names the file and what is wrong in it.
Checkpoint read_checkpoint_texts(const std::string& config, const std::string& config_name,
                                 const std::string& tokenizer, const std::string& tokenizer_name);

}  // namespace headcount
