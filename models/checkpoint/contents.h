#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "autograd/base/json.h"
#include "data/documents.h"
#include "data/vocabulary.h"
#include "models/checkpoint/safetensors.h"
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
  Documents documents = Documents::one;  ///< of the text that it was trained on
};

/// Contents of the files of a checkpoint by their names, without the checksums. Throws
/// NonFiniteError if a weight is NaN or infinite: no checkpoint has such weights.
std::map<std::string, std::string> checkpoint_files(const LanguageModel& model,
                                                    const Vocabulary& vocabulary,
                                                    Documents documents = Documents::one);

/// Returns the bytes of a file of a checkpoint. Throws DataError if there is none of that name.
using ReadFile = std::function<std::string(const std::string& name)>;

/// Reads a checkpoint, whose `weights` are in files of these names. `folder`, with its last
/// separator or empty, precedes names in messages. Throws DataError that names the file and what is
/// wrong in it, as read_weights does.
Checkpoint read_checkpoint(const ReadFile& read, std::span<const std::string> weights,
                           const std::string& folder = "", NonFinite allowed = NonFinite::refused);

/// Allocates `parameters` and copies the weights of `file` into them. Skips tables of RoPE
/// frequencies (inv_freq), which follow from the configuration, and an output head equal to the
/// embedding that it is tied to. Throws DataError for a weight that is missing, left over, of
/// another shape, or of integers; nothing is allocated then. Throws DataError for a weight with a
/// number that is NaN or infinite, too, unless such numbers are allowed.
void read_weights(const Safetensors& file, ParameterStore& parameters,
                  NonFinite allowed = NonFinite::refused);

}  // namespace headcount
