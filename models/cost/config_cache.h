#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/cost/model_cache.h"

namespace headcount {

/// Reads the KV cache of a model from its Hugging Face configuration, a config.json, alone. The
/// layers need not be ones that this program can train; parts are named as this program's
/// attentions name theirs, and rows of recent tokens are bf16. Keys that are missing have the
/// defaults of transformers' class, and a note says so; the configuration of the text in a
/// multimodal one is found. `as` names the type whose rules apply instead of `model_type`. Throws
/// DataError that names a key whose value cannot be, or that decides what a cache holds but that
/// the type's rules do not read; for an unknown type, with the type whose mechanism its keys tell.
ModelCache read_config_cache(const nlohmann::json& config, const std::string& as = "");

}  // namespace headcount
