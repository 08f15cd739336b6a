#include "data/encoded_file.h"

#include <system_error>

#include "autograd/base/files.h"

namespace headcount {

EncodedText encode_file(const std::filesystem::path& path, bool unix_newlines,
                        const std::filesystem::path& second) {
  const auto size = [](const std::filesystem::path& file) {
    std::error_code none;  // a pipe has no size
    const std::uintmax_t bytes = std::filesystem::file_size(file, none);
    return none ? 0 : bytes;
  };
  TextEncoder encoder(size(path) + size(second), unix_newlines);
  const auto add = [&](std::u32string_view piece) { encoder.add(piece); };
  std::string sha256 = read_text(path, add);
  if (second.empty()) return std::move(encoder).finish(std::move(sha256));
  const std::size_t first = encoder.end_file();
  sha256 += "+" + read_text(second, add);
  EncodedText text = std::move(encoder).finish(std::move(sha256));
  text.first = first;
  return text;
}

}  // namespace headcount
