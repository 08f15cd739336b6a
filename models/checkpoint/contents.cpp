#include "models/checkpoint/contents.h"

#include <set>

#include "autograd/base/text.h"
#include "autograd/checks/trap.h"
#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/tokenizer.h"

namespace headcount {

std::map<std::string, std::string> checkpoint_files(const LanguageModel& model,
                                                    const Vocabulary& vocabulary,
                                                    Documents documents) {
  const ParameterStore& parameters = model.parameters();
  std::vector<TensorSource> weights;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::span<const Real> value = parameters.value({i});
    if (const auto wrong = non_finite(value))
      throw NonFiniteError("{} {}; no checkpoint is saved", parameters.name({i}), *wrong);
    weights.push_back(
        {parameters.name({i}), parameters.shape({i}).extents(), kRealDtype, value.data()});
  }
  return {
      {kConfigFile, hugging_face_config(model.plan(), vocabulary.size(), documents).dump(2) + "\n"},
      {kTokenizerFile, hugging_face_tokenizer(vocabulary).dump(2) + "\n"},
      {kTokenizerConfigFile, hugging_face_tokenizer_config(model.plan()->context).dump(2) + "\n"},
      // transformers asks for the framework that wrote the weights.
      {kWeightsFile, safetensors_of(weights, {{"format", "pt"}})}};
}

namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

void check_shapes_and_types(const Safetensors& file, const ParameterStore& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    const auto expected = parameters.shape({i}).extents();
    if (tensor.shape != expected) {
      throw DataError("{}: {} has shape {}, the configuration wants {}", tensor.source, tensor.name,
                      nlohmann::json(tensor.shape).dump(), nlohmann::json(expected).dump());
    }
    require_floating_point(tensor);
  }
}

// Throws DataError for a tensor that is no parameter of the model, unless it carries no information
// of its own (see read_weights).
void check_left_over(const Safetensors& file, const ParameterStore& parameters) {
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < parameters.size(); ++i) known.insert(parameters.name({i}));
  for (const TensorView& tensor : file.tensors()) {
    if (known.contains(tensor.name) || tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    if (tensor.name == kHead) {
      const TensorView& embedding = file.at(kEmbedding);
      if (tensor.shape == embedding.shape && tensor.to_doubles() == embedding.to_doubles())
        continue;
      throw DataError(
          "{}: {} differs from {}, but config.json ties both; set 'tie_word_embeddings' to false "
          "there",
          tensor.source, kHead, kEmbedding);
    }
    throw DataError(
        "{}: {} is no weight of the configured model; use the config.json of these weights",
        tensor.source, headcount::quoted(tensor.name));
  }
}

}  // namespace

void read_weights(const Safetensors& file, ParameterStore& parameters, NonFinite allowed) {
  check_shapes_and_types(file, parameters);
  check_left_over(file, parameters);
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    read_into(tensor, parameters.value({i}));
    const auto wrong = non_finite(parameters.value({i}));
    if (wrong && allowed == NonFinite::refused)
      throw DataError("{}: {} {}; take another checkpoint", tensor.source, tensor.name, *wrong);
  }
}

Checkpoint read_checkpoint(const ReadFile& read, std::span<const std::string> weights,
                           const std::string& folder, NonFinite allowed) {
  const std::string config = folder + kConfigFile;
  const NamedConfig named =
      read_json(read(kConfigFile), config, read_hugging_face_config, NonFinite::allowed);
  Checkpoint checkpoint;
  checkpoint.documents = named.documents;
  checkpoint.vocabulary =
      read_json(read(kTokenizerFile), folder + kTokenizerFile, read_hugging_face_tokenizer);
  if (checkpoint.vocabulary.size() != named.vocabulary) {
    throw DataError("{}: 'vocab_size' is {}, but tokenizer.json has {} tokens", config,
                    named.vocabulary, checkpoint.vocabulary.size());
  }
  checkpoint.model = named_error<DataError, ShapeError>(
      config, [&] { return std::make_unique<LanguageModel>(named.model, named.vocabulary); });
  Safetensors all;
  for (const std::string& name : weights) all.add(read(name), folder + name);
  read_weights(all, checkpoint.model->parameters(), allowed);
  return checkpoint;
}

}  // namespace headcount
