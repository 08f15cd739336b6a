#include "models/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "models/checkpoint/durable.h"

namespace headcount {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

constexpr std::uint64_t header_limit = 100'000'000;
constexpr std::size_t length_bytes = 8;
constexpr std::string_view metadata_key = "__metadata__";

struct DtypeInfo {
  std::string_view name;
  std::uint64_t bits;
};

// Names and sizes of the number types, in the order of the enumeration.
constexpr auto dtype_infos = std::to_array<DtypeInfo>(
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}});
static_assert(dtype_infos.size() == static_cast<std::size_t>(Dtype::u64) + 1);

const DtypeInfo& info_of(Dtype dtype) { return dtype_infos.at(static_cast<std::size_t>(dtype)); }

// `name` as JSON text: one line whatever it holds, and short enough for a message.
std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 120;
  return json(name.substr(0, longest)).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return json(shape).dump(); }

// Number of bytes of a tensor; empty if it is not a whole number or does not fit into 64 bits.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, Dtype dtype) {
  std::uint64_t bits = info_of(dtype).bits;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

[[noreturn]] void throw_damaged(const std::string& source, const std::string& what) {
  throw DataError(source + ": " + what + "; the file is damaged: copy or export it again");
}

struct Entry {
  TensorView tensor;
  std::uint64_t begin, end;  // in bytes after the header
};

// The header as a tree, refusing on the way what the tree would no longer show (a key given twice)
// or would take much memory to show (deep nesting). Throws DataError.
json parse_header(std::string_view text, const std::string& source) {
  std::array<std::set<std::string>, 2> keys;  // of the header, and of the object inside
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if ((event == json::parse_event_t::object_start && depth > 1) ||
        (event == json::parse_event_t::array_start && depth != 2)) {
      throw_damaged(source, "header has an object or array in the wrong place");
    }
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) keys.at(level).clear();
    if (event == json::parse_event_t::key) {
      const std::string key = parsed.get<std::string>();
      if (!keys.at(level - 1).insert(key).second) {
        throw_damaged(source, "header has " + in_quotes(key) + " twice");
      }
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception&) {
    throw_damaged(source, "header is not valid JSON");
  }
}

bool is_list_of_sizes(const json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const json& item) {
           return item.is_number_unsigned() &&
                  std::in_range<std::int64_t>(item.get<std::uint64_t>());
         });
}

Entry read_entry(const std::string& name, const json& fields, const std::string& source) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) throw_damaged(source, "tensor " + in_quotes(name) + " " + what);
  };
  require(fields.is_object() && fields.size() == 3 && fields.contains("dtype") &&
              fields.contains("shape") && fields.contains("data_offsets"),
          "needs dtype, shape, data_offsets and nothing else");
  const json &dtype = fields["dtype"], &shape = fields["shape"], &offsets = fields["data_offsets"];
  const std::string dtype_text = dtype.is_string() ? dtype.get<std::string>() : "";
  const auto info = std::ranges::find(dtype_infos, dtype_text, &DtypeInfo::name);
  require(info != dtype_infos.end(), "has the unknown dtype " + in_quotes(dtype_text));
  require(is_list_of_sizes(shape), "has a shape that is not a list of sizes");
  require(is_list_of_sizes(offsets) && offsets.size() == 2, "has data_offsets that are not a pair");
  const auto known_dtype = static_cast<Dtype>(info - dtype_infos.begin());
  TensorView tensor{name, known_dtype, shape.get<std::vector<std::int64_t>>(), {}, source};
  return {std::move(tensor), offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
}

std::map<std::string, std::string> read_metadata(const json& fields, const std::string& source) {
  try {
    return fields.get<std::map<std::string, std::string>>();
  } catch (const json::type_error&) {
    throw_damaged(source, "__metadata__ does not map text to text");
  }
}

// Throws unless the entries, ordered by offset, cover `available` bytes without gap or overlap.
void check_layout(const std::vector<Entry>& entries, std::uint64_t available,
                  const std::string& source) {
  std::uint64_t expected = 0;
  for (const auto& [tensor, begin, end] : entries) {
    const std::string place = "bytes " + std::to_string(begin) + " to " + std::to_string(end);
    const auto require = [&, &tensor = tensor](bool condition, const std::string& what) {
      if (condition) return;
      throw_damaged(source, "tensor " + in_quotes(tensor.name) + ", shape " +
                                shape_text(tensor.shape) + ", at " + place + ", " + what);
    };
    const std::optional<std::uint64_t> wanted = byte_count(tensor.shape, tensor.dtype);
    require(begin <= end, "ends before it begins");
    require(begin <= expected, "follows a gap");
    require(begin >= expected, "overlaps another tensor");
    require(wanted.has_value(), "has an impossible shape");
    require(*wanted == end - begin, "needs " + std::to_string(*wanted) + " bytes");
    require(end <= available, "is cut off after byte " + std::to_string(available));
    expected = end;
  }
  if (expected != available) {
    throw_damaged(source, std::to_string(available - expected) + " bytes follow the last tensor");
  }
}

// A number as it lies in a file, at any alignment.
template <class Stored>
Stored load(const std::byte* place) {
  Stored number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

// The header's JSON text, checked as far as text can be. Throws DataError.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& source) {
  if (bytes.size() < length_bytes) throw_damaged(source, "too short for a safetensors file");
  const std::uint64_t length = load<std::uint64_t>(bytes.data());
  const std::size_t available = bytes.size() - length_bytes;
  if (length > header_limit) {
    throw_damaged(source, "header of " + std::to_string(length) + " bytes is over the limit");
  }
  if (length > available) {
    throw_damaged(source, "header is cut off after " + std::to_string(available) + " of " +
                              std::to_string(length) + " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + length_bytes, length);
  if (!text.starts_with('{')) throw_damaged(source, "header does not begin with {");
  // The JSON library takes a zero byte for the end of its input, and would not see what follows.
  if (text.find('\0') != std::string_view::npos) throw_damaged(source, "header has a zero byte");
  if (text[text.find_last_not_of(' ')] != '}') throw_damaged(source, "header does not end with }");
  return text;
}

template <class Stored, class Target>
bool copy_as(std::span<const std::byte> bytes, Target* target) {
  if constexpr (std::is_same_v<Stored, Target>) {
    if (!bytes.empty()) std::memcpy(target, bytes.data(), bytes.size());
  } else {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
      *target++ = static_cast<Target>(load<Stored>(bytes.data() + at));
    }
  }
  return true;
}

// These two return false for a type that they do not cover.
template <class Target>
bool copy_floats(const TensorView& tensor, Target* target) {
  if (tensor.dtype == Dtype::f16) return copy_as<Eigen::half>(tensor.bytes, target);
  if (tensor.dtype == Dtype::bf16) return copy_as<Eigen::bfloat16>(tensor.bytes, target);
  if (tensor.dtype == Dtype::f32) return copy_as<float>(tensor.bytes, target);
  if (tensor.dtype == Dtype::f64) return copy_as<double>(tensor.bytes, target);
  return false;
}

template <class Target>
bool copy_small_integers(const TensorView& tensor, Target* target) {
  if (tensor.dtype == Dtype::u8) return copy_as<std::uint8_t>(tensor.bytes, target);
  if (tensor.dtype == Dtype::i8) return copy_as<std::int8_t>(tensor.bytes, target);
  if (tensor.dtype == Dtype::u16) return copy_as<std::uint16_t>(tensor.bytes, target);
  if (tensor.dtype == Dtype::i16) return copy_as<std::int16_t>(tensor.bytes, target);
  if (tensor.dtype == Dtype::u32) return copy_as<std::uint32_t>(tensor.bytes, target);
  if (tensor.dtype == Dtype::i32) return copy_as<std::int32_t>(tensor.bytes, target);
  return false;
}

[[noreturn]] void throw_wrong_dtype(const TensorView& tensor, std::string_view wanted) {
  throw DataError(tensor.source + ": tensor " + in_quotes(tensor.name) + " has dtype " +
                  std::string(dtype_name(tensor.dtype)) + "; export it as " + std::string(wanted));
}

template <class Target>
void read_floats(const TensorView& tensor, std::span<Target> target) {
  if (tensor.element_count() != target.size()) {
    throw DataError(tensor.source + ": tensor " + in_quotes(tensor.name) + " has " +
                    std::to_string(tensor.element_count()) + " numbers but the model needs " +
                    std::to_string(target.size()) + "; use weights of the same configuration");
  }
  if (!copy_floats(tensor, target.data())) throw_wrong_dtype(tensor, "F16, BF16, F32 or F64");
}

// A file's bytes, readable while the pointer lives, and their number.
std::pair<std::shared_ptr<const void>, std::size_t> map_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe would wait for a writer, and pipes are refused anyway.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  int error = file >= 0 && ::fstat(file, &status) == 0 ? 0 : errno;
  if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
  if (error == 0 && !S_ISREG(status.st_mode)) error = ENOTSUP;
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  void* start = nullptr;
  if (error == 0 && size > 0) {  // mmap refuses empty files
    start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (start == MAP_FAILED) error = errno;
  }
  if (file >= 0) ::close(file);  // the mapping holds the file by itself
  if (error == ENOMEM) throw std::bad_alloc();
  if (error != 0) {
    throw DataError("cannot read " + path.string() + ": " + std::generic_category().message(error));
  }
  return {std::shared_ptr<void>(start, [size](void* mapped) { ::munmap(mapped, size); }), size};
}

// Checks what the format cannot hold, and returns 8 bytes of length and the padded header.
std::string encoded_header(const std::string& source, std::span<const TensorSource> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names = {metadata_key};
  std::uint64_t offset = 0;
  std::string text = "{";
  if (!metadata.empty()) text += json(metadata_key).dump() + ":" + json(metadata).dump() + ",";
  for (const TensorSource& tensor : tensors) {
    const std::optional<std::uint64_t> size = byte_count(tensor.shape, tensor.dtype);
    std::uint64_t end = 0;
    if (!size || __builtin_add_overflow(offset, *size, &end)) {
      throw DataError(source + ": tensor " + in_quotes(tensor.name) + " has the impossible shape " +
                      shape_text(tensor.shape) + "; give sizes of 0 or more that fit 64 bits");
    }
    if (!names.insert(tensor.name).second) {
      throw DataError(source + ": tensor name " + in_quotes(tensor.name) +
                      " is taken; give each tensor a name of its own");
    }
    text += json(tensor.name).dump() + R"(:{"dtype":")" + std::string(dtype_name(tensor.dtype)) +
            R"(","shape":)" + shape_text(tensor.shape) + R"(,"data_offsets":[)" +
            std::to_string(offset) + "," + std::to_string(end) + "]},";
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > header_limit) {
    throw DataError(source + ": header is over the limit; write fewer tensors into one file");
  }
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), length_bytes);
  return text;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return info_of(dtype).name; }

std::size_t TensorView::element_count() const { return bytes.size() * 8 / info_of(dtype).bits; }

std::vector<double> TensorView::to_doubles() const {
  std::vector<double> numbers(element_count());
  if (!copy_floats(*this, numbers.data()) && !copy_small_integers(*this, numbers.data())) {
    throw_wrong_dtype(*this, "F16, BF16, F32, F64 or an integer of at most 32 bits");
  }
  return numbers;
}

void read_into(const TensorView& tensor, std::span<float> target) { read_floats(tensor, target); }
void read_into(const TensorView& tensor, std::span<double> target) { read_floats(tensor, target); }

std::vector<std::int64_t> read_integers(const TensorView& tensor) {
  std::vector<std::int64_t> numbers(tensor.element_count());
  if (tensor.dtype == Dtype::i64) {
    copy_as<std::int64_t>(tensor.bytes, numbers.data());
  } else if (!copy_small_integers(tensor, numbers.data())) {
    throw_wrong_dtype(tensor, "I64, I32 or U8");
  }
  return numbers;
}

Safetensors Safetensors::open(const std::filesystem::path& path) {
  const auto [start, size] = map_file(path);
  Safetensors file = parse({static_cast<const std::byte*>(start.get()), size}, path.string());
  file.mappings_.push_back(start);
  return file;
}

Safetensors Safetensors::parse(std::span<const std::byte> bytes, std::string source) {
  Safetensors file;
  std::vector<Entry> entries;
  const std::string_view text = header_text(bytes, source);
  const json header = parse_header(text, source);
  for (const auto& [key, value] : header.items()) {
    if (key == metadata_key) {
      file.metadata_ = read_metadata(value, source);
    } else {
      entries.push_back(read_entry(key, value, source));
    }
  }
  std::ranges::stable_sort(entries, {},
                           [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  const std::span<const std::byte> data = bytes.subspan(length_bytes + text.size());
  check_layout(entries, data.size(), source);
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    file.index_.emplace(entry.tensor.name, file.tensors_.size());
    file.tensors_.push_back(std::move(entry.tensor));
  }
  file.source_ = std::move(source);
  return file;
}

Safetensors Safetensors::join(std::span<const Safetensors> files, std::string source) {
  Safetensors all;
  for (const Safetensors& file : files) {
    all.mappings_.insert(all.mappings_.end(), file.mappings_.begin(), file.mappings_.end());
    for (const TensorView& tensor : file.tensors_) {
      const auto [place, is_new] = all.index_.emplace(tensor.name, all.tensors_.size());
      if (!is_new) {
        throw DataError(source + ": tensor " + in_quotes(tensor.name) + " is in " +
                        all.tensors_[place->second].source + " and in " + tensor.source +
                        "; keep one of them");
      }
      all.tensors_.push_back(tensor);
    }
  }
  all.source_ = std::move(source);
  return all;
}

const TensorView& Safetensors::at(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    throw DataError(source_ + ": tensor " + in_quotes(name) +
                    " is missing; use weights of the same configuration");
  }
  return tensors_[found->second];
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string header;
  try {
    header = encoded_header(path.string(), tensors, metadata);
  } catch (const json::exception&) {
    throw DataError(path.string() + ": a name or metadata is not valid UTF-8; use Unicode text");
  }
  DurableFile file(path);
  file.write(header);
  for (const TensorSource& tensor : tensors) {
    file.write(std::span(static_cast<const std::byte*>(tensor.data),
                         *byte_count(tensor.shape, tensor.dtype)));
  }
  file.close();
}

}  // namespace headcount
