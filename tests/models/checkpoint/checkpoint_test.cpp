#include "models/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "data/temporary_folder.h"
#include "models/checkpoint/durable.h"
#include "support/message_of.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

const Vocabulary& vocabulary() {
  static const Vocabulary all(U"\n aé€\U0001F600");
  return all;
}

LanguageModel saved_model(const char* tied) {
  LanguageModel model(
      resolve_model(Given(
          model_settings(),
          {{"heads", 2}, {"layers", 1}, {"dim", 8}, {"context", 5}, {"tie-embeddings", tied}})),
      vocabulary().size());
  model.initialize(3);
  return model;
}

using Tensors = std::vector<TensorSource>;

// The tensors of a model, to be changed and written.
Tensors tensors_of(const LanguageModel& model) {
  Tensors all;
  const ParameterStore& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < parameters.shape({i}).rank(); ++axis)
      extents.push_back(parameters.shape({i})[axis]);
    all.push_back({parameters.name({i}), extents, Dtype::f32, parameters.value({i}).data()});
  }
  return all;
}

const std::vector<std::string> kFiles = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                         "model.safetensors"};

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() { save_checkpoint(folder_, model_, vocabulary()); }

  // What loading says.
  std::string load_error() const {
    return message_of([this] { load_checkpoint(folder_); });
  }
  // Expects that loading says all of this.
  void expect_error(const std::vector<std::string>& parts) const {
    const std::string error = load_error();
    for (const std::string& part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks " << part;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  void write_config(const std::string& text) const {
    write_file_durably(folder_ / "config.json", text);
    fs::remove(folder_ / "SHA256SUMS");
  }
  nlohmann::json config() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "config.json"));
  }
  void write_weights(const Tensors& tensors) const {
    write_safetensors(folder_ / "model.safetensors", tensors);
    fs::remove(folder_ / "SHA256SUMS");
  }
  void expect_the_model() {
    const Checkpoint read = load_checkpoint(folder_);
    EXPECT_TRUE(std::ranges::equal(read.model->parameters().all_values(),
                                   model_.parameters().all_values()));
  }

  // Number of folders and files beside the folder, and the folder.
  Index entries_beside() const {
    return std::distance(fs::directory_iterator(parent_.path()), fs::directory_iterator());
  }

  TemporaryFolder parent_;
  fs::path folder_ = parent_.path() / "step-7";
  LanguageModel model_ = saved_model("off");
};

TEST_F(CheckpointFolder, HoldsModelTokenizerAndChecksumsThatSha256sumChecksAndNoMore) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  std::set<std::string> expected(kFiles.begin(), kFiles.end());
  expected.insert("SHA256SUMS");
  EXPECT_EQ(names, expected);
  EXPECT_EQ(entries_beside(), 1);
  const std::string command =
      "cd '" + folder_.string() + "' && sha256sum --check --quiet SHA256SUMS";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(CheckpointFolder, WithAnyFlippedBitIsRefusedByItsChecksum) {
  for (const std::string& name : kFiles) {
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

TEST_F(CheckpointFolder, ThatIsDamagedIsRefusedByWhatIsWrong) {
  const fs::path configuration = folder_ / "config.json", weights = folder_ / "model.safetensors";
  const auto with = [this](const nlohmann::json& keys) {
    return [this, keys] {
      nlohmann::json changed = config();
      changed.update(keys);
      write_config(changed.dump());
    };
  };
  const auto with_tensors = [this](const std::function<void(Tensors&)>& change) {
    return [this, change] {
      Tensors all = tensors_of(model_);
      change(all);
      write_weights(all);
    };
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
      {[&] { write_config(""); }, {configuration, "empty"}},
      {[&] { write_config("{\"model_type\": {"); }, {configuration, "not valid JSON"}},
      {[&] { write_config("[]"); }, {configuration, "no JSON object"}},
      {with({{"colour", 1}}), {configuration, "'colour'"}},
      {with({{"num_hidden_layers", "many"}}), {configuration, "'num_hidden_layers'"}},
      {with({{"num_attention_heads", 3}}), {configuration, "`heads` 3"}},
      {with({{"vocab_size", 7}}), {"'vocab_size' is 7, but tokenizer.json has 6 tokens"}},
      {with(vast), {"model.embed_tokens.weight has shape [6,8]"}},
      {with(vaster), {"too many for 64 bits"}},
      {with({{"intermediate_size", 40}}), {gate, "[24,8]", "[40,8]"}},
      {with_tensors([&](Tensors& t) {  // the same size, but another shape
         std::ranges::find(t, gate, &TensorSource::name)->shape = {8, 24};
       }),
       {"gate_proj.weight has shape [8,24]"}},
      {with_tensors([](Tensors& t) { t[1].dtype = Dtype::i32; }), {"has dtype I32"}},
      {with_tensors([](Tensors& t) {
         std::erase_if(t, [](const TensorSource& one) { return one.name == "lm_head.weight"; });
       }),
       {"lm_head.weight", weights}},
      {with_tensors([](Tensors& t) {
         t.push_back(t.front());
         t.back().name = "model.layers.1.input_layernorm.weight";
       }),
       {"model.layers.1.input_layernorm.weight is no weight"}}};
  for (const auto& [damage, parts] : all) {
    fs::remove_all(folder_);
    save_checkpoint(folder_, model_, vocabulary());
    fs::remove(folder_ / "SHA256SUMS");
    damage();
    expect_error(parts);
  }
}

TEST_F(CheckpointFolder, ReadsWeightsOfOtherPrecisionAndTablesOfRotaryFrequencies) {
  std::vector<std::vector<double>> wide;
  Tensors changed = tensors_of(model_);
  for (TensorSource& tensor : changed) {
    const auto values = model_.parameters().value(model_.parameters().find(tensor.name));
    wide.emplace_back(values.begin(), values.end());
    tensor.dtype = Dtype::f64;
    tensor.data = wide.back().data();
  }
  const std::vector<float> table = {1, 0.5F};
  for (const char* name :
       {"model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"})
    changed.push_back({name, {2}, Dtype::f32, table.data()});
  write_weights(changed);
  expect_the_model();
}

TEST_F(CheckpointFolder, WithANumberThatIsNotFiniteIsReadOnlyIfThatIsAllowed) {
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  Real& key = model_.parameters().value(model_.parameters().find(name))[5];
  for (const auto& [wrong, text] : {std::pair(std::numeric_limits<Real>::quiet_NaN(), "nan"),
                                    {-std::numeric_limits<Real>::infinity(), "-inf"}}) {
    key = wrong;
    write_weights(tensors_of(model_));
    expect_error({(folder_ / "model.safetensors").string() + ": " + name + " is " + text +
                  " at element 5; "});
    EXPECT_NO_THROW(load_checkpoint(folder_, NonFinite::allowed));
  }
  EXPECT_THROW(save_checkpoint(parent_.path() / "new", model_, vocabulary()), NonFiniteError);
  EXPECT_EQ(entries_beside(), 1);
}

TEST_F(CheckpointFolder, WithALineMissingFromItsChecksumsIsRefused) {
  const std::string whole = read_file(folder_ / "SHA256SUMS");
  for (const std::string& name : kFiles) {
    const std::size_t end = whole.find("  " + name + "\n") + name.size() + 3;
    const std::size_t begin = whole.rfind('\n', end - 2) + 1;
    write_file_durably(folder_ / "SHA256SUMS", std::string(whole).erase(begin, end - begin));
    EXPECT_EQ(load_error(),
              (folder_ / "SHA256SUMS").string() + " is damaged: it has no line for " + name);
  }
  write_file_durably(folder_ / "SHA256SUMS", whole + std::string(64, '0') + "  ../secret\n");
  expect_error({"SHA256SUMS is damaged"});
  for (std::size_t length = 1; length < whole.size() - 1; length += 13) {
    write_file_durably(folder_ / "SHA256SUMS", whole.substr(0, length));
    EXPECT_NE(load_error(), "no error") << length;
  }
}

TEST_F(CheckpointFolder, WithTiedWeightsIsReadWithAHeadThatIsTheEmbedding) {
  const LanguageModel tied = saved_model("on");
  fs::remove_all(folder_);
  save_checkpoint(folder_, tied, vocabulary());
  Tensors tensors = tensors_of(tied);
  tensors.push_back(tensors.front());
  ASSERT_EQ(tensors.back().name, "model.embed_tokens.weight");
  tensors.back().name = "lm_head.weight";
  write_weights(tensors);
  EXPECT_EQ(load_error(), "no error");
  std::vector<Real> other(tied.parameters().value({0}).begin(), tied.parameters().value({0}).end());
  other.back() += 1;
  tensors.back().data = other.data();
  write_weights(tensors);
  expect_error(
      {"lm_head.weight differs from model.embed_tokens.weight, but config.json ties both"});
}

// Checkpoint with its weights in two files, and the index that says which file has which.
class ShardedFolder : public CheckpointFolder {
 protected:
  ShardedFolder() {
    const Tensors all = tensors_of(model_);
    first_.assign(all.begin(), all.begin() + 3);
    second_.assign(all.begin() + 3, all.end());
    for (const TensorSource& tensor : all) map_[tensor.name] = kSecond;
    for (const TensorSource& tensor : first_) map_[tensor.name] = kFirst;
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
  Tensors first_, second_;
  std::map<std::string, std::string> map_;
};

TEST_F(ShardedFolder, IsReadAsIfItWereOneFileAndNamesATensorOrAShardThatItLacks) {
  EXPECT_EQ(find_checkpoint(folder_), folder_);
  expect_the_model();
  const std::string name = second_.back().name;
  second_.pop_back();
  write();
  expect_error({name, kSecond});
  fs::remove(folder_ / kSecond);
  expect_error({kSecond});
}

TEST_F(ShardedFolder, WhoseIndexLeadsOutOfTheFolderIsRefused) {
  for (const char* name : {"../step-8/model.safetensors", "/etc/passwd", "..", "", "a\\b", ".x"}) {
    map_[first_[0].name] = name;
    write();
    expect_error({"which is no file in this folder"});
  }
  for (const char* text :
       {"[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 1}})", "{"}) {
    write_file_durably(folder_ / "model.safetensors.index.json", text);
    expect_error({"model.safetensors.index.json"});
  }
}

}  // namespace
}  // namespace headcount
