// Bytes as a safetensors file.
#include "models/checkpoint/safetensors.h"

#include <cstdlib>

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Safetensors file = Safetensors::parse(std::as_bytes(std::span(data, size)), "fuzz");
    for (const TensorView& tensor : file.tensors()) {
      try {
        if (tensor.to_doubles().size() != tensor.element_count()) std::abort();
      } catch (const DataError&) {  // of a type that has no numbers for us
      }
      try {
        if (read_integers(tensor).size() != tensor.element_count()) std::abort();
      } catch (const DataError&) {  // nor these
      }
      if (&file.at(tensor.name) != &tensor) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
