#include "models/checkpoint/tokenizer.h"

#include <algorithm>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

using nlohmann::json;

constexpr const char* kWhy =
    "headcount reads the tokenizers that it writes, whose every token is one character";
constexpr char32_t kUnderline = U'\u2581';  // what SentencePiece writes for a space

// Characters of the vocabulary in the order of their token ids.
std::u32string read_symbols(const json& tokens) {
  std::u32string symbols(tokens.size(), U'\0');
  std::vector<bool> taken(tokens.size());
  for (const auto& [text, number] : tokens.items()) {
    const std::u32string symbol = decode_utf8(text, "'model.vocab'");
    if (symbol.size() != 1)
      throw DataError("'model.vocab' has the token {}, but {}", shortened(json_text(text)), kWhy);
    const std::size_t token =
        number.is_number_unsigned() ? number.get<std::size_t>() : taken.size();
    if (token >= taken.size() || taken[token]) {
      throw DataError(
          "'model.vocab' has {} tokens and the id {}; ids must be 0, 1, 2, ..., each once",
          taken.size(), shortened(json_text(number)));
    }
    taken[token] = true;
    symbols[token] = symbol[0];
  }
  return symbols;
}

// The object that `file`, whose own place is `path` ("model."), has for `key`. Throws DataError.
const json& object_in(const json& file, const std::string& path, const std::string& key) {
  const auto found = file.find(key);
  if (found == file.end()) throw DataError("'{}{}' is missing", path, key);
  if (!found->is_object()) refuse(path + key, *found, "it must be an object");
  return *found;
}

// Throws DataError if `file` has another value of one of `keys` than `own`.
void require_alike(const json& file, const json& own, const std::string& path,
                   std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const json value = file.value(key, json());
    if (value != own.at(key)) refuse(path + key, value, kWhy);
  }
}

// Returns true if `value` is the post-processor that transformers 5 writes into every tokenizer: a
// template that adds nothing.
bool adds_nothing(const json& value) {
  const json single = value.is_object() ? value.value("single", json()) : json();
  return single.size() == 1 && value.value("type", json()) == "TemplateProcessing" &&
         single.front().contains("Sequence");
}

}  // namespace

nlohmann::ordered_json hugging_face_tokenizer(const Vocabulary& vocabulary) {
  using Json = nlohmann::ordered_json;
  // In transformers, too, a character outside the vocabulary is an error with such an unk_token.
  // llama.cpp recognises the format by byte_fallback.
  Json file = Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
              "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
              "byte_fallback": true, "ignore_merges": false, "vocab": {}, "merges": []}})");
  const std::u32string& symbols = vocabulary.symbols();
  const bool underlined = symbols.find(kUnderline) == std::u32string::npos;
  const std::string underline = encode_utf8({&kUnderline, 1});
  Json& tokens = file["model"]["vocab"];
  for (std::size_t token = 0; token < symbols.size(); ++token) {
    const std::string text = encode_utf8(symbols.substr(token, 1));
    tokens[underlined && text == " " ? underline : text] = token;
  }
  if (!underlined) return file;
  const auto replace = [](const std::string& from, const std::string& to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  file["normalizer"] = replace(" ", underline);
  Json& decoders = file["decoder"]["decoders"];
  decoders.insert(decoders.begin(), replace(underline, " "));
  return file;
}

nlohmann::ordered_json hugging_face_tokenizer_config(Index context) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"clean_up_tokenization_spaces", false},
          {"model_max_length", context},
          {"model_input_names", {"input_ids", "attention_mask"}},
          {"add_bos_token", false},
          {"add_eos_token", false},
          {"add_prefix_space", false}};
}

Vocabulary read_hugging_face_tokenizer(const json& file) {
  if (!file.is_object())
    throw DataError("it must be a JSON object, is {}", shortened(json_text(file)));
  const json& model = object_in(file, "", "model");
  std::u32string symbols = read_symbols(object_in(model, "model.", "vocab"));
  const bool underlined = !file.value("normalizer", json()).is_null();
  if (underlined) std::ranges::replace(symbols, kUnderline, U' ');
  Vocabulary vocabulary(std::move(symbols));
  json own = hugging_face_tokenizer(vocabulary);
  const json post_processor = file.value("post_processor", json());
  if (adds_nothing(post_processor)) own["post_processor"] = post_processor;
  require_alike(file, own, "",
                {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"});
  require_alike(model, own["model"], "model.",
                {"type", "merges", "continuing_subword_prefix", "end_of_word_suffix"});
  return vocabulary;
}

}  // namespace headcount
