// The first line as a tokenizer.json, the rest as text.
#include "models/checkpoint/tokenizer.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "autograd/base/error.h"
#include "data/vocabulary.h"

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  const std::string_view rest = input.substr(std::min(line + 1, size));
  Vocabulary read;
  const auto json = nlohmann::json::parse(input.substr(0, line), nullptr, false);
  try {
    if (!json.is_discarded()) read = read_hugging_face_tokenizer(json);
    const std::string written = hugging_face_tokenizer(read).dump();
    if (read_hugging_face_tokenizer(nlohmann::json::parse(written)) != read) std::abort();
  } catch (const Error&) {
  }
  try {
    const Characters text = read_characters(rest, "fuzz");
    for (const Vocabulary& vocabulary : {Vocabulary::of({text.points}), read}) {
      std::vector<std::int32_t> tokens = text.points;
      vocabulary.encode(tokens);
      if (vocabulary.decode(tokens) != rest) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
