#include "models/checkpoint/safetensors.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/base/json.h"
#include "autograd/base/text.h"

namespace headcount {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

// A number as it lies in a file, at any alignment.
template <class Stored>
Stored load(const std::byte* place) {
  Stored number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

struct DtypeInfo {
  std::string_view name;
  std::uint64_t bytes;
  double (*number)(const std::byte* place);
};

template <class Stored>
constexpr DtypeInfo stored_as(std::string_view name) {
  return {name, sizeof(Stored),
          [](const std::byte* place) { return static_cast<double>(load<Stored>(place)); }};
}

// Number types in the order of the enumeration.
constexpr std::array kDtypes = {
    stored_as<Eigen::half>("F16"),  stored_as<Eigen::bfloat16>("BF16"),
    stored_as<float>("F32"),        stored_as<double>("F64"),
    stored_as<std::int8_t>("I8"),   stored_as<std::uint8_t>("U8"),
    stored_as<std::int16_t>("I16"), stored_as<std::uint16_t>("U16"),
    stored_as<std::int32_t>("I32"), stored_as<std::uint32_t>("U32"),
    stored_as<std::int64_t>("I64"),
};

const DtypeInfo& info_of(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)); }

// Number of bytes of a tensor; empty if it does not fit into 64 bits.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, Dtype dtype) {
  std::uint64_t bytes = info_of(dtype).bytes;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      return std::nullopt;
  }
  return bytes;
}

[[noreturn]] void refuse_tensor(const TensorView& tensor, const std::string& what) {
  throw DataError("{}: tensor {} {}", tensor.source, headcount::quoted(tensor.name), what);
}

[[noreturn]] void throw_damaged(const std::string& source, const std::string& what) {
  throw DataError("{}: {}; the file is damaged: copy or export it again", source, what);
}

bool is_list_of_sizes(const json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const json& item) {
           return item.is_number_unsigned() &&
                  std::in_range<std::int64_t>(item.get<std::uint64_t>());
         });
}

// The tensor that `fields` describe in `data`, the bytes after the header.
TensorView read_entry(const std::string& name, const json& fields, std::span<const std::byte> data,
                      const std::string& source) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) throw_damaged(source, "tensor " + headcount::quoted(name) + " " + what);
  };
  const auto field = [&](const char* key) {
    return fields.is_object() ? fields.value(key, json()) : json();
  };
  const json dtype = field("dtype"), shape = field("shape"), offsets = field("data_offsets");
  require(is_list_of_sizes(shape), "has a shape that is not a list of sizes");
  require(is_list_of_sizes(offsets) && offsets.size() == 2, "has data_offsets that are not a pair");
  const auto info = std::ranges::find_if(
      kDtypes, [&](const DtypeInfo& each) { return dtype == json(each.name); });
  TensorView tensor{name, static_cast<Dtype>(info - kDtypes.begin()), shape, {}, source};
  if (info == kDtypes.end())
    refuse_tensor(tensor, "has the dtype " + shortened(json_text(dtype)) +
                              "; export it as F16, BF16, F32 or F64");
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  require(begin <= end && end <= data.size(),
          "is at bytes " + json_text(offsets) + " of " + std::to_string(data.size()));
  require(byte_count(tensor.shape, tensor.dtype) == end - begin,
          "of shape " + shortened(json_text(shape)) + " does not have " +
              std::to_string(end - begin) + " bytes");
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

// Splits a file into its header and the bytes after it. Throws DataError.
std::pair<json, std::span<const std::byte>> split_file(std::span<const std::byte> bytes,
                                                       const std::string& source) {
  if (bytes.size() < kLengthBytes) throw_damaged(source, "too short for a safetensors file");
  const auto wanted = load<std::uint64_t>(bytes.data());
  bytes = bytes.subspan(kLengthBytes);
  if (wanted > bytes.size()) {
    throw_damaged(source, "header is cut off after " + std::to_string(bytes.size()) + " of " +
                              std::to_string(wanted) + " bytes");
  }
  json header;
  try {
    header =
        parse_json({reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(wanted)});
  } catch (const DataError& error) {
    throw_damaged(source, std::string("header is ") + error.what());
  }
  if (!header.is_object()) throw_damaged(source, "header is no JSON object");
  return {std::move(header), bytes.subspan(wanted)};
}

}  // namespace

std::size_t TensorView::element_count() const { return bytes.size() / info_of(dtype).bytes; }

std::vector<double> TensorView::to_doubles() const {
  const DtypeInfo& info = info_of(dtype);
  std::vector<double> numbers;
  for (std::size_t at = 0; at < bytes.size(); at += info.bytes)
    numbers.push_back(info.number(bytes.data() + at));
  return numbers;
}

void require_floating_point(const TensorView& tensor) {
  if (tensor.dtype <= Dtype::f64) return;
  refuse_tensor(tensor, "has dtype " + std::string(info_of(tensor.dtype).name) +
                            "; export it as F16, BF16, F32 or F64");
}

void read_into(const TensorView& tensor, std::span<Real> target) {
  if (tensor.element_count() != target.size()) {
    refuse_tensor(tensor, "has " + std::to_string(tensor.element_count()) +
                              " numbers but the model needs " + std::to_string(target.size()) +
                              "; use weights of the same configuration");
  }
  require_floating_point(tensor);
  if (tensor.dtype == kRealDtype) {
    std::ranges::copy(tensor.bytes, std::as_writable_bytes(target).begin());
    return;
  }
  const DtypeInfo& info = info_of(tensor.dtype);
  for (std::size_t i = 0; i < target.size(); ++i)
    target[i] = static_cast<Real>(info.number(tensor.bytes.data() + i * info.bytes));
}

void Safetensors::add(std::string bytes, const std::string& source) {
  files_.push_back(std::make_shared<const std::string>(std::move(bytes)));
  sources_ += (sources_.empty() ? "" : ", ") + source;
  const auto [header, data] = split_file(std::as_bytes(std::span(*files_.back())), source);
  std::vector<TensorView> added;
  for (const auto& [key, value] : header.items()) {
    if (key != kMetadata) {
      added.push_back(read_entry(key, value, data, source));
      if (contains(key)) refuse_tensor(added.back(), "is in another file, too; keep one of them");
      continue;
    }
    try {
      value.get_to(metadata_);
    } catch (const json::type_error&) {
      throw_damaged(source, "__metadata__ does not map text to text");
    }
  }
  // An empty tensor comes before the one that begins where it does.
  std::ranges::stable_sort(added, {}, [](const TensorView& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  const std::byte* end = data.data();
  for (const TensorView& tensor : added) {
    if (tensor.bytes.data() != end)
      throw_damaged(source, "tensor " + headcount::quoted(tensor.name) +
                                " does not begin where the tensor before it ends");
    end += tensor.bytes.size();
  }
  if (end != data.data() + data.size()) throw_damaged(source, "bytes follow the last tensor");
  tensors_.insert(tensors_.end(), added.begin(), added.end());
}

bool Safetensors::contains(std::string_view name) const {
  return std::ranges::find(tensors_, name, &TensorView::name) != tensors_.end();
}

const TensorView& Safetensors::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorView::name);
  if (found != tensors_.end()) return *found;
  throw DataError("{}: tensor {} is missing; use weights of the same configuration", sources_,
                  headcount::quoted(name));
}

std::string safetensors_of(std::span<const TensorSource> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::string header;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
    header += (header.empty() ? "{" : ",") + json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) add(kMetadata, metadata);
  std::size_t bytes = 0;
  for (const TensorSource& tensor : tensors) {
    const std::size_t begin = std::exchange(bytes, bytes + *byte_count(tensor.shape, tensor.dtype));
    add(tensor.name, {{"dtype", info_of(tensor.dtype).name},
                      {"shape", tensor.shape},
                      {"data_offsets", {begin, bytes}}});
  }
  header += header.empty() ? "{}" : "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t length = header.size();
  std::string file;
  file.reserve(sizeof length + header.size() + bytes);  // no second copy of the numbers
  file.append(reinterpret_cast<const char*>(&length), sizeof length).append(header);
  for (const TensorSource& tensor : tensors)
    file.append(static_cast<const char*>(tensor.data), *byte_count(tensor.shape, tensor.dtype));
  return file;
}

}  // namespace headcount
