#pragma once

#include <nlohmann/json.hpp>

#include "data/vocabulary.h"

/// tokenizer.json and tokenizer_config.json of a Hugging Face model folder, as `tokenizers` and
/// `transformers` write and read them.
/// Source: huggingface.co/docs/tokenizers.

namespace headcount {

/// tokenizer.json of a character-level tokenizer, in the form that most programs read: BPE without
/// merges, a space written as U+2581 (unless the vocabulary has that character itself).
nlohmann::ordered_json hugging_face_tokenizer(const Vocabulary& vocabulary);

/// tokenizer_config.json of a model with a context of `context` tokens. No special token is put
/// before or after a text.
nlohmann::ordered_json hugging_face_tokenizer_config(Index context);

/// Reads the vocabulary from a tokenizer.json that this program wrote, also if transformers saved
/// it again. Throws DataError that names the key for any other tokenizer.
Vocabulary read_hugging_face_tokenizer(const nlohmann::json& json);

}  // namespace headcount
