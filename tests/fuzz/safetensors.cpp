// Bytes as a safetensors file.
#include "models/checkpoint/safetensors.h"

#include <cstdlib>

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Safetensors file({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const TensorView& tensor : file.tensors()) {
      if (tensor.to_doubles().size() != tensor.element_count()) std::abort();
      if (&file.at(tensor.name) != &tensor) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
