#include "models/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
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
  for (std::size_t i = 0; i < parameters.size(); ++i)
    all.push_back({parameters.name({i}), parameters.shape({i}).extents(), Dtype::f32,
                   parameters.value({i}).data()});
  return all;
}

// Texts of files by name; none: there is no such file.
using Files = std::map<std::string, std::optional<std::string>>;

const std::vector<std::string> kFiles = {kConfigFile, kTokenizerFile, kTokenizerConfigFile,
                                         kWeightsFile};

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() { save_checkpoint(folder_, model_, vocabulary()); }

  std::string load_error() const {
    return message_of([this] { load_checkpoint(folder_); });
  }
  // Makes the folder anew, with some other files and without checksums.
  void write(const Files& others) const {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    Files files(files_.begin(), files_.end());
    for (const auto& [name, text] : others) files[name] = text;
    for (const auto& [name, text] : files) {
      if (text) write_file_durably(folder_ / name, *text);
    }
  }
  // Expects that loading such a folder fails with a line that has all these parts.
  void expect_error(const Files& others, const std::vector<std::string>& parts) const {
    write(others);
    const std::string error = load_error();
    for (const std::string& part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks " << part;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
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
  std::map<std::string, std::string> files_ = checkpoint_files(model_, vocabulary());
};

TEST_F(CheckpointFolder, HoldsModelTokenizerAndChecksumsThatSha256sumChecksAndNoMore) {
  std::set<std::string> names, expected(kFiles.begin(), kFiles.end());
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  expected.insert(kSumsFile);
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
  const auto with = [this](const nlohmann::json& keys) {
    nlohmann::json changed = nlohmann::json::parse(files_.at(kConfigFile));
    changed.update(keys);
    return Files{{kConfigFile, changed.dump()}};
  };
  const auto with_tensors = [this](const auto& change) {
    Tensors all = tensors_of(model_);
    change(all);
    return Files{{kWeightsFile, safetensors_of(all)}};
  };
  const std::string whole = files_.at(kWeightsFile), configuration = folder_ / kConfigFile,
                    weights = folder_ / kWeightsFile;
  const nlohmann::json vast = {{"hidden_size", 1 << 20}, {"intermediate_size", (1LL << 31) - 1}};
  nlohmann::json vaster = vast;  // what it claims takes no memory before the weights agree
  vaster["num_hidden_layers"] = 10000;
  const std::string gate = "model.layers.0.mlp.gate_proj.weight";
  for (const auto& [damage, parts] : std::vector<std::pair<Files, std::vector<std::string>>>{
           {{{kWeightsFile, {}}}, {weights}},
           {{{kWeightsFile, whole.substr(0, whole.size() - 1)}}, {weights}},
           {{{kConfigFile, "{\"model_type\": {"}}, {configuration, "not valid JSON"}},
           {with({{"colour", 1}}), {configuration, "'colour'"}},
           {with({{"vocab_size", 7}}), {"'vocab_size' is 7, but tokenizer.json has 6 tokens"}},
           {with(vast), {"model.embed_tokens.weight has shape [6,8]"}},
           {with(vaster), {"too many for 64 bits"}},
           {with_tensors([&](Tensors& t) {  // the same size, but another shape
              std::ranges::find(t, gate, &TensorSource::name)->shape = {8, 24};
            }),
            {"gate_proj.weight has shape [8,24]"}},
           {with_tensors([](Tensors& t) { t[1].dtype = Dtype::i32; }), {"has dtype I32"}},
           {with_tensors([](Tensors& t) { t.pop_back(); }), {"lm_head.weight", weights}},
           {with_tensors([](Tensors& t) {
              t.push_back(t.front());
              t.back().name = "model.layers.1.input_layernorm.weight";
            }),
            {"'model.layers.1.input_layernorm.weight' is no weight"}}})
    expect_error(damage, parts);
  fs::remove_all(folder_);
  EXPECT_NE(load_error().find(configuration), std::string::npos) << load_error();
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
  write({{kWeightsFile, safetensors_of(changed)}});
  expect_the_model();
}

TEST_F(CheckpointFolder, WithANumberThatIsNotFiniteIsReadOnlyIfThatIsAllowed) {
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  Real& key = model_.parameters().value(model_.parameters().find(name))[5];
  for (const auto& [wrong, text] : {std::pair(std::numeric_limits<Real>::quiet_NaN(), "nan"),
                                    {-std::numeric_limits<Real>::infinity(), "-inf"}}) {
    key = wrong;
    expect_error(
        {{kWeightsFile, safetensors_of(tensors_of(model_))}},
        {(folder_ / kWeightsFile).string() + ": " + name + " is " + text + " at element 5; "});
    EXPECT_NO_THROW(load_checkpoint(folder_, NonFinite::allowed));
  }
  EXPECT_THROW(save_checkpoint(parent_.path() / "new", model_, vocabulary()), NonFiniteError);
  EXPECT_EQ(entries_beside(), 1);
}

TEST_F(CheckpointFolder, WithALineMissingFromItsChecksumsIsRefused) {
  const std::string whole = read_file(folder_ / kSumsFile);
  for (const std::string& name : kFiles) {
    const std::size_t end = whole.find("  " + name + "\n") + name.size() + 3;
    const std::size_t begin = whole.rfind('\n', end - 2) + 1;
    write_file_durably(folder_ / kSumsFile, std::string(whole).erase(begin, end - begin));
    EXPECT_EQ(load_error(),
              (folder_ / kSumsFile).string() + " is damaged: it has no line for " + name);
  }
  expect_error({{kSumsFile, whole + std::string(64, '0') + "  ../secret\n"}},
               {"SHA256SUMS is damaged"});
  for (std::size_t length = 1; length < whole.size() - 1; length += 13) {
    write_file_durably(folder_ / kSumsFile, whole.substr(0, length));
    EXPECT_NE(load_error(), "no error") << length;
  }
}

TEST_F(CheckpointFolder, WithTiedWeightsIsReadWithAHeadThatIsTheEmbedding) {
  const LanguageModel tied = saved_model("on");
  files_ = checkpoint_files(tied, vocabulary());
  Tensors tensors = tensors_of(tied);
  tensors.push_back(tensors.front());
  ASSERT_EQ(tensors.back().name, "model.embed_tokens.weight");
  tensors.back().name = "lm_head.weight";
  write({{kWeightsFile, safetensors_of(tensors)}});
  EXPECT_EQ(load_error(), "no error");
  std::vector<Real> other(tied.parameters().value({0}).begin(), tied.parameters().value({0}).end());
  other.back() += 1;
  tensors.back().data = other.data();
  expect_error(
      {{kWeightsFile, safetensors_of(tensors)}},
      {"lm_head.weight differs from model.embed_tokens.weight, but config.json ties both"});
}

// Weights in two files, and the index that says which file has which.
TEST_F(CheckpointFolder, WithShardsIsReadAsOneFileAndRefusedByWhatIsWrong) {
  const std::string first = "model-00001-of-00002.safetensors",
                    second = "model-00002-of-00002.safetensors",
                    index = "model.safetensors.index.json";
  const Tensors all = tensors_of(model_);
  const std::span tensors(all);
  nlohmann::json map;
  for (const TensorSource& tensor : all) map[tensor.name] = second;
  for (const TensorSource& tensor : tensors.first(3)) map[tensor.name] = first;
  const auto index_of = [](const nlohmann::json& names) {
    return nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", names}}.dump();
  };
  Files shards = {{kWeightsFile, {}},
                  {first, safetensors_of(tensors.first(3))},
                  {second, safetensors_of(tensors.subspan(3))},
                  {index, index_of(map)}};
  write(shards);
  EXPECT_EQ(find_checkpoint(folder_), folder_);
  expect_the_model();
  for (const std::string name : {"../step-8/model.safetensors", "/etc/passwd", "..", "", "a\\b"}) {
    nlohmann::json other = map;
    other[all[0].name] = name;
    shards[index] = index_of(other);
    expect_error(shards, {"which is no file in this folder"});
  }
  for (const char* text : {"{}", R"({"weight_map": {"a": 1}})", "{"}) {
    shards[index] = text;
    expect_error(shards, {index});
  }
  shards[index] = index_of(map);
  shards[second] = safetensors_of(tensors.subspan(3, all.size() - 4));
  expect_error(shards, {all.back().name, second});
  shards[second] = {};
  expect_error(shards, {second});
}

}  // namespace
}  // namespace headcount
