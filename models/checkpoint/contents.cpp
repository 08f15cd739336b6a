#include "models/checkpoint/contents.h"

#include <charconv>

#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/tokenizer.h"

namespace headcount {

std::vector<std::pair<std::string, std::string>> checkpoint_texts(const LanguageModel& model,
                                                                  const Vocabulary& vocabulary) {
  return {
      {kConfigFile, hugging_face_config(model.plan(), vocabulary.size()).dump(2) + "\n"},
      {kTokenizerFile, hugging_face_tokenizer(vocabulary).dump(2) + "\n"},
      {kTokenizerConfigFile, hugging_face_tokenizer_config(model.plan()->context).dump(2) + "\n"}};
}

std::optional<Index> step_in(std::string_view path) {
  constexpr std::string_view kPrefix = "step-";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Index step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc{} && rest == end ? std::optional(step) : std::nullopt;
}

std::string sum_line(const std::string& sha256, const std::string& name) {
  return sha256 + "  " + name + "\n";
}

Checkpoint read_checkpoint_texts(const std::string& config, const std::string& config_name,
                                 const std::string& tokenizer, const std::string& tokenizer_name) {
  const NamedConfig read = read_json(config, config_name, read_hugging_face_config);
  Checkpoint checkpoint;
  checkpoint.vocabulary = read_json(tokenizer, tokenizer_name, read_hugging_face_tokenizer);
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
