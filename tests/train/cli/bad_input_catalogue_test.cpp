// label: unsanitized
// Everything that users have been seen to get wrong, and every way a file can be: the exit code,
// one line on standard error that names it, nothing on standard output, and no file changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "models/checkpoint/safetensors.h"
#include "train/cli/bad_flags.h"
#include "train/run/lock.h"
#include "train/run_program.h"

namespace headcount::bad_input {
namespace {

namespace fs = std::filesystem;

// The texts, runs and damaged checkpoints that the cases name.
const TrainFolder& world();

const BadCase kFiles[] = {
    {"TRAIN+ --data nowhere.txt", kData, "nowhere.txt"},
    {"TRAIN+ --data folder", kData, "folder"},
    {"TRAIN+ --data empty.txt", kData, "empty.txt"},
    {"TRAIN+ --data binary.txt", kData, "binary.txt"},
    {"TRAIN+ --data latin1.txt", kData, "invalid byte at offset 3"},
    {"TRAIN+ --data one.txt", kData, "one.txt"},
    {"TRAIN+ --data short.txt", kData, "short.txt"},
    {"TRAIN+ --data hundred.txt --context 10", kData,
     "--context 10 is not shorter than the validation part of hundred.txt, 10 characters"},
    {"TRAIN+ --config nowhere.json", kData, "nowhere.json"},
    {"TRAIN+ --config broken.json", kData, "broken.json: not valid JSON"},
    {"TRAIN+ --config unknown.json", kData, "'colour'"},
    {"TRAIN+ --config deep.json", kData, "deep.json: not valid JSON: nested"},
    {"TRAIN+ --out run", kUsage, "--out run is not empty"},
    {"TRAIN+ --out text.txt", kUsage, "--out text.txt is a file"},
    {"TRAIN+ --out folder/full --force", kUsage, "holds no run that --force may replace"},
    {"TRAIN+ --out loop", kUsage, "--out loop cannot be read"},
    {"TRAIN+ --out run --force --data run/metrics.jsonl", kUsage,
     "--data run/metrics.jsonl lies in --out run, whose contents the new run would replace"},
    {"eval --from run/checkpoints/step-3 --data text.txt --logits run/metrics.jsonl", kUsage,
     "--logits run/metrics.jsonl is a file of run"},
    {"TRAIN+ --out=", kUsage, "--out is empty"},
    {"TRAIN+ --init=", kUsage, "--init is empty"},
    {"train --data=", kUsage, "--data is empty"},
    {"TRAIN+ --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out=", kUsage, "--out is empty"},
    {"compare --data text.txt --context 16 --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out text.txt", kUsage, "--out text.txt is a file"},
    {"compare --data text.txt --context 16 --out loop", kUsage, "--out loop cannot be read"},
    {"TRAIN+ --out text.txt/run", kRuntime, "cannot write text.txt/run"},
    {"TRAIN+ --out /proc/run", kRuntime, "cannot write /proc/run"},
    {"TRAIN+ --out /dev/full", kUsage, "--out /dev/full is a file"},
    {"TRAIN+ --init nowhere", kData, "--init: 'nowhere' is no run folder and no checkpoint"},
    {"TRAIN+ --init flipped", kData, "flipped/model.safetensors is damaged"},
    {"TRAIN+ --resume nowhere", kUsage, "--resume"},
    {"train --data talse", kData,
     "--data 'talse' is neither a file nor one of the built-in texts, tales, lookup, mqar, recall"},
    {"train --resume nowhere", kData, "--resume: 'nowhere' is no run folder"},
    {"train --resume run/checkpoints/step-3", kData,
     "'run/checkpoints/step-3' is a checkpoint, no run folder; name its run, or begin a new run "
     "with its weights by --init"},
    {"train --resume run --seed 5", kUsage, "--seed is 5, but the run in run has 1"},
    {"train --resume run --out other", kUsage, "--out does not go with --resume"},
    {"train --resume run --force", kUsage, "--force does not go with --resume"},
    {"train --resume hollow", kData, "hollow/run.json"},
    {"train --resume odd-record", kData, "odd-record/run.json is damaged: 'starts' must be a list"},
    {"eval --from odd-record", kData, "odd-record/run.json is damaged"},
    {"train --resume shut", kData, "shut/checkpoints cannot be read"},
    {"sample --from shut", kData, "shut/checkpoints cannot be read"},
    {"train --resume=", kUsage, "--resume is empty"},
    {"compare --data lookup --out text.txt/c", kRuntime, "cannot write text.txt/c"},
    {"compare --data nowhere.txt", kData, "nowhere.txt"},
    {"sample --from nowhere", kData, "'nowhere' is no run folder and no checkpoint"},
    {"sample --from text.txt", kData, "'text.txt' is no run folder"},
    {"sample --from run --prompt ~", kData, "lacks '~'"},
    {"eval --from run --data empty.txt", kData, "empty.txt"},
    {"eval --from run --data single.txt", kData, "--data single.txt has one character"},
    {"eval --from run/checkpoints/step-3 --best", kData, "name its run for the best one"},
    {"TRAIN+ --validation nowhere.txt", kData, "--validation 'nowhere.txt' is no file"},
    {"TRAIN+ --validation short.txt", kData, "is not shorter than the validation part"},
    {"eval --from llama", kUsage, "give the text with --data"},
    {"cost --from nowhere", kData, "nowhere"},
    {"TRAIN+ --lr 100 --min-lr 100 --warmup 0 --weight-decay 100 --grad-clip 0 --steps 60 --out d",
     kDiverged, "at step"},
};

// Every file of a checkpoint, damaged in each of several ways.
const BadCase kCheckpoints[] = {
    {"sample --from flipped", kData, "flipped/model.safetensors is damaged: its checksum"},
    {"sample --from flipped-config", kData, "flipped-config/config.json is damaged"},
    {"sample --from flipped-tokenizer", kData, "flipped-tokenizer/tokenizer.json is damaged"},
    {"sample --from no-sums-line", kData, "SHA256SUMS is damaged"},
    {"sample --from no-config", kData, "no-config/config.json"},
    {"sample --from no-tokenizer", kData, "no-tokenizer/tokenizer.json"},
    {"sample --from empty-weights", kData, "empty-weights/model.safetensors"},
    {"sample --from short-weights", kData, "short-weights/model.safetensors"},
    {"sample --from long-weights", kData, "long-weights/model.safetensors"},
    {"sample --from huge-header", kData, "huge-header/model.safetensors"},
    {"sample --from no-header", kData, "no-header/model.safetensors"},
    {"sample --from text-weights", kData, "text-weights/model.safetensors"},
    {"sample --from one-tensor", kData, "is missing"},
    {"sample --from wrong-type", kData, "model.embed_tokens.weight"},
    {"sample --from not-json", kData, "not-json/config.json: not valid JSON"},
    {"sample --from other-family", kData, "'model_type' is \"bert\""},
    {"sample --from stretched", kData, "'rope_scaling'"},
    {"sample --from wide", kData, "the configuration wants"},
    {"sample --from negative", kData, "'hidden_size'"},
    {"sample --from vast", kData, "wants [20,65536]"},
    {"sample --from words", kData, "every token is one character"},
    {"sample --from gaps", kData, "and the id 913; ids must be 0, 1, 2"},
    {"sample --from other-size", kData, "'vocab_size' is"},
    {"train --resume no-moments", kData, "optimizer.safetensors"},
    {"train --resume no-state", kData, "trainer_state.json"},
    {"train --resume bad-state", kData, "trainer_state.json"},
};

std::string with_edit(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no " + from + " in " + text);
  return std::string(text).replace(at, from.size(), to);
}

class World {
 public:
  World() {
    const std::string text = folder_.contents("text.txt");
    folder_.file("empty.txt", "");
    folder_.file("binary.txt", text + std::string("\0\1\2", 3));
    folder_.file("latin1.txt", "caf\xe9 au lait");
    folder_.file("one.txt", std::string(500, 'a'));
    folder_.file("short.txt", "0 is a");
    folder_.file("single.txt", "0");
    std::string hundred;  // characters, the last ten of them for validation
    for (int i = 0; i < 50; ++i) hundred += "ab";
    folder_.file("hundred.txt", hundred);
    folder_.file("broken.json", "{\"steps\": 3");
    folder_.file("unknown.json", "{\"colour\": \"red\"}");
    folder_.file("deep.json", std::string(3000, '['));
    fs::create_directories(folder_ / "folder/full/samples");
    folder_.file("folder/full/samples/music.wav", "mine");
    fs::create_symlink("loop", folder_ / "loop");
    const ProgramResult result = folder_.headcount(kTrain + "--quiet --out run");
    if (result.exit_code != 0) throw std::runtime_error(result.err);
    damage_checkpoints();
    damage_runs();
  }
  const TrainFolder& folder() const { return folder_; }

 private:
  // A copy of the checkpoint as `name`, with one file changed; as if made elsewhere, unless `sums`.
  void checkpoint(const std::string& name, const std::string& file,
                  const std::function<std::string(const std::string&)>& change, bool sums = false) {
    fs::copy(folder_ / "run/checkpoints/step-3", folder_ / name, fs::copy_options::recursive);
    if (!sums) fs::remove(folder_ / name / "SHA256SUMS");
    const std::string path = name + "/" + file;
    const std::string changed = change(folder_.contents(path));
    fs::remove(folder_ / path);
    if (changed != "removed") folder_.file(path, changed);
  }
  void damage_checkpoints() {
    const auto flip = [](std::string bytes) {
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      return bytes;
    };
    const auto replace = [](const std::string& with) {
      return [=](const std::string&) { return with; };
    };
    const auto edit = [](const std::string& from, const std::string& to) {
      return [=](const std::string& text) { return with_edit(text, from, to); };
    };
    const std::string weights = "model.safetensors", config = "config.json";
    checkpoint("flipped", weights, flip, true);
    checkpoint("flipped-config", config, flip, true);
    checkpoint("flipped-tokenizer", "tokenizer.json", flip, true);
    checkpoint("no-sums-line", "SHA256SUMS", replace("nonsense\n"), false);
    checkpoint("no-config", config, replace("removed"));
    checkpoint("no-tokenizer", "tokenizer.json", replace("removed"));
    checkpoint("empty-weights", weights, replace(""));
    checkpoint("short-weights", weights,
               [](const std::string& b) { return b.substr(0, b.size() - 1); });
    checkpoint("long-weights", weights, [](const std::string& b) { return b + "x"; });
    checkpoint("huge-header", weights,
               [](const std::string& b) { return std::string(8, '\x7f') + b.substr(8); });
    checkpoint("no-header", weights, replace(std::string("\2\0\0\0\0\0\0\0{}", 10)));
    checkpoint("text-weights", weights, replace("These are no weights at all, but a text.\n"));
    const std::string header =
        R"({"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    checkpoint("one-tensor", weights,
               replace(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                       header + std::string(4, '\0')));
    checkpoint("wrong-type", weights, edit("\"F32\"", "\"I32\""));
    checkpoint("not-json", config, replace("{\"model_type\": \"llama\""));
    checkpoint("other-family", config, edit("\"llama\"", "\"bert\""));
    checkpoint("stretched", config,
               edit("\"rope_scaling\": null", "\"rope_scaling\": {\"factor\": 2}"));
    checkpoint("wide", config, edit("\"hidden_size\": 16", "\"hidden_size\": 24"));
    checkpoint("negative", config, edit("\"hidden_size\": 16", "\"hidden_size\": -16"));
    checkpoint("vast", config, edit("\"hidden_size\": 16", "\"hidden_size\": 65536"));
    checkpoint("words", "tokenizer.json", edit("\"a\": ", "\"abc\": "));
    checkpoint("gaps", "tokenizer.json", edit("\"a\": ", "\"a\": 9"));
    checkpoint("other-size", config, edit("\"vocab_size\": ", "\"vocab_size\": 1"));
    checkpoint("llama", "SHA256SUMS", replace("removed"));
  }
  void damage_runs() {
    const auto run = [&](const std::string& name) {
      fs::copy(folder_ / "run", folder_ / name, fs::copy_options::recursive);
      fs::remove(folder_ / name / "checkpoints/step-3/SHA256SUMS");
      return name + "/checkpoints/step-3/";
    };
    fs::remove(folder_ / (run("no-moments") + "optimizer.safetensors"));
    fs::remove(folder_ / (run("no-state") + "trainer_state.json"));
    folder_.file(run("bad-state") + "trainer_state.json", "{\"step\": \"three\"}");
    run("odd-record");
    folder_.file("odd-record/run.json",
                 with_edit(folder_.contents("odd-record/run.json"), "[", "\"none\", \"more\": ["));
    run("hollow");
    fs::remove(folder_ / "hollow/run.json");
    run("shut");
    fs::remove_all(folder_ / "shut/checkpoints");
    fs::create_symlink("checkpoints", folder_ / "shut/checkpoints");
  }

  TrainFolder folder_;
};

const TrainFolder& world() {
  static const World world;
  return world.folder();
}

std::map<std::string, std::string> all_files() {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(world().path())) {
    std::error_code loop;
    if (entry.is_regular_file(loop))
      files[entry.path().lexically_relative(world().path())] = file_contents(entry.path());
  }
  return files;
}

void expect_refused(const BadCase& c) {
  std::string line = c.line;
  if (line.starts_with("TRAIN+")) {
    line = "train " + over_defaults(kDefaults, line.substr(6));
    const std::size_t longest = line.find("LONG");
    if (longest != std::string::npos) line.replace(longest, 4, std::string(100000, 'a'));
    if (line.find("--out") == std::string::npos) line += " --out fresh";
  }
  const auto before = all_files();
  expect_refusal(world().headcount(line + (c.code == kDiverged ? " --quiet" : "")), c.code,
                 {c.part}, line);
  const auto after = all_files();
  for (const auto& [name, contents] : before) {
    if (fs::path(name).filename() == kLockFile) continue;
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name), contents) << name;
  }
  EXPECT_FALSE(world().has("fresh"));
}

TEST(BadInputCatalogue, Flags) {
  for (const BadCase& c : kFlags) expect_refused(c);
}

TEST(BadInputCatalogue, Files) {
  for (const BadCase& c : kFiles) expect_refused(c);
}

TEST(BadInputCatalogue, Checkpoints) {
  for (const BadCase& c : kCheckpoints) expect_refused(c);
}

// A disk without room, as a limit on the size of files makes one.
TEST(BadInputCatalogue, FullDisk) {
  const std::string program = HEADCOUNT_PROGRAM;
  const auto shell = [&](const std::string& command) {
    const std::string all =
        "cd '" + world().path().string() + "' && " + command + " >out.captured 2>err.captured";
    const int status = std::system(all.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string limited = "sh -c \"ulimit -f 8; exec '" + program + "' ";
  EXPECT_EQ(shell(limited + kTrain + "--quiet --out small\""), kRuntime);
  EXPECT_EQ(world().contents("out.captured"), "");
  EXPECT_EQ(world().contents("err.captured"),
            "headcount: cannot write small/checkpoints/step-3/model.safetensors: File too large; "
            "raise the limit that ulimit -f shows\n");
  EXPECT_FALSE(world().has("small/checkpoints/step-3"));
  // With room it goes on.
  EXPECT_EQ(world().headcount("train --quiet --resume small").exit_code, 0);

  EXPECT_EQ(shell("'" + program + "' cost > /dev/full 2>err.captured; echo $? "), 0);
  EXPECT_EQ(world().contents("out.captured"), "1\n");
  EXPECT_EQ(world().contents("err.captured"), "");
}

}  // namespace
}  // namespace headcount::bad_input
