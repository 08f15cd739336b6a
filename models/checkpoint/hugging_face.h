#pragma once

#include <nlohmann/json.hpp>

#include "data/documents.h"
#include "models/plan.h"

/// config.json of a Hugging Face model folder, as `transformers` writes and reads it.
/// Source: LlamaConfig and DeepseekV3Config, huggingface.co/docs/transformers.

namespace headcount {

/// config.json of a model: LlamaForCausalLM for the GQA family with RMSNorm, SwiGLU and RoPE;
/// DeepseekV3ForCausalLM with all layers dense for such a model with MLA; otherwise
/// HeadcountForCausalLM, which other programs do not read. It is the last one for a model with a
/// weight, or a setting not at its default, that the published architecture does not list. Settings
/// that no key expresses, such as the attention's name here, are in a block "headcount"; so are the
/// `documents` that the model was trained on, unless they are one.
nlohmann::ordered_json hugging_face_config(const ModelPlan& model, Index vocabulary,
                                           Documents documents = Documents::one);

struct NamedConfig {
  ModelPlan model;
  Index vocabulary = 0;
  Documents documents = Documents::one;
};

/// Model that a config.json describes, made here or elsewhere. Throws DataError that names the key
/// for anything that this project's models do not have.
NamedConfig read_hugging_face_config(const nlohmann::json& json);

/// Reason why some version of transformers does not open `model`; empty if none is known.
std::string hugging_face_note(const ModelPlan& model);

}  // namespace headcount
