// label: unsanitized
// `headcount eval` as its users meet it: losses, caches, windows, and what it says to bad input.
#include <cmath>
#include <numbers>
#include <regex>
#include <set>

#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// One small run, which no test changes.
class EvalCommand : public RunsOfASuite<EvalCommand> {
 public:
  static constexpr const char* kCommand = "eval";
  static void prepare() { trained_ = train("run"); }

 protected:
  static json loss(const std::string& flags) { return object("--from " + flags).at("loss"); }

  // Mean loss of the first `count` of the logits in a file, of so many tokens, or of one token
  // more. The target behind the last token is the first one.
  static double loss_of_logits(const char* path, std::size_t count) {
    const Safetensors file = open_safetensors(*folder_ / path);
    const std::vector<double> tokens = file.at("tokens").to_doubles(),
                              logits = file.at("logits").to_doubles();
    EXPECT_TRUE(tokens.size() == count || tokens.size() == count + 1) << tokens.size();
    const std::size_t vocabulary = logits.size() / tokens.size();
    double loss = 0;
    for (std::size_t t = 0; t < count; ++t) {
      double sum = 0;
      for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[t * vocabulary + i]);
      const auto target = static_cast<std::size_t>(tokens[(t + 1) % tokens.size()]);
      loss += std::log(sum) - logits[t * vocabulary + target];
    }
    return loss / static_cast<double>(count);
  }

  static inline json trained_;
};

TEST_F(EvalCommand, WithJsonPrintsOneObjectWithTheLossThatTrainingReported) {
  const json result = object("--from run");
  expect_values(result, {{"loss", trained_.at("val_loss")},
                         {"unit", "character"},
                         {"cache_dtype", "f32"},
                         {"cache_bytes_per_token", 2 * 16 * 4},
                         {"precision", "f32"},
                         {"window", 0}});
  EXPECT_EQ(loss("run --threads 3"), trained_.at("val_loss"));
  EXPECT_DOUBLE_EQ(result.at("bits_per_character").get<double>(),
                   result.at("loss").get<double>() / std::numbers::ln2);
  const double accuracy = result.at("accuracy"),
               right = accuracy * result.at("characters").get<double>();
  EXPECT_NEAR(right, std::round(right), 1e-9);
  EXPECT_TRUE(accuracy > 0 && accuracy < 1) << accuracy;
}

TEST_F(EvalCommand, WithoutJsonPrintsASummary) {
  expect_parts(text("--from run"),
               {"text.txt, validation part", " characters", "loss ", " bits", "accuracy "});
  expect_parts(
      text("--from run --cache-dtype int8"),
      {"changes the loss by", "KL divergence from unrounded ", "first choice stays 100.0 %",
       " bytes of KV cache in int8, ", ":\n  k 20 (4 of scales), v 20 (4 of scales)\n"});
  train("states", "--attention delta/mqa --layers 2");
  expect_parts(text("--from states --cache-dtype int4"), {" (never rounded)", " of scales)"});
}

TEST_F(EvalCommand, TakesACheckpointWithATextOfItsOwn) {
  EXPECT_EQ(object("--from run/checkpoints/step-3 --data text.txt"),
            object("--from run --data text.txt"));
  folder_->done(
      "train --data lookup --dim 8 --heads 2 --batch 2 --steps 1 --eval-characters 160 --quiet "
      "--out look");
  folder_->copy("look/checkpoints/step-1", "alone");
  EXPECT_EQ(loss("alone --data lookup --eval-characters 160"), loss("look"));
}

// Of one window, whose last target is its first character, and of documents, each in its windows.
TEST_F(EvalCommand, WritesTheLogitsThatItsLossIsOf) {
  const std::string window = folder_->contents("text.txt").substr(0, 16);
  folder_->file("window.txt", window + window.front());
  train("lines", "--documents lines");
  folder_->file("lines.txt", "404\n909\n16");
  for (const std::string flags : {"run --data window.txt", "lines --data lines.txt"}) {
    std::set<std::string> files;
    for (const std::string cache : {"", " --cache-dtype int8", " --cache-dtype int2"}) {
      const json result =  // over those of before
          object("--logits logits.safetensors --from " + flags + cache);
      EXPECT_NEAR(loss_of_logits("logits.safetensors", result.at("characters")), result.at("loss"),
                  1e-5);
      files.insert(folder_->contents("logits.safetensors"));
    }
    EXPECT_EQ(files.size(), 3u);
  }
}

TEST_F(EvalCommand, MeasuresTheEntropyOfAttentionToTheRowsOfTheCache) {
  const auto entropy = [](const std::string& flags) {
    return object("--from run --attention-stats" + flags).at("attention_entropy").get<double>();
  };
  const double exact = entropy(""), rounded = entropy(" --cache-dtype int2");
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.1);
  // With recent tokens enough for all, a cache rounds nothing.
  EXPECT_NEAR(entropy(" --cache-dtype int2 --cache-recent 16"), exact, 1e-5);
}

TEST_F(EvalCommand, TakesTextsShorterThanTheContext) {
  for (const std::int64_t length : {2, 5, 16}) {
    folder_->file("brief.txt", std::string("16 is a square.\n").substr(0, length));
    const json brief = object("--from run --data brief.txt --logits brief.safetensors");
    EXPECT_EQ(brief.at("characters"), length - 1) << "the first has nothing before it";
    EXPECT_EQ(open_safetensors(*folder_ / "brief.safetensors").at("tokens").shape,
              std::vector<std::int64_t>{length});
  }
}

TEST_F(EvalCommand, ReadsLineEndsAsTheRunDoes) {
  const std::string windows =
      std::regex_replace(folder_->contents("text.txt"), std::regex("\n"), "\r\n");
  folder_->file("windows.txt", windows);
  // The evaluation, which notes how the line ends are read.
  const auto noted = [](const std::string& run, const char* how) {
    const ProgramResult result = call("--format json --data windows.txt --from " + run);
    expect_parts(result.err, {"windows.txt ends 40 lines with \\r\\n", how});
    return json::parse(result.out);
  };
  // Characters of the whole text as the run reads it.
  const json whole = object("--from run --data text.txt");
  EXPECT_EQ(whole.at("characters"), folder_->contents("text.txt").size() - 1);
  EXPECT_EQ(noted("run", "read as"), whole);
  expect_parts(folder_->trained("--data windows.txt --quiet --out unix").err,
               {"windows.txt ends 40 lines with \\r\\n, read as \\n; --newlines keep "});
  const json kept = train("kept", "--data windows.txt --newlines keep");
  EXPECT_EQ(noted("kept", "kept as they are").at("characters"), windows.size() - 1);
  // A run of a version without the setting kept them.
  json config = folder_->settings("kept");
  ASSERT_EQ(config.erase("newlines"), 1u);
  folder_->settings("kept", config);
  EXPECT_EQ(loss("kept"), kept.at("val_loss"));
  folder_->done("train --config kept/run.json --quiet --out again");
  EXPECT_EQ(folder_->settings("again").at("newlines"), "keep");
  folder_->done("train --resume kept --steps 5 --quiet");
  EXPECT_EQ(folder_->settings("kept").at("newlines"), "keep");
}

TEST_F(EvalCommand, EvaluatesOnTheValidationFileOrPartOfTheRun) {
  const std::string all = folder_->contents("text.txt");
  const std::size_t cut = all.size() * 3 / 4;
  folder_->file("first.txt", all.substr(0, cut));
  folder_->file("rest.txt", all.substr(cut));
  const json apart = train("apart", "--data first.txt --validation rest.txt");
  EXPECT_EQ(loss("apart"), apart.at("val_loss"));
  EXPECT_EQ(object("--from apart").at("characters"), all.size() - cut - 1);
  expect_parts(text("--from apart"), {"rest.txt: "});
  const json part = train("part", "--validation-part 0.25");
  EXPECT_EQ(part.at("val_loss"), apart.at("val_loss"));
  EXPECT_EQ(loss("part"), apart.at("val_loss"));
  folder_->file("rest.txt", all);
  for (const char* line : {"eval --from apart", "train --resume apart"})
    folder_->expect_refusal(line, kData,
                            {"the validation file is not the text of the run in apart"});
}

TEST_F(EvalCommand, ReportsWhatTheCacheTypeChanges) {
  for (const std::string type :
       {"bf16", "f16", "fp8", "int8", "int4", "int3", "int2", "k=int4+v=int2"}) {
    const json result = object("--from run --cache-dtype " + type);
    EXPECT_EQ(result.at("cache_dtype"), type);
    const double change = result.at("loss_change"), rounded = result.at("loss");
    EXPECT_EQ(change, rounded - trained_.at("val_loss").get<double>()) << type;
    EXPECT_TRUE(change != 0 && std::abs(change) < 0.01) << type << " " << change;
    EXPECT_EQ(result.at("change").at("exact_loss"), trained_.at("val_loss"));
    EXPECT_GT(result.at("change").at("kl_mean"), 0);
  }
}

// Each row is the evaluation of its types. The second layer shares: it costs nothing alone.
TEST_F(EvalCommand, ListsTheModelWithOneLayerAtATimeAsComputed) {
  train("three", "--attention mqa/share/mqa --layers 3");
  const std::string line = "--from three --cache-rotate on --cache-dtype ";
  const json result = object(line + "each:int2");
  EXPECT_EQ(result.at("cache_dtype"), "int2");
  const json& rows = result.at("each_layer_exact");
  ASSERT_EQ(rows.size(), 4u);
  std::vector<std::string> types;
  for (const json& row : rows) {
    const std::string name = row.at("cache");
    types.push_back(name.substr(0, name.find(' ')));
    const json alone = object(line + types.back());
    EXPECT_EQ(row.at("val_loss"), alone.at("loss"));
    EXPECT_EQ(row.at("change"), alone.at("change"));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"int2", "int2+layer1=f32", "int2+layer2=f32",
                                             "int2+layer3=f32"}));
  EXPECT_EQ(rows[2].at("change"), rows[0].at("change"));
  // k and v of 8 numbers in one layer of two.
  const std::string table = text("--from three --cache-dtype each:int2");
  expect_parts(table, {"\nint2+layer3=f32     72  "});
  const std::string narrow =
      folder_->shell("COLUMNS=60 headcount eval --from three --cache-dtype each:int2").out;
  expect_parts(narrow, {"left out, see --wide: largest change of a logit; "});
  for (const auto& [shown, width] : {std::pair{table, 100u}, {narrow, 60u}})
    for (const std::string& row : lines_of(shown.substr(shown.find("cache  "))))
      EXPECT_LE(character_count(row), width) << row;
}

TEST_F(EvalCommand, ReplacesTheWindowsOfAllLayersAndNothingElse) {
  const json narrow = object("--from run --window 3");
  EXPECT_NE(narrow.at("loss"), trained_.at("val_loss"));
  EXPECT_EQ(narrow.at("window"), 3);
  for (const std::string cache : {"", " --cache-dtype int2"})  // the context is 16
    EXPECT_EQ(loss("run --window 16" + cache), loss("run" + cache));
  train("pattern", "--attention mqa:window=3/mqa@5 --layers 2");
  EXPECT_EQ(object("--from pattern").at("window"), json({3, 5}));
  EXPECT_EQ(object("--from pattern --window 2").at("window"), 2);
}

TEST_F(EvalCommand, KeepsTheWindowOfTraining) {
  const json trained = train("windowed", "--window 3");
  expect_values(object("--from windowed"), {{"window", 3}, {"loss", trained.at("val_loss")}});
  const ProgramResult wider = call("--from windowed --window 16 --format json");
  EXPECT_NE(json::parse(wider.out).at("loss"), trained.at("val_loss"));
  EXPECT_EQ(wider.err,
            "headcount: --window 16 is wider than that of training: what lies beyond was "
            "never read\n");
}

}  // namespace
}  // namespace headcount
