#pragma once

#include <nlohmann/json.hpp>

#include "data/vocabulary.h"

/// tokenizer.json and tokenizer_config.json of a Hugging Face model folder, as `tokenizers` and
/// `transformers` write and read them.
/// Source: huggingface.co/docs/tokenizers.

namespace headcount {

/// tokenizer.json: every character is a token of its own, in the form that most programs read: BPE
/// without merges, the space written as U+2581 (unless the vocabulary has that character itself).
nlohmann::ordered_json hugging_face_tokenizer(const Vocabulary& vocabulary);

/// tokenizer_config.json of a model with such a context: no token is put before or after a text.
nlohmann::ordered_json hugging_face_tokenizer_config(Index context);

/// The vocabulary of such a tokenizer.json, made here or elsewhere. Throws DataError that names the
/// key, for a tokenizer that does not make one token of each character and the same text of these
/// tokens, and unless tokens are numbered 0, 1, 2, ...
Vocabulary read_hugging_face_tokenizer(const nlohmann::json& json);

}  // namespace headcount
