#include "models/checkpoint/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "autograd/base/error.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

std::string tokenizer_refusal(const json& file) {
  return message_of<DataError>([&] { read_hugging_face_tokenizer(file); }, "accepted");
}

json written(const Vocabulary& vocabulary) {
  return json::parse(hugging_face_tokenizer(vocabulary).dump());
}

TEST(HuggingFaceTokenizer, GivesEveryVocabularyBack) {
  for (const char32_t* symbols :
       {U"\n abé€\U0001F600", U"zyx", U"\"\\{}", U" \u2581a", U"\u2581a"}) {
    const Vocabulary vocabulary{std::u32string(symbols)};
    EXPECT_EQ(read_hugging_face_tokenizer(written(vocabulary)), vocabulary);
  }
}

TEST(HuggingFaceTokenizer, WritesTheSpaceAsSentencePieceDoesUnlessTheTextHasThatCharacter) {
  const json file = written(Vocabulary(U"\n a"));
  EXPECT_EQ(file["model"]["vocab"], (json{{"\n", 0}, {"\u2581", 1}, {"a", 2}}));
  EXPECT_EQ(file["normalizer"]["content"], "\u2581");
  // What the converter of llama.cpp asks for.
  EXPECT_EQ(file["model"]["type"], "BPE");
  EXPECT_EQ(file["model"]["byte_fallback"], true);
  EXPECT_EQ(file["decoder"]["type"], "Sequence");
  const json plain = written(Vocabulary(U" \u2581"));
  EXPECT_EQ(plain["model"]["vocab"], (json{{" ", 0}, {"\u2581", 1}}));
  EXPECT_TRUE(plain["normalizer"].is_null());
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

TEST(HuggingFaceTokenizer, OfAnotherProgramIsRefusedByTheKeyThatDiffers) {
  // The last rows would be read as tokenizers of characters if the vocabulary alone counted.
  for (const auto& [pointer, value, part] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"/model/vocab", R"({"ab": 0})", "the token \"ab\""},
           {"/model/vocab", R"({"a": 1})", "'model.vocab' has 1 tokens and the id 1;"},
           {"/model/vocab", R"({"a": 0, "b": 0})", "and the id 0; ids must be"},
           {"/model/vocab", R"({"a": "x"})", "and the id \"x\"; ids must be"},
           {"/model/vocab", R"({" ": 0, "▁": 1})", "twice"},
           {"/model/type", R"("WordLevel")", "type' "},
           {"/model/merges", R"(["a b"])", "merges' "},
           {"/model/end_of_word_suffix", R"("</w>")", "end_of_word_suffix' "},
           {"/added_tokens", R"([{"id": 1, "content": "<s>"}])", "added_tokens' "},
           {"/pre_tokenizer", R"({"type": "Whitespace"})", "pre_tokenizer' "},
           {"/decoder", R"({"type": "Fuse"})", "decoder' "},
           {"/normalizer", R"({"type": "NFC"})", "headcount reads the tokenizers that it writes"},
           {"/post_processor", R"({"type": "ByteLevel"})", "post_processor' "},
           {"/post_processor", R"({"type": 3, "single": [1]})", "post_processor' "},
           {"/model/vocab", "[0]", "'model.vocab' is [0], but it must be an object"},
           {"/model", "3", "'model' is 3, but it must be an object"},
           {"", "{}", "'model' is missing"},
           {"", R"({"model": {}})", "'model.vocab' is missing"},
           {"", "[]", "it must be a JSON object, is []"},
           {"", "null", "it must be a JSON object, is null"},
           {"/normalizer", "null", "'decoder' is "}}) {  // it gives back spaces that nothing wrote
    json file = written(Vocabulary(U"\n a"));
    file[json::json_pointer(pointer)] = json::parse(value);
    EXPECT_NE(tokenizer_refusal(file).find(part), std::string::npos)
        << file << ": " << tokenizer_refusal(file);
  }
}

TEST(HuggingFaceTokenizerConfig, AddsNoTokenAndKnowsTheContext) {
  const json config = hugging_face_tokenizer_config(64);
  EXPECT_EQ(config["model_max_length"], 64);
  EXPECT_EQ(config["add_bos_token"], false);
  EXPECT_EQ(config["clean_up_tokenization_spaces"], false);
}

}  // namespace
}  // namespace headcount
