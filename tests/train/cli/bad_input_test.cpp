// label: unsanitized
// What the program says to flags and files that it cannot use: the exit code, one line on standard
// error that names the flag or the file, nothing on standard output, and no file changed.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/checkpoint/durable.h"
#include "train/run/lock.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

struct BadCase {
  const char* line;  // after "headcount "; + stands for a run of a small model
  const char* part;  // of the message
};

// Flags that contradict each other, and those that nobody has.
const BadCase kUsages[] = {
    {"trian", "'trian' is no command"},
    {"train --steps", "steps"},
    {"+ --quiet=false", "--quiet takes no value"},
    {"train --out --print-config",
     "--out has no value before --print-config; give it one, or write --out=--print-config"},
    {"train --force", "--force replaces the run in --out, which is missing"},
    {"+ --attention=LONG", "is no attention; known are mha"},
    {"+ --data \xff", "--data must be UTF-8"},
    {"+ --out a --out b", "--out is given twice; give it once"},
    {"+ extra", "'extra' is not a flag"},
    {"+ --heads 3", "--heads 3"},
    {"+ --stop-after 3 --eval-every 0", "raise --eval-every and --checkpoint-every"},
    {"+ --stop-after 3 --checkpoint-every 0", "--stop-after 3 needs evaluations"},
    {"+ --stop-at-loss 1 --eval-every 0", "raise --eval-every above 0"},
    {"+ --stop-at-answers 95", "marks no answers; take a built-in text, or --stop-at"},
    {"+ --validation text.txt --validation-part 0.2",
     "--validation-part has no effect with --validation text.txt"},
    {"train --data tales --validation text.txt", "--validation has no effect with --data tales"},
    {"train --data tales --newlines keep", "--newlines has no effect with --data tales"},
    {"+ --min-lr 1", "--min-lr is greater than --lr"},
    {"+ --steps 3000000 --accumulate 65536", "--steps times --accumulate must be below"},
    {"+ --dropout 0.999999", "--dropout must be 0, or 1/65536 to 1 - 1/65536"},
    {"+ --decay constant --min-lr 0",
     "--min-lr has no effect with --decay constant, which keeps the peak rate"},
    {"+ --attention gqq", "--attention: 'gqq' is no attention; did you mean gqa?"},
    {"compare --attention mha mqa",
     "'mqa' is not a flag; commas separate the values of a list: mha,mqa; see"},
    {"+ --attention mla --head-dim 1",
     "--head-dim 1 leaves --positions rope no pair of dimensions to rotate; raise it"},
    {"+ --attention gqa --rope-dim 4 --positions none",
     "--rope-dim 4 rotates nothing with --positions none; leave it out"},
    {"+ --attention fox --positions rope",
     "--positions rope rotates nothing: --attention fox has no rotary positions; leave it out"},
    {"+ --layers 2 --attention fox/delta --rope-theta 100",
     "--rope-theta 100 rotates nothing: --attention fox/delta has no rotary positions"},
    {"+ --attention v4 --qk-norm on",
     "--qk-norm is not for v4: its queries and its row are normed without it; leave --qk-norm off"},
    {"+ --attention tpa --qk-norm on", "--qk-norm is not for tpa: RoPE rotates its"},
    {"+ --attention delta --qk-norm on", "--qk-norm is not for delta: it has no"},
    {"+ --attention delta --score-scale none",
     "--score-scale none changes nothing: --attention delta sets another score-scale"},
    {"+ --attention delta --window 3", "delta has no --window: it keeps a state"},
    {"+ --attention delta --score-cap 9", "--score-cap 9 changes nothing"},
    {"+ --score-cap 9 --score-scale row-norm", "--score-cap limits scores that"},
    {"+ --attention delta --sinks on", "--sinks are scores of a softmax, and delta has none"},
    {"+ --attention mla --value-residual 0.5", "--value-residual mixes values of heads, which mla"},
    {"+ --layers 3 --attention mqa@4/mqa/share@5",
     "no earlier layer keeps rows with a window of 5 tokens"},
    {"+ --layers 1 --value-residual 0.5", "no layer after the first has it; leave it 0"},
    {"+ --attention mha:canon-taps=9",
     "--canon-taps 9 in mha:canon-taps=9 has no effect with --canon off, which convolves nothing; "
     "leave it out"},
    {"+ --canon-taps 7", "--canon-taps has no effect with --canon off"},
    {"+ --canon AE", "--canon: 'AE' is not off or letters of A, B, C and D"},
    {"+ --canon=", "--canon"},
    {"+ --attention delta --canon AB",
     "--canon B convolves queries, keys and values, and delta has none for it"},
    {"+ --attention csa --index-head-dim 2 --rope-dim 4",
     "--index-head-dim 2 is less than the --rope-dim 4"},
    {"+ --attention v4 --o-groups 3", "--o-groups 3 does not divide --heads 2"},
    {"+ --preset shakespeare --config no.json",
     "--preset does not go with --config: both give settings; name one of them"},
    {"+ --progress maybe", "--progress must be one of"},
    {"+ --preset nanogpt", "--preset must be one of nanogpt-cpu"},
    {"train --data lookup --context 100", "--context must be a multiple of 16"},
    {"sample --from run --cache off --cache-dtype f16",
     "--cache-dtype has no effect with --cache off; leave one"},
    {"sample --from run --cache off --mla expanded", "--mla has no effect with --cache off"},
    {"sample --from run --mla absorbed", "--mla does not apply to run, whose attention is mha"},
    {"eval --from run --cache-dtype latent=int4", "does not keep"},
    {"eval --from run --cache-dtype k=int4,k=int2", "names the part 'k' twice"},
    {"eval --from run --cache-dtype int4,v=int2", "names no part"},
    {"eval --from run --cache-dtype int4 --cache-group 5", "--cache-group 5 does not"},
    {"eval --from run --cache-dtype f16 --cache-group 4", "have no scale"},
    {"eval --from run --cache-recent 4", "--cache-recent has no effect with"},
    {"eval --from run --cache-dtype f16 --cache-levels normal", "has its own levels"},
    {"cost --attention gqa2 --kv-heads 4", "--kv-heads 4 changes nothing: --attention gqa2"},
    {"cost --layers 10000 --dim 1048576 --context 16777216 --heads 1048576 --ffn-dim 2147483647",
     "64 bits"},
    {"+ -n 3", "unknown flag -n;"},
    {"+ --atention mha", "see headcount train --help; did you mean --attention?"},
    {"+ --stesp=5", "unknown flag --stesp; see headcount train --help; did you mean --steps?"},
    {"+ -steps 5", "unknown flag -steps; see headcount train --help; did you mean --steps?"},
    {"help smaple", "did you mean sample?"},
    {"+ --optimizer adamw --muon-weight-decay 0", "--muon-weight-decay has no effect"},
    {"+ --attention mqa@4/mha@5 --layers 2 --window 3",
     "--window has no effect with --attention mqa@4/mha@5"},
    {"+ --attention mqa/mha --layers 2 --kv-rank 3",
     "--kv-rank has no effect with --attention mqa/mha"},
    {"+ --attention mqa/share/mha --layers 2",
     "--attention mqa/share/mha needs 3 layers or more, --layers is 2"},
    {"+ --attention gqa1 --kv-heads 2", "--kv-heads 2 changes nothing"},
    {"+ --data mqar --pairs 17",
     "--line-length must be even and at least 4 times --pairs, 68, is 64"},
    {"sample --tokens 5", "--from is missing"},
    {"eval --format json", "--from is missing"},
    {"eval --from run --tokens 3", "--tokens"},
    {"eval --from run/checkpoints/step-3", "give the text with --data"},
    {"cost --dim 256 --heads 3", "--heads 3 does not divide --dim 256"},
    {"cost --memory 24GiB", "--memory"},
};

struct BadFile {
  const char* line;
  int code;
  const char* part;
};

// Files and folders as they can be.
const BadFile kFiles[] = {
    {"+ --data nowhere.txt", kData, "nowhere.txt"},
    {"+ --data folder", kData, "folder"},
    {"+ --data empty.txt", kData, "empty.txt"},
    {"+ --data binary.txt", kData, "binary.txt"},
    {"+ --data latin1.txt", kData, "invalid byte at offset 3"},
    {"+ --data one.txt", kData, "one.txt"},
    {"+ --data short.txt", kData, "short.txt"},
    {"+ --data hundred.txt --context 10", kData,
     "--context 10 is not shorter than the validation part of hundred.txt, 10 characters"},
    {"+ --config nowhere.json", kData, "nowhere.json"},
    {"+ --config broken.json", kData, "broken.json: not valid JSON"},
    {"+ --config unknown.json", kData, "'colour'"},
    {"+ --config deep.json", kData, "deep.json: not valid JSON: nested"},
    {"cost --config qwen", kData, "called 'qwen'; --list names those known"},
    {"+ --out run", kUsage, "--out run is not empty"},
    {"+ --out text.txt", kUsage, "--out text.txt is a file"},
    {"+ --out folder/full --force", kUsage, "holds no run that --force may replace"},
    {"+ --out loop", kUsage, "--out loop cannot be read"},
    {"+ --out run --force --data run/metrics.jsonl", kUsage,
     "--data run/metrics.jsonl lies in --out run, whose contents the new run would replace"},
    {"eval --from run/checkpoints/step-3 --data text.txt --logits run/metrics.jsonl", kUsage,
     "--logits run/metrics.jsonl is there and holds no logits"},
    {"+ --out=", kUsage, "--out is empty"},
    {"+ --init=", kUsage, "--init is empty"},
    {"train --data=", kUsage, "--data is empty"},
    {"+ --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out=\xff", kUsage, "--out must be UTF-8"},
    {"compare --data text.txt --context 16 --out text.txt", kUsage, "--out text.txt is a file"},
    {"compare --data text.txt --context 16 --out loop", kUsage, "--out loop cannot be read"},
    {"+ --out text.txt/run", kRuntime, "cannot write text.txt/run"},
    {"+ --out /proc/run", kRuntime, "cannot write /proc/run"},
    {"+ --out /dev/full", kUsage, "--out /dev/full is a file"},
    {"+ --init nowhere", kData, "--init: 'nowhere' is no run folder and no checkpoint"},
    {"+ --init flipped", kData, "flipped/model.safetensors is damaged"},
    {"train --data talse", kData,
     "--data 'talse' is neither a file nor one of the built-in texts, tales, lookup, mqar, recall"},
    {"train --resume run/checkpoints/step-3", kData,
     "'run/checkpoints/step-3' is a checkpoint, no run folder; name its run, or begin a new run "
     "with its weights by --init"},
    {"train --resume run --force", kUsage, "--force does not go with --resume"},
    {"train --resume hollow", kData, "hollow/run.json"},
    {"train --resume odd-record", kData, "odd-record/run.json is damaged: 'starts' must be a list"},
    {"train --resume=", kUsage, "--resume is empty"},
    {"compare --data lookup --out text.txt/c", kRuntime, "cannot write text.txt/c"},
    {"sample --from nowhere", kData, "'nowhere' is no run folder and no checkpoint"},
    {"sample --from run --prompt ~", kData, "lacks '~'"},
    {"eval --from run --data empty.txt", kData, "empty.txt"},
    {"eval --from run --data single.txt", kData, "--data single.txt has one character"},
    {"eval --from run/checkpoints/step-3 --best", kData, "name its run for the best one"},
    {"+ --validation nowhere.txt", kData, "--validation 'nowhere.txt' is no file"},
    {"+ --validation short.txt", kData, "is not shorter than the validation part"},
    {"eval --from llama", kUsage, "give the text with --data"},
    {"+ --context 5000", kData, "--context 5000 is not shorter than the training part"},
    {"+ --config folder", kData, "'folder' is a folder"},
    {"+ --config empty.txt", kData, "'empty.txt' is empty"},
    {"+ --config list.json", kData, "--config list.json: a configuration must be a JSON object"},
    {"+ --config range.json", kData, "--config range.json: --steps must be between 1"},
    {"cost --from text.txt", kData, "--from: 'text.txt'"},
    {"cost --from bad", kData, "bad/config.json"},
    {"sample --from short-weights", kData, "model.safetensors"},
    {"sample --from flipped", kData, "flipped/model.safetensors is damaged: its checksum"},
    {"sample --from no-config", kData, "no-config/config.json"},
    {"sample --from no-tokenizer", kData, "no-tokenizer/tokenizer.json"},
    {"sample --from words", kData, "every token is one character"},
    {"train --resume no-moments", kData, "optimizer.safetensors"},
    {"train --resume no-state", kData, "trainer_state.json"},
    {"train --resume bad-state", kData, "trainer_state.json"},
};

const std::string kSmall =
    "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3";

// A folder with the texts, runs and damaged checkpoints that the cases name.
class World : public TrainFolder {
 public:
  World() {
    const std::string text = contents("text.txt");
    file("empty.txt", "");
    file("binary.txt", text + std::string("\0\1\2", 3));
    file("latin1.txt", "caf\xe9 au lait");
    file("one.txt", std::string(500, 'a'));
    file("short.txt", "0 is a");
    file("single.txt", "0");
    std::string hundred;  // characters, the last ten of them for validation
    for (int i = 0; i < 50; ++i) hundred += "ab";
    file("hundred.txt", hundred);
    file("broken.json", "{\"steps\": 3");
    file("unknown.json", "{\"colour\": \"red\"}");
    file("list.json", "[1, 2]");
    file("range.json", "{\"steps\": 0}");
    file("deep.json", std::string(3000, '['));
    for (const char* folder : {"folder/full/samples", "bad"})
      fs::create_directories(*this / folder);
    file("folder/full/samples/music.wav", "mine");
    file("bad/config.json", "{\"dim\": [16]}");
    fs::create_symlink("loop", *this / "loop");
    const ProgramResult result = headcount("train " + kSmall + " --quiet --out run");
    if (result.exit_code != 0) throw std::runtime_error(result.err);
    damage_checkpoints();
    damage_runs();
  }

 private:
  // A copy of the checkpoint as if made elsewhere, with one file changed; "" removes it.
  void checkpoint(const std::string& name, const std::string& changed,
                  const std::function<std::string(std::string)>& change) const {
    fs::copy(*this / "run/checkpoints/step-3", *this / name, fs::copy_options::recursive);
    if (name != "flipped") fs::remove(*this / name / "SHA256SUMS");
    const std::string path = name + "/" + changed, bytes = change(contents(path));
    fs::remove(*this / path);
    if (!bytes.empty()) file(path, bytes);
  }
  void damage_checkpoints() const {
    const auto none = [](const std::string&) { return std::string(); };
    checkpoint("flipped", "model.safetensors", [](std::string bytes) {
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      return bytes;
    });
    checkpoint("short-weights", "model.safetensors",
               [](const std::string& b) { return b.substr(0, b.size() - 1); });
    checkpoint("no-config", "config.json", none);
    checkpoint("no-tokenizer", "tokenizer.json", none);
    checkpoint("words", "tokenizer.json",
               [](std::string text) { return text.replace(text.find("\"a\": "), 5, "\"abc\": "); });
    checkpoint("llama", "tokenizer_config.json", [](std::string text) { return text; });
  }
  void damage_runs() const {
    const auto run = [&](const std::string& name) {
      fs::copy(*this / "run", *this / name, fs::copy_options::recursive);
      fs::remove(*this / name / "checkpoints/step-3/SHA256SUMS");
      return name + "/checkpoints/step-3/";
    };
    fs::remove(*this / (run("no-moments") + "optimizer.safetensors"));
    fs::remove(*this / (run("no-state") + "trainer_state.json"));
    file(run("bad-state") + "trainer_state.json", "{\"step\": \"three\"}");
    run("odd-record");
    std::string record = contents("odd-record/run.json");
    file("odd-record/run.json", record.replace(record.find('['), 1, "\"none\", \"more\": ["));
    run("hollow");
    fs::remove(*this / "hollow/run.json");
  }
};

class BadInput : public testing::Test {
 protected:
  static void SetUpTestSuite() { world_ = std::make_unique<World>(); }
  static void TearDownTestSuite() { world_.reset(); }

  static std::map<std::string, std::string> all_files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(world_->path())) {
      std::error_code loop;
      if (entry.is_regular_file(loop) && entry.path().filename() != kLockFile)
        files[entry.path().lexically_relative(world_->path())] = file_contents(entry.path());
    }
    return files;
  }
  static void expect_refused(std::string line, int code, const std::string& part) {
    if (line.starts_with("+ ")) {
      line = "train " + over_defaults(kSmall, line.substr(2));
      const std::size_t longest = line.find("LONG");
      if (longest != std::string::npos) line.replace(longest, 4, std::string(100000, 'a'));
      if (line.find("--out") == std::string::npos) line += " --out fresh";
    }
    expect_refusal(world_->headcount(line), code, {part}, line);
    EXPECT_FALSE(world_->has("fresh")) << line;
  }

  static std::unique_ptr<World> world_;
};
std::unique_ptr<World> BadInput::world_;

TEST_F(BadInput, InFlagsIsRefusedInOneLine) {
  const auto before = all_files();
  for (const auto& [line, part] : kUsages) expect_refused(line, kUsage, part);
  EXPECT_EQ(all_files(), before);
}

TEST_F(BadInput, InFilesIsRefusedInOneLine) {
  const auto before = all_files();
  for (const auto& [line, code, part] : kFiles) expect_refused(line, code, part);
  EXPECT_EQ(all_files(), before);
}

TEST_F(BadInput, OfNoCommandPrintsHelpOnStandardError) {
  const ProgramResult result = world_->headcount("");
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("train"), std::string::npos);
}

// A limit on the size of files stands for a disk without room.
TEST_F(BadInput, OfAFullDiskIsNamed) {
  const std::string train = "ulimit -f 8; exec \"$headcount\" train " + kSmall;
  expect_refusal(world_->shell(train + " --quiet --out small"), kRuntime,
                 {"cannot write small/checkpoints/step-3/model.safetensors: File too large; raise "
                  "the limit that ulimit -f shows\n"},
                 train);
  EXPECT_FALSE(world_->has("small/checkpoints/step-3"));
  // With room it goes on.
  EXPECT_EQ(world_->headcount("train --quiet --resume small").exit_code, 0);
  const ProgramResult full = world_->shell("\"$headcount\" cost > /dev/full");
  EXPECT_EQ(full.exit_code, kRuntime);
}

}  // namespace
}  // namespace headcount
