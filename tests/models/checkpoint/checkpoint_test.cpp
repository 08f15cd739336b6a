#include "models/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/durable.h"
#include "nn/layer_config.h"
#include "support/message_of.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

const Vocabulary& vocabulary() {
  static const Vocabulary all(U"\n aé€\U0001F600");
  return all;
}

Given saved_config(std::string_view attention = "mha") {
  Given config(model_settings());
  set(config, "attention", attention);
  set(config, "heads", 2);
  set(config, "layers", 1);
  set(config, "dim", 8);
  set(config, "context", 5);
  return config;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The tensors of a model, to be changed and written.
std::vector<TensorSource> tensors_of(const LanguageModel& model) {
  std::vector<TensorSource> all;
  const ParameterStore& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < parameters.shape({i}).rank(); ++axis)
      extents.push_back(parameters.shape({i})[axis]);
    all.push_back({parameters.name({i}), extents, Dtype::f32, parameters.value({i}).data()});
  }
  return all;
}

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() : model_(resolve_model(saved_config()), vocabulary().size()) {
    model_.initialize(3);
    save_checkpoint(folder_, model_, vocabulary());
  }

  // What loading says.
  std::string load_error() const {
    return message_of([this] { load_checkpoint(folder_); });
  }
  void write_config(const std::string& text) const {
    write_file_durably(folder_ / "config.json", text);
    fs::remove(folder_ / "SHA256SUMS");
  }
  nlohmann::json config() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "config.json"));
  }
  void write_weights(const std::vector<TensorSource>& tensors) const {
    write_safetensors(folder_ / "model.safetensors", tensors);
    fs::remove(folder_ / "SHA256SUMS");
  }

  TemporaryFolder parent_;
  fs::path folder_ = parent_.path() / "step-7";
  LanguageModel model_;
};

TEST_F(CheckpointFolder, HoldsExactlyModelTokenizerAndChecksums) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "tokenizer.json", "tokenizer_config.json",
                                          "model.safetensors", "SHA256SUMS"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(parent_.path()), fs::directory_iterator()), 1);
}

TEST_F(CheckpointFolder, WithAnyFlippedBitIsRefusedByItsChecksum) {
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}) {
    const fs::path file = folder_ / name;
    const std::string before = read_file(file);
    std::string damaged = before;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    write_file_durably(file, damaged);
    EXPECT_EQ(load_error(), file.string() +
                                " is damaged: its checksum is not the one in SHA256SUMS; take "
                                "another checkpoint, or make it anew");
    write_file_durably(file, before);
  }
  EXPECT_EQ(load_error(), "no error");
}

TEST_F(CheckpointFolder, HasTheChecksumsThatSha256sumChecks) {
  const std::string command =
      "cd '" + folder_.string() + "' && sha256sum --check --quiet SHA256SUMS";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(CheckpointFolder, ThatIsDamagedIsRefusedByWhatIsWrong) {
  using Tensors = std::vector<TensorSource>;
  const fs::path configuration = folder_ / "config.json", weights = folder_ / "model.safetensors";
  const auto with = [this](const nlohmann::json& keys) {
    nlohmann::json changed = config();
    changed.update(keys);
    write_config(changed.dump());
  };
  const auto with_tensors = [this](const std::function<void(Tensors&)>& change) {
    Tensors all = tensors_of(model_);
    change(all);
    write_weights(all);
  };
  const nlohmann::json vast = {{"hidden_size", 1 << 20}, {"intermediate_size", (1LL << 31) - 1}};
  nlohmann::json vaster = vast;  // what it claims takes no memory before the weights agree
  vaster["num_hidden_layers"] = 10000;
  const std::string gate = "model.layers.0.mlp.gate_proj.weight";
  const std::vector<std::pair<std::function<void()>, std::vector<std::string>>> all = {
      {[&] { fs::remove_all(folder_); }, {configuration}},
      {[&] {
         fs::remove(configuration);
         fs::create_directory(configuration);
       },
       {configuration}},
      {[&] { fs::remove(weights); }, {weights}},
      {[&] { fs::resize_file(weights, fs::file_size(weights) - 1); }, {weights}},
      {[&] {
         with({{"vocab_size", 7}});
       },
       {"'vocab_size' is 7, but tokenizer.json has 6 tokens"}},
      {[&] { with(vast); }, {"model.embed_tokens.weight has shape [6,8]"}},
      {[&] { with(vaster); }, {"too many for 64 bits"}},
      {[&] {
         with({{"intermediate_size", 40}});
       },
       {gate, "[24,8]", "[40,8]"}},
      {[&] {  // the same size, but another shape
         with_tensors([&](Tensors& t) {
           std::ranges::find(t, gate, &TensorSource::name)->shape = {8, 24};
         });
       },
       {"gate_proj.weight has shape [8,24]"}},
      {[&] {
         with_tensors([](Tensors& t) {
           std::erase_if(t, [](const TensorSource& one) { return one.name == "lm_head.weight"; });
         });
       },
       {"lm_head.weight", weights}},
      {[&] {
         with_tensors([](Tensors& t) {
           t.push_back(t.front());
           t.back().name = "model.layers.1.input_layernorm.weight";
         });
       },
       {"model.layers.1.input_layernorm.weight is no weight"}},
      {[&] {
         const std::string sums = read_file(folder_ / "SHA256SUMS");
         write_file_durably(folder_ / "SHA256SUMS", sums + std::string(64, '0') + "  ../secret\n");
       },
       {"SHA256SUMS is damaged"}}};
  for (const auto& [damage, parts] : all) {
    fs::remove_all(folder_);
    save_checkpoint(folder_, model_, vocabulary());
    if (parts.front() != "SHA256SUMS is damaged") fs::remove(folder_ / "SHA256SUMS");
    damage();
    for (const std::string& part : parts) EXPECT_TRUE(contains(load_error(), part)) << load_error();
  }
}

TEST_F(CheckpointFolder, WithUnusableConfigurationIsRefused) {
  nlohmann::json no_type = config(), no_size = config(), unknown = config();
  nlohmann::json bad_value = config(), bad_shape = config(), wrong_type = config();
  no_type.erase("model_type");
  no_size.erase("vocab_size");
  unknown["colour"] = 1;
  bad_value["num_hidden_layers"] = "many";
  bad_shape["num_attention_heads"] = 3;
  wrong_type["vocab_size"] = "5";
  const std::vector<std::pair<std::string, std::string>> all = {
      {"", "empty"},
      {"{\"model_type\": {", "not valid JSON"},
      {"[]", "no JSON object"},
      {"\xff", "not valid JSON"},
      {no_type.dump(), "model_type"},
      {no_size.dump(), "vocab_size"},
      {unknown.dump(), "'colour'"},
      {bad_value.dump(), "'num_hidden_layers'"},
      {bad_shape.dump(), "`heads` 3"},
      {wrong_type.dump(), "number"},
  };
  for (const auto& [text, expected] : all) {
    write_config(text);
    EXPECT_TRUE(contains(load_error(), (folder_ / "config.json").string())) << load_error();
    EXPECT_TRUE(contains(load_error(), expected)) << load_error() << " lacks " << expected;
    EXPECT_FALSE(contains(load_error(), "\n")) << load_error();
  }
}

TEST(Weights, OfIntegersAreRefusedBeforeAnythingIsAllocated) {
  ParameterStore parameters;
  parameters.add("x", {2}, Initializer::zeros());
  const std::vector<std::int32_t> numbers = {1, 2};
  const TensorSource tensor{"x", {2}, Dtype::i32, numbers.data()};
  std::string bytes = safetensors_header(std::span(&tensor, 1));
  bytes.append(reinterpret_cast<const char*>(numbers.data()), 2 * sizeof(std::int32_t));
  const Safetensors file(bytes, "weights");
  EXPECT_TRUE(contains(message_of([&] { read_weights(file, parameters); }), "has dtype I32"));
  EXPECT_NO_THROW(parameters.add("y", {2}, Initializer::zeros())) << "not allocated yet";
}

TEST_F(CheckpointFolder, ReadsWeightsOfOtherPrecision) {
  std::vector<std::vector<double>> wide;
  std::vector<TensorSource> changed = tensors_of(model_);
  for (TensorSource& tensor : changed) {
    const auto values = model_.parameters().value(model_.parameters().find(tensor.name));
    wide.emplace_back(values.begin(), values.end());
    tensor.dtype = Dtype::f64;
    tensor.data = wide.back().data();
  }
  write_weights(changed);
  const Checkpoint read = load_checkpoint(folder_);
  EXPECT_TRUE(
      std::ranges::equal(read.model->parameters().all_values(), model_.parameters().all_values()));
}

TEST_F(CheckpointFolder, WithANumberThatIsNotFiniteIsReadOnlyIfThatIsAllowed) {
  std::vector<TensorSource> changed = tensors_of(model_);
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  const auto keys = std::ranges::find(changed, name, &TensorSource::name);
  const auto values = model_.parameters().value(model_.parameters().find(name));
  for (const auto& [wrong, text] : {std::pair(std::numeric_limits<Real>::quiet_NaN(), "nan"),
                                    {-std::numeric_limits<Real>::infinity(), "-inf"}}) {
    std::vector<Real> spoiled(values.begin(), values.end());
    spoiled[5] = wrong;
    keys->data = spoiled.data();
    write_weights(changed);
    EXPECT_TRUE(contains(load_error(), (folder_ / "model.safetensors").string() + ": " + name +
                                           " is " + text + " at element 5; "))
        << load_error();
    EXPECT_NO_THROW(load_checkpoint(folder_, NonFinite::allowed));
  }
}

TEST_F(CheckpointFolder, IsNotMadeForWeightsThatAreNotFinite) {
  model_.parameters().value({2})[5] = std::numeric_limits<Real>::infinity();
  EXPECT_THROW(save_checkpoint(parent_.path() / "new", model_, vocabulary()), NonFiniteError);
  EXPECT_EQ(std::distance(fs::directory_iterator(parent_.path()), fs::directory_iterator()), 1);
}

TEST_F(CheckpointFolder, WithALineMissingFromItsChecksumsIsRefused) {
  const std::string whole = read_file(folder_ / "SHA256SUMS");
  const auto lines = split_text(whole, '\n');
  ASSERT_EQ(lines.size(), 5);  // four files, and what follows the last line break
  for (std::size_t left_out = 0; left_out < 4; ++left_out) {
    std::string rest;
    for (std::size_t i = 0; i < 4; ++i) {
      if (i != left_out) rest += std::string(lines[i]) + "\n";
    }
    write_file_durably(folder_ / "SHA256SUMS", rest);
    const std::string name(lines[left_out].substr(66));
    EXPECT_EQ(load_error(),
              (folder_ / "SHA256SUMS").string() + " is damaged: it has no line for " + name);
  }
  for (std::size_t length = 1; length < whole.size() - 1; length += 13) {
    write_file_durably(folder_ / "SHA256SUMS", whole.substr(0, length));
    EXPECT_NE(load_error(), "no error") << length;
  }
}

// Checkpoint with its weights in two files, and the index that says which file has which.
class ShardedFolder : public CheckpointFolder {
 protected:
  ShardedFolder() {
    const std::vector<TensorSource> all = tensors_of(model_);
    const auto middle = all.begin() + 3;
    first_.assign(all.begin(), middle);
    second_.assign(middle, all.end());
    for (const TensorSource& tensor : first_) map_[tensor.name] = kFirst;
    for (const TensorSource& tensor : second_) map_[tensor.name] = kSecond;
    fs::remove(folder_ / "model.safetensors");
    fs::remove(folder_ / "SHA256SUMS");
    write();
  }
  void write() const {
    write_safetensors(folder_ / kFirst, first_);
    write_safetensors(folder_ / kSecond, second_);
    write_file_durably(
        folder_ / "model.safetensors.index.json",
        nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map_}}.dump());
  }

  static constexpr const char* kFirst = "model-00001-of-00002.safetensors";
  static constexpr const char* kSecond = "model-00002-of-00002.safetensors";
  std::vector<TensorSource> first_, second_;
  std::map<std::string, std::string> map_;
};

TEST_F(ShardedFolder, IsFoundAndReadAsIfItWereOneFile) {
  EXPECT_EQ(find_checkpoint(folder_), folder_);
  const Checkpoint read = load_checkpoint(folder_);
  EXPECT_TRUE(
      std::ranges::equal(read.model->parameters().all_values(), model_.parameters().all_values()));
}

TEST_F(ShardedFolder, WithoutAShardNamesIt) {
  fs::remove(folder_ / kSecond);
  EXPECT_TRUE(contains(load_error(), kSecond)) << load_error();
}

TEST_F(ShardedFolder, WithoutATensorNamesIt) {
  const std::string name = second_.back().name;
  second_.pop_back();
  write();
  EXPECT_TRUE(contains(load_error(), name)) << load_error();
  EXPECT_TRUE(contains(load_error(), kSecond)) << load_error();
}

TEST_F(ShardedFolder, WhoseIndexLeadsOutOfTheFolderIsRefused) {
  for (const char* name : {"../step-8/model.safetensors", "/etc/passwd", "..", "", "a\\b", ".x"}) {
    map_[first_[0].name] = name;
    write();
    EXPECT_TRUE(contains(load_error(), "which is no file in this folder")) << load_error();
  }
  for (const char* text :
       {"[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 1}})", "{"}) {
    write_file_durably(folder_ / "model.safetensors.index.json", text);
    EXPECT_TRUE(contains(load_error(), "model.safetensors.index.json")) << load_error();
  }
}

}  // namespace
}  // namespace headcount
