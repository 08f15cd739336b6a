#include "models/checkpoint/contents.h"

#include <nlohmann/json.hpp>

#include "autograd/base/json.h"
#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/tokenizer.h"

namespace headcount {

namespace {

// Reads the JSON in `text` with `read`; errors name the file.
template <class Read>
auto from_json(const std::string& text, const std::string& name, const Read& read) {
  try {
    return read(parse_json(text));
  } catch (const DataError& error) {
    throw DataError(name, ": ", error.what());
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> checkpoint_texts(const LanguageModel& model,
                                                                  const Vocabulary& vocabulary) {
  return {
      {kConfigFile, hugging_face_config(model.plan(), vocabulary.size()).dump(2) + "\n"},
      {kTokenizerFile, hugging_face_tokenizer(vocabulary).dump(2) + "\n"},
      {kTokenizerConfigFile, hugging_face_tokenizer_config(model.plan()->context).dump(2) + "\n"}};
}

std::string sum_line(const std::string& sha256, const std::string& name) {
  return sha256 + "  " + name + "\n";
}

Checkpoint read_checkpoint_texts(const std::string& config, const std::string& config_name,
                                 const std::string& tokenizer, const std::string& tokenizer_name) {
  const NamedConfig read = from_json(config, config_name, read_hugging_face_config);
  Checkpoint checkpoint;
  checkpoint.vocabulary = from_json(tokenizer, tokenizer_name, read_hugging_face_tokenizer);
  if (checkpoint.vocabulary.size() != read.vocabulary) {
    throw DataError(config_name, ": 'vocab_size' is ", read.vocabulary, ", but tokenizer.json has ",
                    checkpoint.vocabulary.size(), " tokens");
  }
  try {
    checkpoint.model = std::make_unique<LanguageModel>(read.model, read.vocabulary);
  } catch (const ShapeError& error) {
    throw DataError(config_name, ": ", error.what());
  }
  return checkpoint;
}

}  // namespace headcount
