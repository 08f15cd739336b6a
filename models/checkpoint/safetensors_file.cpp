#include "models/checkpoint/safetensors_file.h"

#include "autograd/base/files.h"
#include "models/checkpoint/durable.h"

namespace headcount {

Safetensors open_safetensors(const std::filesystem::path& path) {
  std::string content;
  read_pieces(path, [&](std::string_view piece) { content += piece; });  // an empty file is damaged
  return Safetensors::parse(std::move(content), path.string());
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  DurableFile file(path);
  file.write(safetensors_header(tensors, metadata));
  for (const TensorSource& tensor : tensors) file.write(bytes_of(tensor));
  file.flush();
}

}  // namespace headcount
