#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"

/// Reading and writing of safetensors files: 8 bytes of little-endian header length, a JSON header
/// {"name": {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, ...} of at most
/// 100,000,000 bytes, then the tensors' numbers, little-endian and row-major.
/// Source: https://github.com/huggingface/safetensors#format. Where the format leaves a choice, the
/// reader takes the strict one: a file is either exactly right or refused.

namespace headcount {

/// Number types of the format, all of them. fN_eA_mB has N bits; f4 and f6 are packed.
// clang-format off
enum class Dtype {
  boolean, f4, f6_e2m3, f6_e3m2, u8, i8, f8_e5m2, f8_e4m3, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz,
  i16, u16, f16, bf16, i32, u32, f32, c64, f64, i64, u64
};
// clang-format on

/// The name in a header: "F32".
std::string_view dtype_name(Dtype dtype);

/// A tensor in a file. The bytes belong to the `Safetensors` (or to the memory that was parsed) and
/// may lie at any address, aligned or not.
struct TensorView {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;   ///< empty for a scalar; an extent of 0 makes an empty tensor
  std::span<const std::byte> bytes;  ///< exactly the shape's numbers
  std::string source;                ///< the file, for messages

  /// The product of the shape.
  std::size_t element_count() const;

  /// The numbers without rounding; for f16, bf16, f32, f64 and integers up to 32 bits. Throws
  /// DataError for other types.
  std::vector<double> to_doubles() const;
};

/// Copies f16, bf16, f32 or f64 numbers to `target`, which has as many numbers. Only f64 to float
/// rounds; equal types keep every bit, NaN payloads too. Throws DataError for another size or type.
void read_into(const TensorView& tensor, std::span<float> target);
void read_into(const TensorView& tensor, std::span<double> target);

/// The numbers of an i64 tensor or of one with integers up to 32 bits. Throws DataError for others.
std::vector<std::int64_t> read_integers(const TensorView& tensor);

/// A parsed file. Copies share the mapped file; views stay valid while one copy lives.
class Safetensors {
 public:
  /// Maps the file read-only; numbers are read from the disk as they are used. The file must not
  /// shrink meanwhile. Throws DataError for a file that cannot be read or is not valid.
  static Safetensors open(const std::filesystem::path& path);

  /// Parses `bytes`, which must outlive the result; `source` is their name in messages.
  /// Throws DataError.
  static Safetensors parse(std::span<const std::byte> bytes, std::string source);

  /// Joins the tensors of several files, in the order of the files; `source` names the result in
  /// messages. Throws DataError for a tensor name that two files have.
  static Safetensors join(std::span<const Safetensors> files, std::string source);

  /// The tensor of that name. Throws DataError, naming file and tensor, if the file has none.
  const TensorView& at(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(name); }

  /// All tensors, in the order of their bytes in the file.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::vector<std::shared_ptr<const void>> mappings_;
  std::string source_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> place in tensors_
  std::map<std::string, std::string> metadata_;
};

/// A tensor to write; `data` points to the shape's numbers, row-major, and is not copied.
struct TensorSource {
  std::string name;
  std::vector<std::int64_t> shape;
  Dtype dtype;
  const void* data;
};

/// Writes a safetensors file, tensors in the given order, and flushes it to the disk. The numbers
/// start at a multiple of 8 bytes; give wide types first to keep all of them aligned.
/// The file is not replaced atomically: write it inside `publish_folder`.
/// Throws DataError for names, shapes or metadata that the format cannot hold, WriteError for the
/// disk.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace headcount
