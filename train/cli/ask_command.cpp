#include <algorithm>
#include <cctype>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "data/corpus.h"
#include "models/sampling.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

SettingList ask_settings() {
  return settings_in(Scope::sampling, {{"questions", "number of questions of the model's text",
                                        WholeRange{1, 1000}, 5},
                                       threads_setting()});
}

// What the model answers to a question: its likeliest text, and the probabilities of the likeliest
// first characters.
struct Answered {
  std::string prompt, text;
  std::vector<TokenProbability> first;
  std::string right = {};           // empty: it is not known
  double probability_of_right = 0;  // of its first character
};

// Continues `prompt` by the likeliest characters, at most `most`, up to the end of a word.
Answered answer(const LanguageModel& model, const Vocabulary& vocabulary,
                std::span<const std::int32_t> prompt, Index most) {
  Answered answered{.prompt = vocabulary.decode(prompt), .text = {}, .first = {}};
  Decoder decoder(model, {});
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::int32_t token = 0;
  for (Index i = 0; i < most; ++i) {
    const std::span<const Real> logits =
        decoder.feed(i == 0 ? prompt : std::span(&token, 1)).last(width);
    const std::vector<TokenProbability> order =
        likeliest_tokens(logits, i == 0 ? vocabulary.size() : 1);
    token = order.front().token;
    const std::string character = vocabulary.decode(std::span(&token, 1));
    if (i > 0 && !std::isalpha(static_cast<unsigned char>(character.front()))) break;
    answered.text += character;
    if (i == 0) answered.first = order;
  }
  return answered;
}

std::vector<Answered> answers_to_stories(const LanguageModel& model, const Corpus& corpus,
                                         Index count) {
  const Index context = model.plan()->context;
  const Vocabulary& vocabulary = corpus.vocabulary;
  std::vector<Answered> all;
  for (const StoryQuestion& question : story_questions(corpus, static_cast<std::size_t>(count))) {
    if (std::ssize(question.prompt) > context) continue;
    const std::u32string right = decode_utf8(question.answer, "an answer");
    const Index most =
        std::min<Index>(std::ssize(right), context - std::ssize(question.prompt) + 1);
    Answered& answered = all.emplace_back(answer(model, vocabulary, question.prompt, most));
    answered.right = question.answer;
    const std::int32_t first = vocabulary.encode(right.substr(0, 1)).front();
    answered.probability_of_right =
        std::ranges::find(answered.first, first, &TokenProbability::token)->probability;
  }
  return all;
}

std::vector<Answered> answers_of(const CommandLine& line, const LoadedRun& run,
                                 const Given& given) {
  constexpr Index kLongest = 20;  // characters
  const Index context = run.model->plan()->context;
  if (line.has("text")) {
    std::string text = line.get("text");
    if (text == "-" && !std::getline(std::cin, text))
      throw UsageError("--text - finds no line on standard input; give one");
    const std::vector<std::int32_t> prompt = encode_flag("text", text, run);
    require_room("text", prompt, run, "");
    return {answer(*run.model, run.vocabulary, prompt,
                   std::min(kLongest, context - std::ssize(prompt) + 1))};
  }
  if (!run.options)
    throw UsageError("--from names a checkpoint without its run; ask your own question by --text");
  const Corpus corpus = load_eval_text(line, run, std::nullopt, "text");
  std::vector<Answered> all = answers_to_stories(*run.model, corpus, given.whole("questions"));
  if (all.empty())
    throw UsageError(corpus.name, " marks no answers to ask for; ask your own question by --text");
  return all;
}

// The likeliest first characters.
std::span<const TokenProbability> likeliest_of(const Answered& answered) {
  return std::span(answered.first).first(std::min<std::size_t>(3, answered.first.size()));
}

Json to_json(const Answered& answered, const Vocabulary& vocabulary) {
  Json likeliest = Json::array();
  for (const auto& [token, probability] : likeliest_of(answered)) {
    likeliest.push_back(
        {{"character", vocabulary.decode(std::span(&token, 1))}, {"p", probability}});
  }
  Json object = {{"prompt", answered.prompt}, {"answer", answered.text}, {"first", likeliest}};
  if (!answered.right.empty()) {
    object["right_answer"] = answered.right;
    object["right"] = answered.text == answered.right;
    object["p_of_right"] = answered.probability_of_right;
  }
  return object;
}

void print(const Answered& answered, const Vocabulary& vocabulary) {
  std::string shown = answered.prompt;
  std::cout << shown << "[" << answered.text << "]\n";
  if (!answered.right.empty()) {
    if (answered.text == answered.right) {
      std::cout << "  right";
    } else {
      std::cout << "  wrong, " << answered.right
                << formatted(" had %.1f %%", 100 * answered.probability_of_right);
    }
    std::cout << "; ";
  } else {
    std::cout << "  ";
  }
  std::cout << "first characters:";
  for (const auto& [token, probability] : likeliest_of(answered)) {
    std::cout << ' ' << vocabulary.decode(std::span(&token, 1))
              << formatted(" %.1f %%", 100 * probability);
  }
  std::cout << "\n\n";
}

// What the questions of a built-in text are.
void print_about(const std::string& data) {
  const BuiltInCorpus* const text = find_built_in(data);
  if (text != nullptr && !text->about.empty())
    std::cout << text->name << ": " << text->about << ". [The model's answer]\n\n";
}

void print_all(const std::vector<Answered>& answers, const Vocabulary& vocabulary) {
  for (const Answered& answered : answers) print(answered, vocabulary);
  std::cout << std::ranges::count_if(answers, [](const Answered& a) { return a.text == a.right; })
            << " of " << answers.size() << " right\n";
}

int ask_command(const Call& call) {
  const CommandLine& line = call.line;
  const Given given = flags_given(call);
  if (line.has("text") && given.has("questions"))
    throw UsageError("--questions counts those of the model's text; leave it out beside --text");
  const LoadedRun run = load_named_run(call);
  const std::vector<Answered> answers = answers_of(line, run, given);
  Json all = Json::array();
  for (const Answered& answered : answers) all.push_back(to_json(answered, run.vocabulary));
  if (print_data(call.format, {{"answers", all}}, all)) return 0;
  if (line.has("text")) {
    print(answers.front(), run.vocabulary);
  } else {
    print_about(run.options->data);
    print_all(answers, run.vocabulary);
  }
  return 0;
}

}  // namespace

void print_questions(const LanguageModel& model, const Corpus& corpus, Index count) {
  print_about(corpus.name);
  print_all(answers_to_stories(model, corpus, count), corpus.vocabulary);
}

const Command kAskCommand = {
    {"ask", "Ask a model questions of its text, or your own, and show what it answers.",
     "  headcount ask --from runs/mha\n"
     "  headcount ask --from runs/tales-mha --text \"Tom is in the mill. Where is Tom? In the \"\n"
     "  echo \"Tom is in the \" | headcount ask --from runs/tales-mha --text -\n"},
    ask_settings,
    {{"from", "run folder or checkpoint folder", true},
     kBestFlag,
     {"text", "your question, up to where the answer begins; -: the line on standard input", true},
     kAllowNonFinite,
     kFormatFlag},
    ask_command};

}  // namespace headcount
