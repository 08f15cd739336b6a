// label: unsanitized
// A text of lines or paragraphs, each a document, in every command that reads it.
#include <algorithm>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

// Lines of three to seven characters.
std::string squares(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) text += std::to_string(i * i * 101) + "\n";
  return text;
}

class DocumentsOfText : public RunsOfASuite<DocumentsOfText> {
 public:
  static constexpr const char* kCommand = "sample";
  static void prepare() {
    folder_->file("lines.txt", squares(2, 100));
    std::string paragraphs;
    for (int i = 2; i < 100; i += 3) paragraphs += squares(i, i + 3) + "\n";
    folder_->file("paragraphs.txt", paragraphs);
    trained_ = train("run", kLines);
    train("of_paragraphs", "--data paragraphs.txt --documents paragraphs");
  }

 protected:
  static constexpr const char* kLines = "--data lines.txt --documents lines --steps 6";
  static json evaluated(const std::string& flags) {
    return folder_->object("eval --from run " + flags);
  }

  static inline json trained_;
};

TEST_F(DocumentsOfText, CountTheirCharactersAndEndsOnceByThemselves) {
  const json own = evaluated("");
  EXPECT_EQ(own.at("loss"), trained_.at("val_loss"));
  EXPECT_EQ(evaluated("--threads 3").at("loss"), own.at("loss"));
  // Each line from its beginning, whatever stands before it.
  double sum = 0;
  int characters = 0;
  for (const auto& [begin, end] : {std::pair(7, 8), {40, 55}, {97, 98}}) {
    folder_->file("part.txt", "\n" + squares(begin, end));
    const json part = evaluated("--data part.txt");
    EXPECT_EQ(part.at("characters"), squares(begin, end).size());
    sum += part.at("loss").get<double>() * part.at("characters").get<double>();
    characters += part.at("characters").get<int>();
  }
  folder_->file("whole.txt", squares(97, 98) + "\n" + squares(7, 8) + squares(40, 55));
  const json whole = evaluated("--data whole.txt");
  EXPECT_EQ(whole.at("characters"), characters);
  EXPECT_NEAR(whole.at("loss").get<double>() * characters, sum, 1e-4);
}

TEST_F(DocumentsOfText, BeginAndEndSamples) {
  for (const auto& [run, end] : {std::pair("run", "\n"), {"of_paragraphs", "\n\n"}}) {
    const json sampled = object(std::string("--tokens 2000 --repeat 8 --from ") + run);
    for (const std::string text : sampled.at("texts"))
      EXPECT_EQ(text.find(end), text.size() - std::string(end).size()) << run;
    EXPECT_EQ(sampled.at("texts_ended_by"), json(std::vector<std::string>(8, "stop")));
  }
  const std::string one = text("--from run --tokens 2000");
  EXPECT_EQ(one.find('\n'), one.size() - 1);
  EXPECT_EQ(text("--from run --tokens 2000 --repeat 2").substr(0, 7 + one.size()),
            "--- 1\n" + one + "-");
  // A prompt follows the beginning of a document.
  const std::string prompted = text("--from run --tokens 2000 --prompt 40");
  EXPECT_EQ(text("--from run --tokens 2000", {"--prompt", "\n40"}), "\n" + prompted);
  const std::string sample = folder_->contents("run/samples/step-6.txt");
  EXPECT_EQ(std::ranges::count(sample, '\n'), 8) << sample;
}

TEST_F(DocumentsOfText, AreKnownToACheckpointByItself) {
  folder_->copy("run/checkpoints/step-6", "alone");
  folder_->done("convert --from run --attention mqa --out converted");
  const std::string data = " --data lines.txt";
  EXPECT_EQ(folder_->object("eval --from alone" + data), evaluated(data));
  for (const std::string from : {"alone", "converted"}) {
    EXPECT_EQ(folder_->object("eval --from " + from + data).at("characters"),
              squares(2, 100).size());
    const std::string one = text("--tokens 2000 --from " + from);
    EXPECT_EQ(one.find('\n'), one.size() - 1) << from;
  }
}

TEST_F(DocumentsOfText, AreNotedWhereTheyAreEvaluatedAndDrawn) {
  folder_->file("foreign.txt", "\uFEFF404\r\n\uFEFF909\r\n");
  expect_parts(folder_->done("eval --from run --data foreign.txt").err,
               {"foreign.txt ends 2 lines with \\r\\n, read as \\n, and has 2 byte order marks"});
  const ProgramResult drawn = folder_->done("attend --from run --format json");
  const std::string shown = json::parse(drawn.out).at("text");
  expect_parts(drawn.err, {"over " + std::to_string(shown.size()) + " characters of the first"});
}

TEST_F(DocumentsOfText, AreComparedAsTheyAreTrained) {
  folder_->done(
      TrainFolder::compare_line(std::string(kLines) + " --seeds 1 --intervals off --out c"));
  const std::string run = "c/runs/mha/seed-1";
  folder_->done("train --quiet --config " + run + "/run.json --out again");
  EXPECT_EQ(folder_->weights("again", 6), folder_->weights(run, 6));
  EXPECT_EQ(folder_->contents("again/metrics.jsonl"), folder_->contents(run + "/metrics.jsonl"));
  EXPECT_EQ(folder_->settings("again").at("documents"), "lines");
}

TEST_F(DocumentsOfText, AreNotedAndNeedATextOfTheUser) {
  const std::string documents =
      "lines.txt is 98 documents of up to 7 characters, their ends included";
  const auto note = [](const std::string& flags) {
    return folder_->trained(std::string(kLines) + " --out noted --force " + flags).err;
  };
  expect_parts(note("--context 4"),
               {documents, "documents longer than --context 4 go on in further windows"});
  EXPECT_EQ(note("--context 7").find("further windows"), std::string::npos);
  folder_->expect_refusal("train --data tales --documents lines", kUsage,
                          {"--documents has no effect with --data tales"});
  folder_->expect_refusal(TrainFolder::train_line("--data lines.txt --documents paragraphs"), kData,
                          {"'lines.txt' has one document", "--documents lines or one"});
}

}  // namespace
}  // namespace headcount
