#include "data/encoded_file.h"

#include <system_error>

#include "autograd/base/files.h"

namespace headcount {

EncodedText encode_file(const std::filesystem::path& path) {
  std::error_code none;  // a pipe has no size
  const std::uintmax_t size = std::filesystem::file_size(path, none);
  TextEncoder encoder(none ? 0 : size);
  std::string sha256 = read_text(path, [&](std::u32string_view piece) { encoder.add(piece); });
  return std::move(encoder).finish(std::move(sha256));
}

}  // namespace headcount
