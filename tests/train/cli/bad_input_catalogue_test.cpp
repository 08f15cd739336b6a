// Everything that users have been seen to get wrong, and every way a file can be: the exit code,
// one line on standard error that names it, nothing on standard output, and no file changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "models/checkpoint/safetensors.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// The texts, runs and damaged checkpoints that the cases name.
const TrainFolder& world();

struct BadCase {
  const char* line;  // after "headcount "
  int code;
  const char* part;  // of the message
};

const std::string kDefaults =
    "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3";
const std::string kTrain = "train " + kDefaults + " ";

const BadCase kFlags[] = {
    {"trian", kUsage, "'trian' is no command"},
    {"TRAIN", kUsage, "'TRAIN' is no command"},
    {"-x", kUsage, "'-x'"},
    {"train --steps", kUsage, "steps"},
    {"TRAIN+ --quiet=false", kUsage, "--quiet takes no value"},
    {"TRAIN+ --attention=LONG", kUsage, "is no attention; known are mha"},
    {"TRAIN+ --data \xff", kUsage, "--data must be UTF-8"},
    {"TRAIN+ --steps 0", kUsage, "--steps must be between 1"},
    {"TRAIN+ --steps -5", kUsage, "--steps"},
    {"TRAIN+ --steps 1e3", kUsage, "'1e3'"},
    {"TRAIN+ --steps 99999999999999999999", kUsage, "--steps"},
    {"TRAIN+ --steps 2147483648", kUsage, "--steps"},
    {"TRAIN+ --steps 0x10", kUsage, "'0x10'"},
    {"TRAIN+ --stepz 3", kUsage, "stepz"},
    {"TRAIN+ --out a --out b", kUsage, "--out is given twice; give it once"},
    {"train --dim 32 --dim 8", kUsage, "--dim is given twice"},
    {"train --bias --bias off", kUsage, "--bias is given twice"},
    {"train --quiet --quiet", kUsage, "--quiet is given twice"},
    {"compare --attention mha --attention mqa", kUsage, "--attention is given twice"},
    {"sample --from run --from run", kUsage, "--from is given twice"},
    {"eval --from run --json --json", kUsage, "--json is given twice"},
    {"cost --heads 2 --heads=2", kUsage, "--heads is given twice"},
    {"TRAIN+ extra", kUsage, "'extra' is not a flag"},
    {"TRAIN+ --heads 3", kUsage, "--heads 3"},
    {"TRAIN+ --heads 0", kUsage, "--heads"},
    {"TRAIN+ --layers 10001", kUsage, "--layers"},
    {"TRAIN+ --dim 1048577", kUsage, "--dim"},
    {"TRAIN+ --context 0", kUsage, "--context"},
    {"TRAIN+ --context 5000", kData, "--context 5000 is not shorter than the training part"},
    {"TRAIN+ --lr nan", kUsage, "--lr"},
    {"TRAIN+ --lr inf", kUsage, "--lr"},
    {"TRAIN+ --lr -1", kUsage, "--lr"},
    {"TRAIN+ --min-lr 1", kUsage, "--min-lr is greater than --lr"},
    {"TRAIN+ --steps 3000000 --accumulate 65536", kUsage,
     "--steps times --accumulate must be below"},
    {"TRAIN+ --dropout 0.99999999", kUsage, "--dropout rounds to 1"},
    {"TRAIN+ --dropout 1", kUsage, "--dropout must be at least 0 and below 1"},
    {"TRAIN+ --beta1 1", kUsage, "--beta1"},
    {"TRAIN+ --seed -1", kUsage, "--seed"},
    {"TRAIN+ --seed 18446744073709551616", kUsage, "--seed"},
    {"TRAIN+ --threads 1025", kUsage, "--threads"},
    {"TRAIN+ --keep 0", kUsage, "--keep"},
    {"TRAIN+ --attention gqq", kUsage,
     "--attention: 'gqq' is no attention; known are mha, mqa, gqa"},
    {"TRAIN+ --attention gqa --kv-heads 3", kUsage, "--kv-heads 3 does not divide"},
    {"TRAIN+ --attention mha --kv-heads 2", kUsage, "--kv-heads has no effect"},
    {"TRAIN+ --attention fox --kv-heads 3", kUsage, "--kv-heads 3 does not divide --heads"},
    {"TRAIN+ --attention fox --positions rope", kUsage,
     "--positions rope rotates nothing: --attention fox has no rotary positions; leave it out"},
    {"TRAIN+ --layers 2 --attention fox/delta --rope-theta 100", kUsage,
     "--rope-theta 100 rotates nothing: --attention fox/delta has no rotary positions"},
    {"TRAIN+ --attention fox --rope-dim 4", kUsage, "--rope-dim has no effect"},
    {"TRAIN+ --attention mha --qk-norm on", kUsage, "--qk-norm has no effect"},
    {"TRAIN+ --attention mla --rope-dim 3", kUsage, "--rope-dim must be even"},
    {"TRAIN+ --score-scale big", kUsage, "--score-scale"},
    {"TRAIN+ --attention delta --score-scale none", kUsage,
     "--score-scale none changes nothing: --attention delta sets another score-scale"},
    {"TRAIN+ --attention delta --window 3", kUsage, "delta has no --window: it keeps a state"},
    {"TRAIN+ --attention kda --window 3", kUsage, "kda has no --window: it keeps a state"},
    {"TRAIN+ --attention kda --key-heads 3", kUsage, "--key-heads 3 does not divide --value-heads"},
    {"TRAIN+ --attention kda --positions rope", kUsage, "--positions rope rotates nothing"},
    {"TRAIN+ --attention kda --conv-taps 0", kUsage, "--conv-taps must be"},
    {"TRAIN+ --attention delta --gate-bias off", kUsage, "--gate-bias has no effect"},
    {"TRAIN+ --attention delta --sinks on", kUsage,
     "--sinks are scores of a softmax, and delta has none"},
    {"TRAIN+ --attention mla --value-residual 0.5", kUsage,
     "--value-residual mixes values of heads, which mla"},
    {"TRAIN+ --value-residual 1", kUsage, "--value-residual must be at least 0 and below 1"},
    {"TRAIN+ --layers 3 --attention mqa@4/mqa/share@5", kUsage,
     "no earlier layer keeps rows with a window of 5 tokens"},
    {"TRAIN+ --layers 1 --value-residual 0.5", kUsage,
     "no layer after the first has it; leave it 0"},
    {"TRAIN+ --layers 2 --attention delta/kda --window 3", kUsage,
     "delta has no --window: it keeps a state"},
    {"TRAIN+ --canon-taps 7", kUsage, "--canon-taps has no effect with --canon off"},
    {"TRAIN+ --canon AE", kUsage, "--canon: 'AE' is not off or letters of A, B, C and D"},
    {"TRAIN+ --canon=", kUsage, "--canon"},
    {"TRAIN+ --canon-taps 0", kUsage, "--canon-taps must be between 1"},
    {"TRAIN+ --attention delta --canon AB", kUsage,
     "--canon B convolves queries, keys and values, and delta has none for it"},
    {"TRAIN+ --attention hca --compress 0", kUsage, "--compress must be between 1"},
    {"TRAIN+ --attention csa --compress 0", kUsage, "--compress must be between 1"},
    {"TRAIN+ --attention csa --index-topk 0", kUsage, "--index-topk must be between 1"},
    {"TRAIN+ --attention csa0+4", kUsage, "--compress must be between 1"},
    {"TRAIN+ --attention csa4+0", kUsage, "--index-topk must be between 1"},
    {"TRAIN+ --attention csa --index-heads 0", kUsage, "--index-heads must be between 1"},
    {"TRAIN+ --attention csa --index-head-dim 2 --rope-dim 4", kUsage,
     "--index-head-dim 2 is less than the --rope-dim 4"},
    {"TRAIN+ --attention csa --index-loss -1", kUsage, "--index-loss must be"},
    {"TRAIN+ --attention hca --index-topk 4", kUsage, "--index-topk has no effect"},
    {"TRAIN+ --attention v4 --compress 4", kUsage, "--compress has no effect"},
    {"TRAIN+ --attention v4 --o-groups 3", kUsage, "--o-groups 3 does not divide --heads 2"},
    {"TRAIN+ --sinks maybe", kUsage, "--sinks must be one of on, off"},
    {"TRAIN+ --positions sinus", kUsage, "--positions must be one of"},
    {"TRAIN+ --precision f16", kUsage, "--precision must be one of f32, bf16"},
    {"TRAIN+ --progress maybe", kUsage, "--progress must be one of"},
    {"TRAIN+ --preset nanogpt", kUsage, "--preset must be one of nanogpt-cpu"},
    {"TRAIN+ --kinds 3", kUsage, "--kinds has no effect"},
    {"train --data lookup --context 100", kUsage, "--context must be a multiple of 16"},
    {"compare --attention mha,", kUsage, "'' is no attention"},
    {"compare --attention mha,mla48+", kUsage, "'mla48+' is no attention"},
    {"compare --attention mha --seeds 1 --data text.txt", kUsage, "--seeds 1 gives no"},
    {"compare --match kv=1 --attention mla --data lookup", kUsage, "nearest"},
    {"compare --sweep lr --data lookup", kUsage, "--sweep must be a setting with values"},
    {"compare --seed 3", kUsage, "seed"},
    {"compare --sweep precision=f32,bf16 --data lookup", kUsage, "--sweep"},
    {"sample", kUsage, "--from is missing"},
    {"sample --from run --tokens 0", kUsage, "--tokens"},
    {"sample --from run --temperature -1", kUsage, "--temperature"},
    {"sample --from run --top-p 2", kUsage, "--top-p"},
    {"sample --from run --cache maybe", kUsage, "--cache must be one of on, off"},
    {"sample --from run --repeat 0", kUsage, "--repeat"},
    {"sample --from run --precision tf32", kUsage, "--precision must be one of f32, bf16"},
    {"sample --from run --cache off --cache-dtype f16", kUsage,
     "--cache-dtype has no effect with --cache off; leave one"},
    {"sample --from run --cache off --mla expanded", kUsage,
     "--mla has no effect with --cache off"},
    {"sample --from run --mla absorbed", kUsage,
     "--mla does not apply to run, whose attention is mha"},
    {"eval", kUsage, "--from is missing"},
    {"eval --from run --cache-dtype f64", kUsage, "--cache-dtype must be one of"},
    {"eval --from run --window 0", kUsage, "--window"},
    {"eval --from run --precision 16", kUsage, "--precision must be one of f32, bf16"},
    {"cost --context 0", kUsage, "--context"},
    {"cost --attention gqa2 --kv-heads 4", kUsage,
     "--kv-heads 4 changes nothing: --attention gqa2"},
    {"cost --kv-heads 4 --attention gqa2", kUsage,
     "--kv-heads 4 changes nothing: --attention gqa2"},
    {"cost --layers 10000 --dim 1048576 --context 16777216 --heads 1048576 --ffn-dim 2147483647",
     kUsage, "64 bits"},
    {"cost --csv --json", kUsage, "--csv does not go with --json: both say how to print"},
    {"cost --preset gpt-5", kUsage, "--preset must be one of"},
};

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
    {"TRAIN+ --out=", kUsage, "--out is empty"},
    {"TRAIN+ --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out=", kUsage, "--out is empty"},
    {"compare --data text.txt --context 16 --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out text.txt", kUsage, "--out text.txt is a file"},
    {"compare --data text.txt --context 16 --out loop", kUsage, "--out loop cannot be read"},
    {"TRAIN+ --out text.txt/run", kRuntime, "cannot write text.txt/run"},
    {"TRAIN+ --out /proc/run", kRuntime, "cannot write /proc/run"},
    {"TRAIN+ --out /dev/full", kUsage, "--out /dev/full is a file"},
    {"TRAIN+ --init nowhere", kData, "nowhere/config.json"},
    {"TRAIN+ --init flipped", kData, "flipped/model.safetensors is damaged"},
    {"TRAIN+ --resume nowhere", kUsage, "--resume"},
    {"train --resume nowhere", kData, "nowhere/config.json"},
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
    {"eval --from run --data short.txt", kData, "short.txt"},
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
}  // namespace headcount
