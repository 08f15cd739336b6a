// Fuzzing targets: what reads flags and files. HEADCOUNT_FUZZ names the one that a process runs. An
// Error is how each refuses an input; any other exception and whatever aborts is a fault.
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/vocabulary.h"
#include "models/attention_spec.h"
#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/safetensors.h"
#include "models/checkpoint/tokenizer.h"
#include "models/cost/cost.h"
#include "train/cli/command_line.h"
#include "train/cli/training_flags.h"
#include "train/compare/variants.h"
#include "train/options.h"

namespace headcount {
namespace {

using nlohmann::json;

template <class Body>
void attempt(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

void require(bool holds) {
  if (!holds) std::abort();
}

// Bytes as a safetensors file.
void read_safetensors(std::string_view bytes) {
  const Safetensors file{std::string(bytes), "fuzz"};
  for (const TensorView& tensor : file.tensors()) {
    require(tensor.to_doubles().size() == tensor.element_count());
    require(&file.at(tensor.name) == &tensor);
  }
}

// JSON text as the config.json of a checkpoint and as settings of a run. No model is built.
void read_config(std::string_view text) {
  const json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) return;
  attempt([&] {
    const NamedConfig read = read_hugging_face_config(config);
    const std::string written = hugging_face_config(read.model, read.vocabulary).dump();
    const NamedConfig again = read_hugging_face_config(json::parse(written));
    require(again.model->settings == read.model->settings);
    require(again.vocabulary == read.vocabulary);
  });
  Given given(training_settings());
  given.put(config);
  const nlohmann::ordered_json options = to_json(resolve_training(given));
  const Given again(training_settings(), json::parse(options.dump()));
  require(to_json(resolve_training(again)) == options);
}

// The first line as a tokenizer.json, the rest as text.
void read_tokenizer(std::string_view input) {
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view rest = input.substr(std::min(line + 1, input.size()));
  Vocabulary read;
  attempt([&] {
    const json tokenizer = json::parse(input.substr(0, line), nullptr, false);
    if (!tokenizer.is_discarded()) read = read_hugging_face_tokenizer(tokenizer);
    const std::string written = hugging_face_tokenizer(read).dump();
    require(read_hugging_face_tokenizer(json::parse(written)) == read);
  });
  const Characters text = read_characters(rest, "fuzz");
  for (const Vocabulary& vocabulary : {Vocabulary::of({text.points}), read}) {
    std::vector<std::int32_t> tokens = text.points;
    vocabulary.encode(tokens);
    require(vocabulary.decode(tokens) == rest);
  }
}

// Text as a list of attentions, with what they cost, alone and in place of a model's, and as a
// score scale.
void read_attentions(std::string_view text) {
  attempt([&] {
    for (const AttentionSpec& spec : parse_attention_specs(text)) {
      const Given given(model_settings(), {{"attention", spec.text}});
      const CostRow row = cost_rows(resolve_model(given), spec.text, 100).front();
      ModelCache other = row.cache;
      other.heads = 4;
      rows_beside(other, spec.text, 100);
    }
  });
  const ScoreScale scale = ScoreScale::parse(text);
  require(ScoreScale::parse(scale.text()) == scale);
}

// Text, split at spaces and newlines, as the arguments of `headcount train`; each argument as what
// `headcount compare` takes besides.
void read_command_line(std::string_view text) {
  std::cout.rdbuf(nullptr);  // help goes nowhere
  std::istringstream words{std::string(text)};
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  for (const std::string& argument : arguments) {
    attempt([&] {
      const std::string match = Match::parse(argument).text();
      require(Match::parse(match).text() == match);
    });
    attempt([&] { require(Sweep::parse(argument).text() == argument); });
  }
  static const SettingList settings = [] {
    SettingList all = training_settings();
    add_settings(all, run_settings());
    return all;
  }();
  const CommandLine line = parse_command_line(arguments, {"train", "", ""}, settings,
                                              {{"preset", "", true}, {"force", "", false}});
  Given given(settings);
  if (line.has("preset")) given.put(preset(line.get("preset")).settings);
  put_flags(line, given);
  refuse_foreign(line, {resolve_training(given)});
}

void run(std::string_view input) {
  static const std::map<std::string, void (*)(std::string_view)> targets = {
      {"safetensors", read_safetensors},
      {"checkpoint_config", read_config},
      {"tokenizer", read_tokenizer},
      {"attention_spec", read_attentions},
      {"command_line", read_command_line}};
  static const auto target = targets.at(std::getenv("HEADCOUNT_FUZZ"));
  attempt([&] { target(input); });
}

}  // namespace
}  // namespace headcount

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headcount::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
