// JSON text as the config.json of a checkpoint and as that of a run. No model is built.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/checkpoint/hugging_face.h"
#include "train/options.h"

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return 0;
  try {
    const NamedConfig read = read_hugging_face_config(json);
    const std::string written = hugging_face_config(read.model, read.vocabulary).dump();
    const NamedConfig again = read_hugging_face_config(nlohmann::json::parse(written));
    if (again.model->settings != read.model->settings) std::abort();
    if (again.vocabulary != read.vocabulary) std::abort();
  } catch (const Error&) {
  }
  try {
    Given given(training_settings());
    given.put(json);
    const nlohmann::ordered_json options = to_json(resolve_training(given));
    const Given again(training_settings(), nlohmann::json::parse(options.dump()));
    if (to_json(resolve_training(again)) != options) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
