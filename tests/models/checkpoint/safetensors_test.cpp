#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "autograd/base/files.h"
#include "data/memory_limit.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"
#include "support/message_of.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string file_bytes(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header + data);
}

Safetensors parse(const std::string& bytes) { return {bytes, "model.safetensors"}; }

template <class Number>
std::string raw(const std::vector<Number>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// One tensor "x" of rank 1 that fills the file.
std::string one_tensor(const std::string& dtype, std::size_t count, const std::string& data) {
  return file_bytes(R"({"x":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(count) +
                        R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                    data);
}

TEST(MalformedSafetensors, IsRefusedInOneLineThatNamesTheFile) {
  // `fields` is what the entry of the tensor "x" holds, over 4 bytes of data.
  const auto entry = [](const std::string& fields) {
    return file_bytes("{\"x\":{" + fields + "}}", "data");
  };
  const auto shaped = [&entry](const std::string& shape, const std::string& offsets = "[0,4]") {
    return entry(R"("dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets);
  };
  const auto typed = [&entry](const std::string& dtype) {
    return entry("\"dtype\":" + dtype + R"(,"shape":[4],"data_offsets":[0,4])");
  };
  // A second tensor of one byte.
  const auto second = [](const std::string& offsets, const std::string& data) {
    return file_bytes(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("y":{"dtype":"U8","shape":[1],"data_offsets":)" +
                          offsets + "}}",
                      data);
  };
  // What is said of files.
  const std::pair<std::string, std::vector<std::string>> refusals[] = {
      {"too short", {"", "1234567"}},
      {"cut off", {with_length(~0ULL, "{}")}},
      {"cut off after 2 of 3 bytes", {with_length(3, "{}")}},
      {"not valid JSON",
       {file_bytes(""), file_bytes("{}{}"), file_bytes("{\"\xff\":{}}"),
        file_bytes(std::string("{}\0 unread", 10)),
        file_bytes("{\"x\":" + std::string(100'000, '[') + "}")}},
      {"no JSON object", {file_bytes("[]")}},
      {"map text to text",
       {file_bytes(R"({"__metadata__":{"a":1}})"), file_bytes(R"({"__metadata__":null})")}},
      {"tensor 'x' has a shape", {file_bytes(R"({"x":"U8"})")}},
      {"dtype null", {entry(R"("shape":[4],"data_offsets":[0,4])")}},
      {"dtype 8", {typed("8")}},
      {R"("F31")", {typed(R"("F31")")}},
      {"list of sizes",
       {entry(R"("dtype":"U8","data_offsets":[0,4])"), shaped("4"), shaped("[4.0]"), shaped("[-4]"),
        shaped("[9223372036854775808]")}},
      {"does not have 4 bytes",  // the second one's number of bytes wraps to 4
       {shaped("[4294967296,4294967296,4]"), shaped("[4611686018427387905,4]"), shaped("[5]"),
        shaped("[3]")}},
      {"pair",
       {entry(R"("dtype":"U8","shape":[4])"), shaped("[4]", "[4]"), shaped("[4]", "[-4,0]")}},
      {"bytes [4,0] of 4", {shaped("[4]", "[4,0]")}},
      {"bytes [0,5] of 4", {shaped("[5]", "[0,5]")}},
      {"bytes follow the last tensor", {shaped("[3]", "[0,3]"), file_bytes("{}", "data")}},
      {"does not begin where",  // before there, within another tensor, after a gap
       {shaped("[3]", "[1,4]"), second("[2,3]", "data"), second("[5,6]", "data56")}}};
  for (const auto& [part, files] : refusals) {
    for (const std::string& bytes : files) {
      const std::string message = message_of([&] { parse(bytes); });
      EXPECT_TRUE(message.starts_with("model.safetensors: ")) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message << ", not " << part;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(Safetensors, EveryTruncationAndEveryAddedByteIsRefused) {
  const std::string whole = one_tensor("F32", 2, raw<float>({1, 2}));
  EXPECT_NO_THROW(parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(parse(whole.substr(0, size)), DataError) << size;
  }
  EXPECT_THROW(parse(whole + "x"), DataError);
}

TEST(Safetensors, AcceptsNoTensorsScalarsEmptyTensorsAndUnalignedData) {
  EXPECT_TRUE(parse(file_bytes("{}      ")).tensors().empty());
  const Safetensors file =
      parse(file_bytes(R"({"scalar":{"dtype":"F64","shape":[],"data_offsets":[1,9]},)"
                       R"("empty":{"dtype":"F32","shape":[3,0,2],"data_offsets":[1,1]},)"
                       R"("byte":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}})",
                       "\x07" + raw<double>({-2.5})));
  using Numbers = std::vector<double>;
  const std::pair<std::string, Numbers> expected[] = {
      {"byte", {7}}, {"empty", {}}, {"scalar", {-2.5}}};
  ASSERT_EQ(file.tensors().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.tensors()[i].name, expected[i].first);
    EXPECT_EQ(file.tensors()[i].to_doubles(), expected[i].second);
  }
  EXPECT_TRUE(file.at("scalar").shape.empty());
}

TEST(Safetensors, ReadsMetadata) {
  const auto file = parse(file_bytes(R"({"__metadata__":{"format":"pt","name":"Zo\u00eb"}})"));
  const std::map<std::string, std::string> expected = {{"format", "pt"}, {"name", "Zoë"}};
  EXPECT_EQ(file.metadata(), expected);
  EXPECT_FALSE(file.contains("__metadata__"));
}

TEST(Safetensors, WhatIsMissingIsNamed) {
  const Safetensors file = parse(file_bytes("{}"));
  EXPECT_TRUE(message_of([&] {
                file.at("lm_head\n.weight");
              }).starts_with("model.safetensors: tensor 'lm_head"));
}

TEST(SafetensorsNumbers, OfEachTypeAreExact) {
  using Numbers = std::vector<double>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const auto& [dtype, data, numbers] :
       std::vector<std::tuple<std::string, std::string, Numbers>>{
           {"F16",
            raw<std::uint16_t>({0x0000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x3555, 0x7bff, 0xfc00}),
            {0, 0x1p-24, -0x3ffp-24, 0x1p-14, 1, 0x1.554p-2, 65504, -kInfinity}},
           {"BF16", raw<std::uint16_t>({0x3f80, 0xc049, 0x0001}), {1, -3.140625, 0x1p-133}},
           {"I64", raw<std::int64_t>({least, 3}), {static_cast<double>(least), 3}},
           {"I32", raw<std::int32_t>({-7}), {-7}},
           {"U32", raw<std::uint32_t>({~0u}), {4294967295}},
           {"I16", raw<std::int16_t>({-2}), {-2}},
           {"U16", raw<std::uint16_t>({65535}), {65535}},
           {"U8", "\x01\xff", {1, 255}},
           {"I8", "\xff", {-1}}})
    EXPECT_EQ(parse(one_tensor(dtype, numbers.size(), data)).at("x").to_doubles(), numbers)
        << dtype;
  std::vector<float> floats(2);  // -0 and NaN, which is unequal to itself
  read_into(parse(one_tensor("F16", 2, raw<std::uint16_t>({0x8000, 0x7e01}))).at("x"), floats);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[0]), 0x80000000u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[1]), 0x7fc02000u);
}

TEST(SafetensorsNumbers, EqualTypesKeepNanPayloadsAndDoublesRoundToFloats) {
  const std::vector<std::uint32_t> bits = {0x7fa00001u, 0xffc12345u, 0x80000000u};
  std::vector<float> numbers(bits.size());
  read_into(parse(one_tensor("F32", bits.size(), raw(bits))).at("x"), numbers);
  EXPECT_EQ(std::memcmp(numbers.data(), bits.data(), sizeof(float) * bits.size()), 0);
  read_into(parse(one_tensor("F64", 3, raw<double>({0.1, -3.0, 0}))).at("x"), numbers);
  EXPECT_EQ(numbers, (std::vector<float>{0.1f, -3.0f, 0}));
}

TEST(SafetensorsNumbers, AnotherSizeOrTypeIsRefusedByName) {
  std::vector<float> three(3), one(1);
  EXPECT_TRUE(message_of([&] {
                read_into(parse(one_tensor("F32", 2, raw<float>({1, 2}))).at("x"), three);
              }).starts_with("model.safetensors: tensor 'x' has 2 numbers but the model needs 3"));
  EXPECT_TRUE(message_of([&] {
                read_into(parse(one_tensor("I64", 1, raw<std::int64_t>({1}))).at("x"), one);
              }).starts_with("model.safetensors: tensor 'x' has dtype I64"));
}

RC_GTEST_PROP(SafetensorsWriter, RoundTripKeepsNamesShapesOrderAndBits, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 6);
  std::vector<TensorSource> sources;
  std::vector<std::string> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto shape = *rc::gen::resize(
        3, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 5)));
    const auto dtype = *rc::gen::element(Dtype::f32, Dtype::f64, Dtype::i64, Dtype::u8);
    const std::size_t width = dtype == Dtype::u8 ? 1 : dtype == Dtype::f32 ? 4 : 8;
    const auto size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1},
                                      std::multiplies<std::int64_t>());
    data[i] = *rc::gen::container<std::string>(static_cast<std::size_t>(size) * width,
                                               rc::gen::arbitrary<char>());
    sources.push_back({"\"é\n" + std::to_string(i), shape, dtype, data[i].data()});
  }
  const auto ascii = rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
  const auto metadata = *rc::gen::container<std::map<std::string, std::string>>(ascii, ascii);

  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write_safetensors(file, sources, metadata);
  const Safetensors read = open_safetensors(file);
  RC_ASSERT(read.metadata() == metadata);
  RC_ASSERT(read.tensors().size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    const TensorView& tensor = read.at(sources[i].name);
    RC_ASSERT(tensor.shape == sources[i].shape);
    RC_ASSERT(tensor.dtype == sources[i].dtype);
    RC_ASSERT(std::string(reinterpret_cast<const char*>(tensor.bytes.data()),
                          tensor.bytes.size()) == data[i]);
    // In order, but for empty tensors, which share their place with a neighbour.
    if (i > 0) RC_ASSERT(read.at(sources[i - 1].name).bytes.data() <= tensor.bytes.data());
  }
}

TEST(SafetensorsWriter, NumbersStartAtAMultipleOfEightBytesAndOutliveTheFileInCopies) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  const double number = 1.5;
  for (std::size_t length = 1; length < 20; ++length) {
    const std::string name(length, 'n');
    const TensorSource source{name, {}, Dtype::f64, &number};
    write_safetensors(file, std::span(&source, 1));
    const std::string bytes = read_file(file);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    EXPECT_EQ(header % 8, 0u);
    EXPECT_EQ(bytes.size(), 8 + header + 8);
    auto first = std::make_unique<Safetensors>(open_safetensors(file));
    const Safetensors second = *first;
    first.reset();
    EXPECT_EQ(second.at(name).to_doubles(), std::vector<double>{1.5});
  }
}

TEST(SafetensorsWriter, AFullDiskIsAWriteError) {
  const TensorSource none{"x", {0}, Dtype::u8, nullptr};
  EXPECT_THROW(write_safetensors("/dev/full", std::span(&none, 1)), WriteError);
}

#ifdef HEADCOUNT_MEMORY_LIMIT
TEST(SafetensorsReader, SaysThatMemoryDoesNotSufficeRatherThanThatTheFileIsWrong) {
  const TemporaryFolder folder;
  const std::string path = folder.file("vast", "a");
  constexpr std::size_t kSize = std::size_t{256} << 20;  // of holes: no disk needed
  std::filesystem::resize_file(path, kSize);
  EXPECT_EXIT(run_with_memory(kSize / 2, [&] { open_safetensors(path); }),
              testing::ExitedWithCode(kOutOfMemory), "");
}
#endif

}  // namespace
}  // namespace headcount
