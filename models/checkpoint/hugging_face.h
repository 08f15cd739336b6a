#pragma once

#include <nlohmann/json.hpp>

#include "models/plan.h"

/// A checkpoint folder is a Hugging Face model folder: its config.json, as `transformers` writes
/// and reads it.
/// Source: LlamaConfig and DeepseekV3Config, huggingface.co/docs/transformers.

namespace headcount {

/// config.json of a model: LlamaForCausalLM for the GQA family with RMSNorm, SwiGLU and rotary
/// positions, DeepseekV3ForCausalLM with all layers dense for such a model with MLA; otherwise
/// "HeadcountForCausalLM", which nobody else reads: so for any weight, and any setting that is not
/// as it is by default, that the architecture's list does not have. What keys do not say of a
/// model, such as its attention's name here, is in a block "headcount" of our own settings.
nlohmann::ordered_json hugging_face_config(const ModelPlan& model, Index vocabulary);

struct NamedConfig {
  ModelPlan model;
  Index vocabulary = 0;
};

/// The model that such a config.json describes, made here or elsewhere. Throws DataError that names
/// the key for anything that this project's models do not have.
NamedConfig read_hugging_face_config(const nlohmann::json& json);

/// Throws ShapeError if config.json could not say what `model` is, so that a model would be
/// trained and then lost.
void require_savable(const ModelPlan& model);

/// Why some version of transformers does not open `model`; empty if nothing is known.
std::string hugging_face_note(const ModelPlan& model);

}  // namespace headcount
