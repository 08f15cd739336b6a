#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

/// Reading and writing of safetensors files: 8 bytes of little-endian header length, a JSON header
/// {"name": {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, ...}, then the tensors'
/// numbers, little-endian and row-major.
/// Source: https://github.com/huggingface/safetensors#format.

namespace headcount {

/// Number types that this program reads; the format has more.
enum class Dtype { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64 };

inline constexpr Dtype kRealDtype = sizeof(Real) == sizeof(double) ? Dtype::f64 : Dtype::f32;

/// Tensor in a file. The bytes belong to the `Safetensors` and may lie at any address, aligned or
/// not.
struct TensorView {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;   ///< empty for a scalar
  std::span<const std::byte> bytes;  ///< exactly the shape's numbers
  std::string source;                ///< the file, for messages

  std::size_t element_count() const;  ///< product of the shape
  /// The numbers as doubles; only integers beyond 2^53 are rounded.
  std::vector<double> to_doubles() const;
};

/// Throws DataError if the tensor holds integers.
void require_floating_point(const TensorView& tensor);

/// Copies f16, bf16, f32 or f64 numbers to `target`. Only f64 to float rounds; equal types keep
/// every bit. Throws DataError if the sizes differ or the tensor holds integers.
void read_into(const TensorView& tensor, std::span<Real> target);

/// Tensors of one parsed file, or of several. Copies share the bytes.
class Safetensors {
 public:
  Safetensors() = default;  ///< no tensors
  /// The tensors of one file: see `add`.
  Safetensors(std::string bytes, const std::string& source) { add(std::move(bytes), source); }

  /// Parses `bytes` and keeps them; `source` names them in messages. Throws DataError, also for a
  /// tensor that another file has, too.
  void add(std::string bytes, const std::string& source);

  /// The tensor of that name. Throws DataError, naming file and tensor, if the file has none.
  const TensorView& at(std::string_view name) const;
  bool contains(std::string_view name) const;

  /// All tensors: of each file in the order of their bytes.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::vector<std::shared_ptr<const std::string>> files_;
  std::string sources_;  // for messages
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;  // of the last file that has any
};

/// Tensor to write; `data` points to the shape's numbers, row-major, and is not copied.
struct TensorSource {
  std::string name;  ///< UTF-8, unique in the file
  std::vector<std::int64_t> shape;
  Dtype dtype;
  const void* data;
};

/// The bytes of a safetensors file with `tensors` in the given order. The numbers start at a
/// multiple of 8 bytes; give wide types first to keep all of them aligned.
std::string safetensors_of(std::span<const TensorSource> tensors,
                           const std::map<std::string, std::string>& metadata = {});

}  // namespace headcount
