#pragma once

#include <nlohmann/json.hpp>

#include "data/vocabulary.h"
#include "models/config.h"

/// A checkpoint folder is a Hugging Face model folder: its config.json and tokenizer.json, as
/// `transformers` and `tokenizers` write and read them.
/// Source: LlamaConfig and DeepseekV3Config, huggingface.co/docs/transformers.

namespace headcount {

/// config.json of a model: LlamaForCausalLM for the GQA family with RMSNorm, SwiGLU and rotary
/// positions, DeepseekV3ForCausalLM with all layers dense for such a model with MLA; otherwise
/// "HeadcountForCausalLM", which nobody else reads. What those keys cannot say is in a block
/// "headcount" of our own settings.
nlohmann::ordered_json hugging_face_config(const ModelConfig& config, Index vocabulary);

struct NamedConfig {
  ModelConfig model;  ///< resolved
  Index vocabulary = 0;
};

/// The model that such a config.json describes, made here or elsewhere. Throws DataError that names
/// the key for anything that this project's models do not have.
NamedConfig read_hugging_face_config(const nlohmann::json& json);

/// tokenizer.json: every character is a word of its own.
nlohmann::ordered_json hugging_face_tokenizer(const Vocabulary& vocabulary);

/// The vocabulary of such a file. Throws DataError that names the key, for a token that is not one
/// character, and unless tokens are numbered 0, 1, 2, ...
Vocabulary read_hugging_face_tokenizer(const nlohmann::json& json);

}  // namespace headcount
