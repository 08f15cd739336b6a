#include "models/checkpoint/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "autograd/base/error.h"

namespace headcount {
namespace {

using nlohmann::json;

std::string tokenizer_refusal(const json& file) {
  try {
    read_hugging_face_tokenizer(file);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_text(const std::string& text) {
  return tokenizer_refusal(json::parse(text));
}

json written(const Vocabulary& vocabulary) {
  return json::parse(hugging_face_tokenizer(vocabulary).dump());
}

// The form that this project wrote before llama.cpp was to read it.
json word_level() {
  return json::parse(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null,
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated",
                      "invert": false},
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "WordLevel", "vocab": {"\n": 0, " ": 1, "a": 2}, "unk_token": "<unk>"}})");
}

TEST(HuggingFaceTokenizer, GivesEveryVocabularyBack) {
  for (const char32_t* symbols :
       {U"\n abé€\U0001F600", U"zyx", U"\"\\{}", U" \u2581a", U"\u2581a", U"\u00a0 "}) {
    const Vocabulary vocabulary{std::u32string(symbols)};
    EXPECT_EQ(read_hugging_face_tokenizer(written(vocabulary)), vocabulary);
  }
}

TEST(HuggingFaceTokenizer, WritesTheSpaceAsSentencePieceDoes) {
  const json file = written(Vocabulary(U"\n a"));
  EXPECT_EQ(file["model"]["vocab"], (json{{"\n", 0}, {"\u2581", 1}, {"a", 2}}));
  EXPECT_EQ(file["normalizer"]["content"], "\u2581");
  // What the converter of llama.cpp asks for.
  EXPECT_EQ(file["model"]["type"], "BPE");
  EXPECT_EQ(file["model"]["byte_fallback"], true);
  EXPECT_EQ(file["decoder"]["type"], "Sequence");
}

TEST(HuggingFaceTokenizer, LeavesTheSpaceWhereTheTextHasThatCharacter) {
  const json file = written(Vocabulary(U" \u2581"));
  EXPECT_EQ(file["model"]["vocab"], (json{{" ", 0}, {"\u2581", 1}}));
  EXPECT_TRUE(file["normalizer"].is_null());
}

TEST(HuggingFaceTokenizer, OfWordsThatAreCharactersIsRead) {
  EXPECT_EQ(read_hugging_face_tokenizer(word_level()), Vocabulary(U"\n a"));
}

// transformers 5 writes a template into every tokenizer that it saves.
TEST(HuggingFaceTokenizer, SavedAgainByTransformersIsRead) {
  json file = written(Vocabulary(U"\n a"));
  file["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {}})");
  EXPECT_EQ(read_hugging_face_tokenizer(file), Vocabulary(U"\n a"));
  file["post_processor"]["single"].insert(
      file["post_processor"]["single"].begin(),
      json::parse(R"({"SpecialToken": {"id": "<s>", "type_id": 0}})"));
  EXPECT_NE(tokenizer_refusal(file).find("'post_processor'"), std::string::npos)
      << tokenizer_refusal(file);
}

TEST(HuggingFaceTokenizer, RefusesWhatIsNotOneCharacterEach) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"model": {"vocab": {"ab": 0}}})", "the token \"ab\""},
      {R"({"model": {"vocab": {"": 0}}})", "the token \"\""},
      {R"({"model": {"vocab": {"a": 1}}})", "'model.vocab' has 1 tokens and the id 1;"},
      {R"({"model": {"vocab": {"a": 0, "b": 0}}})", "and the id 0; ids must be"},
      {R"({"model": {"vocab": {"a": -1}}})", "and the id -1; ids must be"},
      {R"({"model": {"vocab": {"a": "x"}}})", "and the id \"x\"; ids must be"},
      {R"({"model": {"vocab": {"a": 0}, "merges": ["a b"]}})", "'model.merges'"},
      {R"({"model": {"vocab": {"a": 0}}, "normalizer": {"type": "NFC"}})", "'normalizer'"},
      {R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})", "'pre_tokenizer'"},
      {R"({"model": {"type": "Unigram", "vocab": {"a": 0}}})", "'model.type'"},
      {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "end_of_word_suffix": "</w>"}})",
       "'model.end_of_word_suffix'"},
      {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "<s>"}]})",
       "'added_tokens'"},
      {R"({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "a"}]})",
       "'added_tokens'"},
      {R"({"model": {}})", "vocab"},
      {R"({})", "model"},
      {R"([])", ""},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(refusal_of_text(text), "accepted") << text;
    EXPECT_NE(refusal_of_text(text).find(part), std::string::npos)
        << text << ": " << refusal_of_text(text);
  }
}

// Each of these would be read as a tokenizer of characters if only its vocabulary counted.
TEST(HuggingFaceTokenizer, RefusesTextsThatAreCutOrJoinedOtherwise) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"pre_tokenizer", R"({"type": "Whitespace"})"},
      {"pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": false})"},
      {"pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})"},
      {"pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Removed"})"},
      {"pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"})"},
      {"pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "Digits"}]})"},
      {"decoder", R"({"type": "ByteLevel"})"},
      {"decoder", R"({"type": "Metaspace", "replacement": "▁"})"},
      {"decoder", R"({"type": "WordPiece", "prefix": "##"})"},
      {"decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip"}]})"},
      {"decoder", R"({"type": "Replace", "pattern": {"String": "a"}, "content": " "})"},
      {"decoder", R"("Fuse")"},
      {"normalizer", R"({"type": "Prepend", "prepend": "▁"})"},
      {"normalizer", R"({"type": "Replace", "pattern": {"String": "a"}, "content": "b"})"},
      {"post_processor", R"({"type": "ByteLevel"})"},
  };
  for (const json& base : {word_level(), written(Vocabulary(U"\n a"))}) {
    for (const auto& [key, value] : cases) {
      json file = base;
      file[key] = json::parse(value);
      EXPECT_NE(tokenizer_refusal(file).find("'" + key + "'"), std::string::npos)
          << value << ": " << tokenizer_refusal(file);
    }
  }
  json one_way = written(Vocabulary(U"\n a"));
  one_way["decoder"] = {{"type", "Fuse"}};
  EXPECT_NE(tokenizer_refusal(one_way).find("'decoder'"), std::string::npos)
      << tokenizer_refusal(one_way);
  json both = written(Vocabulary(U"\n a"));
  both["model"]["vocab"][" "] = 3U;  // as what is parsed
  EXPECT_NE(tokenizer_refusal(both).find("has a space"), std::string::npos)
      << tokenizer_refusal(both);
}

TEST(HuggingFaceTokenizerConfig, AddsNoTokenAndKnowsTheContext) {
  const json config = hugging_face_tokenizer_config(64);
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["model_max_length"], 64);
  EXPECT_EQ(config["clean_up_tokenization_spaces"], false);
  EXPECT_EQ(config["model_input_names"], (json{"input_ids", "attention_mask"}));
  EXPECT_EQ(config["add_bos_token"], false);
}

}  // namespace
}  // namespace headcount
