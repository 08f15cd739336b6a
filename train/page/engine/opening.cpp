#include "train/page/engine/opening.h"

#include <algorithm>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/contents.h"

namespace headcount::page {

namespace {

bool is_weights(const File& file) {
  return file.name.ends_with(".safetensors") && file.name != "optimizer.safetensors";
}

std::string content(std::span<const File> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &File::name);
  if (found == files.end())
    throw DataError("there is no " + std::string(name) + " beside the weights; add it");
  return std::string(found->bytes);
}

}  // namespace

Opened open_checkpoint(std::span<const File> files) {
  std::vector<std::string> weights;
  for (const File& file : files) {
    if (is_weights(file)) weights.emplace_back(file.name);
  }
  const auto read = [&](const std::string& name) { return content(files, name); };
  Opened opened;
  opened.checkpoint = read_checkpoint(read, weights);
  const auto state = std::ranges::find(files, "trainer_state.json", &File::name);
  if (state != files.end()) opened.step = whole_number(parse_json(state->bytes), "step");
  return opened;
}

}  // namespace headcount::page
