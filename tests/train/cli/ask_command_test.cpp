// label: unsanitized
// headcount ask and headcount data: questions of built-in texts, and the texts.
#include <cctype>

#include "data/built_in.h"
#include "data/corpus.h"
#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(AskCommand, ShowsAnswersOfTheTextWithProbabilities) {
  const TrainFolder folder;
  for (const std::string text : {"tales", "recall", "lookup"}) {
    const ProgramResult trained = folder.done(
        "train --layers 1 --dim 8 --heads 2 --batch 2 --steps 1 --eval-characters 2k --quiet "
        "--data " +
        text + " --out " + text);
    // In place of a sample, which only stories have.
    const std::string questions = "\nquestions (more by headcount ask --from " + text + "):\n";
    EXPECT_EQ(trained.out.find(questions) == std::string::npos, text == "tales") << trained.out;
    const std::string note = folder.done("sample --tokens 3 --from " + text).err;
    EXPECT_EQ(note.find("counted answers only") == note.npos, text == "tales") << note;
    const std::string line = "ask --questions 3 --from " + text, shown = folder.done(line).out;
    EXPECT_TRUE(shown.starts_with(text + ": ")) << "it says what the questions are";
    expect_parts(shown, {" of 3 right\n"});
    const json asked = folder.object(line);
    ASSERT_EQ(asked["answers"].size(), 3u);
    for (const json& answer : asked["answers"]) {
      EXPECT_EQ(answer["right"], answer["answer"] == answer["right_answer"]);
      // Its story told the answer before, in the same characters; a board does not.
      const std::string prompt = answer["prompt"], told = answer["right_answer"];
      EXPECT_FALSE(told.empty());
      if (text != "lookup") expect_parts(prompt, {told});
      const json &first = answer["first"][0], &right = answer["p_of_right"];
      EXPECT_GE(first["p"], answer["first"][1]["p"]);
      EXPECT_TRUE(right > 0 && right <= first["p"]) << right;
      const std::string said = answer["answer"], character = first["character"];
      EXPECT_TRUE(said.starts_with(character)) << said;
    }
  }
  const std::string sample = folder.headcount("sample --from tales --tokens 9").out;
  EXPECT_TRUE(std::isupper(sample.front())) << "stories begin with a name: " << sample;
  const json own = folder.object("ask --from tales --text Tom");
  EXPECT_EQ(own["answers"][0]["prompt"], "Tom");
  EXPECT_FALSE(own["answers"][0].contains("right"));
}

// Texts of one line, so that a model soon writes what follows.
TEST(AskCommand, AnswersInWholeWordsOfAnyScriptAndWholeNumbers) {
  const TrainFolder folder;
  const std::pair<std::string, std::string> answers[] = {{"die Straße.", "Straße"},
                                                         {"это Мама!", "Мама"},
                                                         {"es ist 1024a", "1024"},
                                                         {"ein 👩‍💻.", "👩‍💻"}};
  for (std::size_t i = 0; i < std::size(answers); ++i) {
    const auto& [line, answer] = answers[i];
    const std::string name = std::to_string(i), question = line.substr(0, line.find(answer));
    std::string text;
    for (int repeat = 0; repeat < 40; ++repeat) text += line + "\n";
    folder.file(name + ".txt", text);
    folder.done(
        "train --attention mqa --layers 1 --dim 16 --heads 2 --context 16 --batch 8 "
        "--steps 150 --lr 1e-2 --eval-every 0 --quiet --data " +
        name + ".txt --out " + name);
    const auto asked = [&](const std::string& input) {
      const ProgramResult result =
          folder.shell("printf '" + question + input + "' | headcount ask --text - --from " + name +
                       " --format json");
      return json::parse(result.out)["answers"][0];
    };
    EXPECT_EQ(asked("\n")["answer"], answer);
    EXPECT_EQ(asked("\r\n"), asked("\n"));
  }
  const auto shown = [&](const std::string& input) {
    const ProgramResult result =
        folder.shell("printf '" + input + "' | headcount ask --text - --from 3");
    return result.out + result.err;
  };
  expect_parts(shown("ein 👩\n"), {"first characters: U+200D "});
  expect_parts(shown("ein 👩‍💻.\n"), {"first characters: ↵ "});
  expect_parts(shown("ein\\000\n"), {"--text -: standard input has a NUL byte at offset 3"});
  expect_parts(shown("ein\\377\n"), {"--text -: standard input is not UTF-8"});
}

TEST(DataCommand, PrintsTheTextThatModelsAreTrainedOn) {
  const TrainFolder folder;
  for (const BuiltInCorpus* const built_in : built_in_corpora()) {
    const std::string name(built_in->name);
    const Corpus corpus = load_corpus(name, {.characters = 20'000});
    EXPECT_EQ(folder.done("data " + name + " --tokens 20000").out,
              corpus.vocabulary.decode(corpus.train.tokens) +
                  corpus.vocabulary.decode(corpus.validation.tokens));
    const ProgramResult few = folder.done("data " + name);
    EXPECT_TRUE(few.out.size() < 1000 && few.out.ends_with('\n')) << few.out;
    const std::string end = name == "tales" ? "\n\n" : "\n";
    std::size_t stories = 0;
    for (std::size_t at = 0; (at = few.out.find(end, at)) != few.out.npos; ++at) ++stories;
    EXPECT_EQ(stories, 3u) << few.out;
    EXPECT_EQ(few.err, "headcount: " + name + ": " + std::string(built_in->about) + "\n");
    EXPECT_NE(folder.done("data " + name + " --seed 2").out, few.out);
  }
  EXPECT_NE(folder.headcount("data lookup --directions 1").out,
            folder.headcount("data lookup").out);
}

}  // namespace
}  // namespace headcount
