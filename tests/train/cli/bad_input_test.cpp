// label: unsanitized
// What the program says to flags and files that it cannot use: the exit code, one line on standard
// error that names the flag or the file, nothing on standard output, and no file changed.
#include <map>
#include <regex>

#include "train/run/lock.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// A case a line: exit code, what follows "headcount ", and parts of the message, each after =>.
// + stands for a run of a small model in a new folder, %XX for a byte of a word.
constexpr const char* kCases = R"(
2 train --steps => steps
2 + --quiet=false => --quiet takes no value
2 train --out --print-config => --out has no value before --print-config => write --out=--print
2 train --force => --force replaces the run in --out, which is missing
2 + --data %ff => --data must be UTF-8
2 + --out a --out b => --out is given twice; give it once
2 + extra => 'extra' is not a flag
2 + --stop-after 3 --eval-every 0 => raise --eval-every and --checkpoint-every
2 + --stop-after 3 --checkpoint-every 0 => --stop-after 3 needs evaluations
2 + --stop-at-loss 1 --eval-every 0 => raise --eval-every above 0
2 + --stop-at-answers 95 => marks no answers; take a built-in text, or --stop-at
2 + --validation text.txt --validation-part 0.2 => --validation-part has no effect with --validation
2 train --data tales --validation text.txt => --validation has no effect with --data tales
2 + --min-lr 1 => --min-lr is greater than --lr
2 + --steps 3000000 --accumulate 65536 => --steps times --accumulate must be below
2 + --dropout 0.999999 => --dropout must be 0, or 1/65536 to 1 - 1/65536
2 + --decay constant --min-lr 0 => --min-lr has no effect => constant, which keeps the peak rate
2 + --attention mla --head-dim 1 => leaves --positions rope no pair of dimensions to rotate
2 + --attention fox --positions rope => rotates nothing: fox has no rotary positions; leave it out
2 + --attention tpa --qk-norm on => --qk-norm is not for tpa: RoPE rotates its
2 + --attention delta --score-scale none => --attention delta sets another score-scale
2 + --attention delta --score-cap 9 => --score-cap 9 changes nothing
2 + --score-cap 9 --score-scale row-norm => --score-cap limits scores that
2 + --attention delta --sinks on => --sinks are scores of a softmax, and delta has none
2 + --layers 1 --value-residual 0.5 => no layer after the first has it; leave it 0
2 + --attention delta --canon AB => --canon B convolves queries, keys and values, and delta has none
2 + --attention csa --index-head-dim 2 --rope-dim 4 => 2 is less than the --rope-dim 4
2 + --attention v4 --o-groups 3 => --o-groups 3 does not divide --heads 2
2 train --data lookup --context 100 => --context must be a multiple of 16
2 + --stesp=5 => unknown flag --stesp; see headcount train --help; did you mean --steps?
2 train --attn mqa => unknown flag --attn; it is --attention here; see headcount train --help
2 train --batch-size 4 => it is --batch here
2 train --learning_rate 1e-3 => unknown flag --learning_rate; it is --lr here
2 train --epochs 2 => it is --steps here
2 ask --from run --prompt a => it is --text here
2 sample --from run --text a => it is --prompt here
2 + -steps 5 => unknown flag -steps; see headcount train --help; did you mean --steps?
3 + --data nowhere.txt => --data 'nowhere.txt' is neither a file
3 + --data latin1.txt => invalid byte at offset 3
3 + --data hundred.txt --context 10 => --context 10 is not shorter => hundred.txt, 10 characters
3 + --config nowhere.json => nowhere.json
3 + --config deep.json => deep.json: not valid JSON: nested
3 + --config unknown.json => 'colour'
2 + --preset nanogpt => --preset must be one of nanogpt-cpu
2 + --preset shakespeare --config no.json => both give settings; name one of them
3 + --config range.json => --config range.json: --steps must be between 1
2 + --out run => --out run is not empty
2 + --out text.txt => --out text.txt is a file
2 + --out loop => --out loop cannot be read
2 + --out run --force --data run/metrics.jsonl => run/metrics.jsonl lies in --out run
2 + --out= => --out is empty
1 + --out text.txt/run => cannot write text.txt/run
2 + --out /dev/null => --out /dev/null is a file
3 + --init nowhere => --init: 'nowhere' is no run folder and no checkpoint
3 train --data talse => 'talse' is neither a file nor one of the built-in texts, tales
3 train --resume run/checkpoints/step-3 => is a checkpoint, no run folder; name its run, or begin
3 train --resume nowhere => --resume: 'nowhere' is no run folder
2 train --resume run --force => --force does not go with --resume
3 train --resume hollow => 'hollow' is no run folder => run.json
3 train --resume odd-record => odd-record/run.json is damaged: 'starts' is "none": type must be array, but is
2 help gqa2 nonsense => 'nonsense' is a word too many
2 help train nonsense => --help takes no value but all, is 'nonsense'
2 --help nonsense => 'nonsense' is a word too many
2 --version nonsense => 'nonsense' is a word too many
2 non%1bsense => 'non\x1bsense' is no command
2 + --lr 1e-400 => --lr must be 0 or at least 1.2e-38
2 + --lr 1e+ => --lr must be a number, is '1e+'
2 + --steps 10q => --steps must be a whole number, such as 12 or 4k (4096), is '10q'
3 + --config infinite.json => infinite.json: => not valid JSON
3 + --config raw.json => raw.json: '\x1b[31m\x00' is not a setting
3 + --config nul.json => nul.json: --data is 'text.txt\x00x', with a NUL byte
3 + --config object.json => object.json: --data must be a text, is {}
3 report raw.json => raw.json: it holds no results of a comparison in this version's form: 'data' is missing
3 report number.json => in this version's form: 'seeds' is 
3 + --validation nowhere.txt => --validation 'nowhere.txt' is no file
3 + --validation short.txt => is not shorter than the validation part
3 train --resume no-moments => optimizer.safetensors
3 train --resume bad-state => trainer_state.json
2 + --eval-characters 16 => --eval-characters 16 must be more than --context, 16
2 train --help 3 => --help takes no value but all
2 train --resume run --seed 2 => --seed is 2, but the run in run has 1
2 train --resume run --steps 2 => --steps is 2, but the run in run has 3
2 train --resume run --out other => --out does not go with --resume
2 compare --attention mha mqa => is not a flag; commas separate the values of a list: mha,mqa; see
2 compare --data text.txt --context 16 --out text.txt => --out text.txt is a file
2 sample --from run --cache off --cache-dtype f16 => --cache-dtype has no effect with --cache off
2 sample --from run --mla absorbed => --mla does not apply to run, whose attention is mha
2 sample --tokens 5 => --from is missing
3 sample --from nowhere => 'nowhere' is no run folder and no checkpoint
3 sample --from flipped => flipped/model.safetensors is damaged: its checksum
2 sample --from run --prompt= => --prompt => empty
3 sample --from run --prompt 16%20Käse => --prompt => 'K' (U+004B) => 'ä' (U+00E4) => vocabulary
2 sample --from run --at-context stop --prompt 16%20is%20a%20square.%0a4 => 17 => --at-context slide
2 eval --from run --cache-dtype latent=int4 => does not keep
2 eval --from run --cache-dtype k=int4+k=int2 => names the part 'k' twice
2 eval --from run --cache-dtype int4+v=int2 => names no part
2 eval --from run --cache-dtype k=int4,v=int2 => a + joins types of parts of one cache: k=int4+v=int2
2 sample --from run --cache-dtype f32,int4 => is a list, which only comparisons take; name one type, such as f32
2 eval --from run --cache-dtype k=int4+v=int2,int8 => name one type, such as k=int4+v=int2
2 eval --from run --cache-dtype int4+layer2=bf16 => names layer 2, the model has 1; name one of them
2 sample --from run --cache-dtype int4+layers1-2=bf16+layer2=f32 => gives layer 2 two types
2 attend --from run --text 9 --cache-dtype int4+layer0=bf16 => from 1 => not as in 'layer0=bf16'
2 cost --cache-dtype int4+layers3-2=bf16 => not as in 'layers3-2=bf16'
2 eval --from run --cache-dtype int4+layer1=int5 => must be one of => is 'int5'
2 eval --from run --cache-dtype layer1=int4 => begin with it: f32+layer1=int4
2 sample --from run --cache-dtype each:int2 => only eval and comparisons take; name one of it, such as int2+layer1=f32
2 eval --from run --cache-dtype f16 --cache-group 4 => have no scale
2 eval --from run --cache-recent 4 => --cache-recent has no effect with
2 compare --cache-dtype f16,bf16 --cache-group 4 => --cache-group has no effect with
2 eval --from run --cache-dtype f16 --cache-levels normal => has its own levels
2 eval --from run/checkpoints/step-3 => give the text with --data
3 eval --from run --data single.txt => --data single.txt has one character
3 eval --from run/checkpoints/step-3 --best => name its run for the best one
3 eval --from run --data lookup => lookup:
2 eval --from run --logits run/checkpoints/step-3/model.safetensors => holds no logits
2 eval --from run --window 17 => --window 17 is more than the model's context, 16
2 eval run other => 'other' is a word too many
2 eval --from state --window 4 => delta has no --window
2 eval --from state --attention-stats => --attention-stats does not apply to state
2 eval --from run --eval-characters 1 => --eval-characters 1 leaves nothing to predict
3 eval --from run --data foreign.txt => --data foreign.txt => 'Q' (U+0051) => 'ö' (U+00F6)
3 eval --from run --data missing.txt => --data missing.txt => no file
2 attend --from run/checkpoints/step-3 => --text is missing
2 attend --from run --text 9 --layer 3 => --layer 3: the model has 1 layer
2 attend --from run --text 9 --head 3 => --head 3: layer 1 has 2 heads
2 attend --from state --text 9 => there is no map: delta has no scores
2 attend --from run --text 9 --cache-dtype latent=int4 => --cache-dtype rounds 'latent'
2 attend --from run --text 9 --cache-dtype int4 --cache-recent 2 => --cache-recent does not apply
2 ask --from run/checkpoints/step-3 => ask your own question by --text
2 ask --from run => marks no answers to ask for
2 ask --from run --text - => --text - finds no line
2 ask --from run --text a --questions 2 => --questions counts those of the model's text
2 convert --from run --attention mqa => --out is missing
2 convert --from run --out fresh => --attention is missing
2 convert --from run --attention mqa --out run => --out run is there already
2 convert --from run --attention gqa2 --kv-heads 4 --out fresh => gqa2 sets another kv-heads
2 convert --from run --out fresh --attention mha:canon=B => sets => which is fixed here
2 convert --from run --attention mqa --out text.txt => --out text.txt is a file
2 report => --from is missing
2 report --from run run/ => --from names the run in run/ twice
3 report --from nowhere => 'nowhere' is no run folder => run.json
3 report --from run/checkpoints/step-3 => is no run folder => run.json
2 report --from run --out text.txt => --out text.txt is a file
3 report gone.json => gone.json
2 cost --attention gqa2 --kv-heads 4 => --kv-heads 4 changes nothing: --attention gqa2
2 cost --memory 24G => --memory 24G may be 24GiB or 24GB
2 cost --preset gpt-5 => unknown flag --preset; it is --config here
2 cost --as llama => --as goes with --config
2 cost --dim 256 --heads 3 => --heads 3 does not divide --dim 256
2 cost --attention gqa --kv-heads 3 => --kv-heads 3 does not divide --heads
3 cost --from text.txt => --from: 'text.txt'
3 cost --from bad => bad/run.json
2 cost --cache-dtype q8_0 => GGUF's q8_0 and q4_0 take the bytes of int8 and int4 with --cache-group 32
3 cost a.gguf => is of another format; name the config.json of the model it was made from
3 cost llama-3.1-406b => is no file, no folder and no released model => did you mean llama-3.1-405b?
3 cost --config meta-llama/Llama-3.1-8B => meta-llama/Llama-3.1-8B => did you mean llama-3.1-8b?
2 cost --config llama.json --mtp => --mtp => llama has none
2 cost --config llama.json --cache-levels normal => --cache-levels has no effect with --config
2 cost --config llama.json --attention mha,gqa3 => gqa3 => --kv-heads 3 does not divide
3 cost --config unknown.json => --config: unknown.json: 
3 cost --config escape.json => \x1b[2Jllama
2 cost --report= => --report is empty
2 cost --config llama.json --cache-dtype latent=int4 => 'latent' => k, v
2 cost --config llama.json --context 1k,x => context
2 cost --config llama.json --heads 4 => heads => config
2 cost --list --config llama-3-8b => list => config
1 cost --config llama.json --report nowhere/page.html => nowhere
2 trian => 'trian' is no command => did you mean train?
2 data => data needs the name of a built-in text
2 data talse => talse
2 data recall extra => 'extra' is a word too many
2 data tales --directions 2 => --directions
2 data lookup --kinds 2 => unknown flag --kinds; it is --directions now
2 data lookup --directions 7 => --directions must be at most 6, --side plus 1, is 7
2 train --data lookup --directions 9 --side 7 => --directions must be at most 8
2 help gqa3 => --kv-heads 3 does not divide
)";

// Words of a command line.
std::vector<std::string> arguments_of(std::string line) {
  if (line.starts_with("+ ")) {
    line = TrainFolder::train_line(line.substr(2));
    if (line.find("--out") == line.npos) line += " --out fresh";
  }
  std::vector<std::string> all = words(line);
  for (std::string& word : all) {
    for (auto at = word.find('%'); at != word.npos; at = word.find('%', at + 1))
      word.replace(at, 3, 1, static_cast<char>(std::stoi(word.substr(at + 1, 2), nullptr, 16)));
  }
  return all;
}

// A folder with the texts, runs and damaged checkpoints that the cases name.
class World : public TrainFolder {
 public:
  World() {
    std::string hundred;  // characters, the last ten of them for validation
    for (int i = 0; i < 50; ++i) hundred += "ab";
    for (const auto& [name, bytes] : std::initializer_list<std::pair<const char*, std::string>>{
             {"latin1.txt", "caf\xe9 au lait"},
             {"short.txt", "0 is a"},
             {"single.txt", "0"},
             {"foreign.txt", "16 ist ein schönes Quadrat.\n"},
             {"hundred.txt", hundred},
             {"deep.json", std::string(3000, '[')},
             {"range.json", "{\"steps\": 0}"},
             {"unknown.json", "{\"colour\": \"red\"}"},
             {"infinite.json", "{\"lr\": Infinity}"},
             {"raw.json", "{\"\\u001b[31m\\u0000\": 1}"},
             {"nul.json", R"({"data": "text.txt\u0000x"})"},
             {"object.json", R"({"data": {}})"},
             {"number.json", "{\"data\": \"a\", \"data_sha256\": \"\", \"seeds\": true}"},
             {"llama.json",
              "{\"model_type\": \"llama\", \"num_hidden_layers\": 32, "
              "\"hidden_size\": 4096, \"num_attention_heads\": 32}"},
             {"escape.json", R"({"model_type": "\u001b[2Jllama"})"},
             {"bad/run.json",
              R"({"settings": {"dim": [16]}, "version": "1", "data_sha256": "", "starts": []})"}})
      file(name, bytes);
    fs::create_symlink("loop", *this / "loop");
    for (const std::string flags : {"run", "state --attention delta"})
      trained("--quiet --out " + flags);
    const std::string step = "/checkpoints/step-3";
    copy("run" + step, "flipped");
    std::string weights = contents("flipped/model.safetensors");
    ++weights[weights.size() / 2];
    file("flipped/model.safetensors", weights);
    for (const std::string name : {"no-moments", "bad-state", "odd-record", "hollow"}) {
      copy("run", name);
      fs::remove(*this / (name + step + "/SHA256SUMS"));
    }
    fs::remove(*this / ("no-moments" + step + "/optimizer.safetensors"));
    file("bad-state" + step + "/trainer_state.json", "{\"step\": \"three\"}");
    std::string record = contents("odd-record/run.json");
    file("odd-record/run.json", record.replace(record.find('['), 1, "\"none\", \"more\": ["));
    fs::remove(*this / "hollow/run.json");
  }
};

std::map<std::string, std::string> files_of(const World& world) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(world.path())) {
    std::error_code loop;
    if (entry.is_regular_file(loop) && entry.path().filename() != kLockFile)
      files[entry.path().lexically_relative(world.path())] = file_contents(entry.path());
  }
  return files;
}

TEST(BadInput, IsRefusedInOneLineAndChangesNothing) {
  const World world;
  const auto before = files_of(world);
  const std::regex arrow(" => ");
  for (const std::string& bad : lines_of(kCases)) {
    if (bad.empty()) continue;
    const std::vector<std::string> parts(
        std::sregex_token_iterator(bad.begin() + 2, bad.end(), arrow, -1), {});
    const ProgramResult result = run_program(arguments_of(parts.front()), world.path());
    expect_refusal(result, bad.front() - '0', {parts.begin() + 1, parts.end()}, bad);
    EXPECT_FALSE(world.has("fresh")) << bad;
  }
  EXPECT_EQ(files_of(world), before);
  const std::string name = "--attention=" + std::string(100000, 'a');
  expect_refusal(world.train(name), kUsage, {"is no attention; known are mha"}, "a long name");
}

// A limit on the size of files stands for a disk without room.
TEST(BadInput, OfAFullDiskIsNamed) {
  const TrainFolder folder;
  const std::string train = TrainFolder::train_line("--quiet --out small");
  expect_refusal(folder.shell("ulimit -f 8; exec headcount " + train), kRuntime,
                 {"cannot write small/checkpoints/step-3/model.safetensors: File too large; raise "
                  "the limit that ulimit -f shows; resume with headcount train --resume small\n"},
                 train);
  EXPECT_FALSE(folder.has("small/checkpoints/step-3"));
  folder.done("train --quiet --resume small");  // with room it goes on
  if (std::filesystem::exists("/dev/full")) {   // a device of Linux
    EXPECT_EQ(folder.shell("headcount cost > /dev/full").exit_code, kRuntime);
  }
}

}  // namespace
}  // namespace headcount
