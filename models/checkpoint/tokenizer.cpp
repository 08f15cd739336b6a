#include "models/checkpoint/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/json.h"
#include "autograd/base/utf8.h"

namespace headcount {

namespace {

using nlohmann::json;

constexpr char32_t kUnderline = U'\u2581';  // what SentencePiece writes for a space

// The value of `key`; null if there is none.
json value_of(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}

// Steps of a normalizer, pre-tokenizer or decoder: those under `key` if it is a Sequence, otherwise
// the step itself. Empty if it is null.
json parts_of(const json& part, const char* key) {
  if (part.is_null()) return json::array();
  return value_of(part, "type") == "Sequence" ? part.at(key) : json::array({part});
}

std::u32string text_of(const json& value) {
  return value.is_string() ? decode_utf8(value.get<std::string>(), "a text in it") : U"";
}

// Returns true if `step` replaces the string `from`.
bool replaces(const json& step, const std::string& from) {
  return value_of(step, "type") == "Replace" && value_of(step, "pattern") == json{{"String", from}};
}

// Character that the normalizer writes for a space; a space if there is no normalizer.
char32_t written_space(const json& normalizer) {
  char32_t space = U' ';
  for (const json& part : parts_of(normalizer, "normalizers")) {
    const std::u32string content = text_of(value_of(part, "content"));
    if (!replaces(part, " ") || content.size() != 1 || space != U' ')
      refuse("normalizer", part, "text is taken as it is here, but for how a space is written");
    space = content[0];
  }
  return space;
}

// Returns true if the pre-tokenizer cuts texts into single characters, false if there is none.
// Throws DataError for a pre-tokenizer that changes texts or cuts them otherwise.
bool cuts_characters(const json& pre_tokenizer) {
  const json parts = parts_of(pre_tokenizer, "pretokenizers");
  for (const json& part : parts) {
    const json pattern = value_of(value_of(part, "pattern"), "Regex");
    const bool any = pattern == "[\\s\\S]" || pattern == "(?s)." || pattern == "(?s:.)";
    if (value_of(part, "type") != "Split" || !any || value_of(part, "behavior") != "Isolated")
      refuse("pre_tokenizer", part,
             "headcount needs tokenizers whose every token is one character");
  }
  return !parts.empty();
}

// Throws DataError for a post-processor that changes the text. The template that transformers 5
// writes into every tokenizer does not.
void check_post_processor(const json& post_processor) {
  const json single = value_of(post_processor, "single");
  if (!post_processor.is_null() &&
      (value_of(post_processor, "type") != "TemplateProcessing" || single.size() != 1 ||
       !value_of(single.front(), "Sequence").is_object()))
    refuse("post_processor", post_processor, "texts are taken as they are here");
}

void check_decoder(const json& decoder, char32_t space) {
  bool gives_spaces_back = space == U' ' || decoder.is_null();
  for (const json& part : parts_of(decoder, "decoders")) {
    const json type = value_of(part, "type");
    if (type == "Fuse" || type == "ByteFallback") continue;
    if (!replaces(part, encode_utf8({&space, 1})) || value_of(part, "content") != " ")
      refuse("decoder", part, "characters side by side are the text here");
    gives_spaces_back = true;
  }
  if (!gives_spaces_back)
    refuse("decoder", decoder, "'normalizer' writes spaces as another character");
}

// Characters of the vocabulary in the order of their token ids.
std::u32string read_symbols(const json& tokens) {
  std::u32string symbols(tokens.size(), U'\0');
  std::vector<bool> taken(tokens.size());
  for (const auto& [text, number] : tokens.items()) {
    const std::u32string symbol = decode_utf8(text, "'model.vocab'");
    if (symbol.size() != 1) {
      throw DataError("'model.vocab' has the token ", json(text).dump(),
                      ", but headcount needs tokenizers whose every token is one character");
    }
    const std::size_t place =
        number.is_number_unsigned() ? number.get<std::size_t>() : taken.size();
    if (place >= taken.size() || taken[place]) {
      throw DataError("'model.vocab' has ", taken.size(), " tokens and the id ", number.dump(),
                      "; ids must be 0, 1, 2, ..., each once");
    }
    taken[place] = true;
    symbols[place] = symbol[0];
  }
  return symbols;
}

// Throws DataError for a tokenizer model that does not make one token of each character. `cut`: the
// pre-tokenizer has cut texts into characters.
void check_model(const json& model, bool cut) {
  const json type = value_of(model, "type");
  if (!value_of(model, "merges").empty())
    throw DataError(
        "'model.merges' is not empty, but headcount needs tokenizers whose every token is one "
        "character");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json value = value_of(model, key);
    if (!value.is_null() && value != "")
      refuse("model." + std::string(key), value,
             "headcount needs tokenizers whose every token is one character");
  }
  if (type == "BPE" || (type == "WordLevel" && cut)) return;
  if (type != "WordLevel") refuse("model.type", type, "known are BPE and WordLevel");
  throw DataError("'pre_tokenizer' does not cut texts into characters, as WordLevel needs");
}

// Throws DataError for an added token that is no character of the vocabulary.
void check_added(const json& added, const std::u32string& symbols) {
  for (const json& token : added) {
    const std::u32string text = text_of(value_of(token, "content"));
    const json place = value_of(token, "id");
    if (text.size() != 1 || !place.is_number_unsigned() ||
        symbols.find(text[0]) != place.get<std::size_t>()) {
      refuse("added_tokens", token, "every token is one character of 'model.vocab' here");
    }
  }
}

}  // namespace

nlohmann::ordered_json hugging_face_tokenizer(const Vocabulary& vocabulary) {
  using Json = nlohmann::ordered_json;
  const std::u32string& symbols = vocabulary.symbols();
  const bool underlined = symbols.find(kUnderline) == std::u32string::npos;
  const std::string underline = encode_utf8({&kUnderline, 1});
  Json tokens = Json::object();
  for (std::size_t token = 0; token < symbols.size(); ++token) {
    const std::string text = encode_utf8(symbols.substr(token, 1));
    tokens[underlined && text == " " ? underline : text] = token;
  }
  const auto replace = [](const std::string& from, const std::string& to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  Json decoders = Json::array();
  if (underlined) decoders.push_back(replace(underline, " "));
  for (const char* type : {"ByteFallback", "Fuse"}) decoders.push_back({{"type", type}});
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", underlined ? replace(" ", underline) : Json()},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            // In transformers, too, a character outside the vocabulary is then an error.
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", true},  // llama.cpp recognises the format by it
            {"ignore_merges", false},
            {"vocab", tokens},
            {"merges", Json::array()}}}};
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
  try {
    const json& model = file.at("model");
    std::u32string symbols = read_symbols(model.at("vocab"));
    check_added(value_of(file, "added_tokens"), symbols);
    const char32_t space = written_space(value_of(file, "normalizer"));
    check_model(model, cuts_characters(value_of(file, "pre_tokenizer")));
    check_post_processor(value_of(file, "post_processor"));
    check_decoder(value_of(file, "decoder"), space);
    if (space != U' ' && symbols.find(U' ') != std::u32string::npos)
      throw DataError("'model.vocab' has a space, but 'normalizer' writes it as another character");
    std::ranges::replace(symbols, space, U' ');
    return Vocabulary(std::move(symbols));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(error.what());
  }
}

}  // namespace headcount
