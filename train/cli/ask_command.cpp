#include <utf8.h>

#include <algorithm>
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

SettingList ask_settings() {
  return settings_in(Scope::sampling, {{"questions", "number of questions of the model's text",
                                        WholeRange{1, 1000}, 5},
                                       threads_setting()});
}

// What a character may be part of.
enum class PartOf { word, number, neither };

PartOf part_of(char32_t c) {
  return is_letter(c) ? PartOf::word : U'0' <= c && c <= U'9' ? PartOf::number : PartOf::neither;
}

// What the model answers to a question: its likeliest text, at most `most` characters up to the end
// of a word or number, and the likeliest first characters. `right` is the right answer; empty if it
// is not known.
Json answer(const LanguageModel& model, const Vocabulary& vocabulary,
            std::span<const std::int32_t> prompt, Index most, const std::string& right = "") {
  constexpr std::size_t kShown = 3;
  const auto character = [&](std::int32_t token) {
    return vocabulary.decode(std::span(&token, 1));
  };
  Decoder decoder(model, {});
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::vector<TokenProbability> first;
  std::string text;
  std::int32_t token = 0;
  auto part = PartOf::neither;
  for (Index i = 0; i < most; ++i) {
    const std::span<const Real> logits =
        decoder.feed(i == 0 ? prompt : std::span(&token, 1)).last(width);
    std::vector<TokenProbability> order = likeliest_tokens(logits, i == 0 ? vocabulary.size() : 1);
    token = order.front().token;
    if (i == 0) first = std::move(order);
    const char32_t symbol = vocabulary.symbols()[static_cast<std::size_t>(token)];
    const auto next = is_continuing(symbol) ? part : part_of(symbol);
    if (i > 0 && !is_continuing(symbol) &&
        (next == PartOf::neither || (part != PartOf::neither && next != part)))
      break;
    part = next;
    text += character(token);
  }
  Json likeliest = Json::array();
  for (const auto& [one, probability] : std::span(first).first(std::min(kShown, first.size())))
    likeliest.push_back({{"character", character(one)}, {"p", probability}});
  Json answered = {
      {"prompt", vocabulary.decode(prompt)}, {"answer", text}, {"first", std::move(likeliest)}};
  if (right.empty()) return answered;
  const std::u32string begin = decode_utf8(right, "an answer").substr(0, 1);
  answered["right_answer"] = right;
  answered["right"] = text == right;
  answered["p_of_right"] =
      std::ranges::find(first, vocabulary.encode(begin).front(), &TokenProbability::token)
          ->probability;
  return answered;
}

// Answers to questions of the validation part.
Json answers_to_stories(const LanguageModel& model, const Corpus& corpus, Index count) {
  const Index context = model.plan()->context;
  Json all = Json::array();
  for (const StoryQuestion& question : story_questions(corpus, static_cast<std::size_t>(count))) {
    const Index room = context - std::ssize(question.prompt);
    if (room < 0) continue;
    const auto length = static_cast<Index>(character_count(question.answer));
    all.push_back(answer(model, corpus.vocabulary, question.prompt, std::min(length, room + 1),
                         question.answer));
  }
  return all;
}

Json answers_of(const CommandLine& line, const LoadedRun& run, const Given& given) {
  constexpr Index kLongest = 20;  // characters
  const Index context = run.model->plan()->context;
  if (line.has("text")) {
    std::string text = line.get("text");
    if (text == "-") {
      if (!std::getline(std::cin, text))
        throw UsageError("--text - finds no line on standard input; give one");
      if (text.ends_with('\r')) text.pop_back();
      if (const std::size_t nul = text.find('\0'); nul != text.npos)
        throw DataError("--text -: standard input has a NUL byte at offset {}; give it text", nul);
      if (!utf8::is_valid(text))
        throw DataError("--text -: standard input is not UTF-8; convert it, e.g. with iconv");
    }
    const std::vector<std::int32_t> prompt = encode_flag("text", text, run);
    require_room("text", prompt, run, "");
    return Json::array({answer(*run.model, run.vocabulary, prompt,
                               std::min(kLongest, context - std::ssize(prompt) + 1))});
  }
  if (!run.options)
    throw UsageError("--from names a checkpoint without its run; ask your own question by --text");
  const Corpus corpus = load_eval_text(line, run, std::nullopt, "text");
  Json all = answers_to_stories(*run.model, corpus, given.whole("questions"));
  if (all.empty())
    throw UsageError("{} marks no answers to ask for; ask your own question by --text",
                     corpus.name);
  return all;
}

// A character as it is, if a terminal shows it by itself, or its number.
std::string shown(const Json& character) {
  const std::string text = character;
  const char32_t c = decode_utf8(text, "a character").front();
  const auto within = [&](char32_t first, char32_t last) { return first <= c && c <= last; };
  const bool wide = within(0x3041, 0x3096) || within(0x30a1, 0x9fff) || within(0xac00, 0xd7a3) ||
                    within(0x1f300, 0x1f3fa) || within(0x1f400, 0x1faff);  // kana to emoji
  const std::string narrow = in_one_column(c);
  if (!narrow.empty()) return narrow;
  return wide ? text : formatted("U+%04X", static_cast<unsigned>(c));
}

std::string answer_text(const Json& answered) {
  const auto percent = [](const Json& share) {
    return formatted("%.1f %%", 100 * share.get<double>());
  };
  const std::string prompt = answered["prompt"], text = answered["answer"];
  std::string out = prompt + "[" + text + "]\n  ";
  if (answered.contains("right")) {
    const std::string right = answered["right_answer"];
    out += answered["right"] ? "right; "
                             : "wrong, " + right + " had " + percent(answered["p_of_right"]) + "; ";
  }
  out += "first characters:";
  for (const Json& one : answered["first"])
    out += " " + shown(one["character"]) + " " + percent(one["p"]);
  return out + "\n\n";
}

// The answers to questions of the text `data`, and what these questions are.
std::string answers_text(const Json& answers, const std::string& data) {
  const BuiltInCorpus* const text = find_built_in(data);
  std::string out;
  if (text != nullptr && !text->about.empty())
    out = std::string(text->name) + ": " + std::string(text->about) + ". [The model's answer]\n\n";
  for (const Json& answered : answers) out += answer_text(answered);
  const auto right = [](const Json& answered) { return answered["right"].get<bool>(); };
  return out + std::to_string(std::ranges::count_if(answers, right)) + " of " +
         std::to_string(answers.size()) + " right\n";
}

int ask_command(const Call& call) {
  const CommandLine& line = call.line;
  const Given given = flags_given(call);
  if (line.has("text") && given.has("questions"))
    throw UsageError("--questions counts those of the model's text; leave it out beside --text");
  const LoadedRun run = load_named_run(call);
  const Json answers = answers_of(line, run, given);
  return print_result(
      call.format, {{"answers", answers}}, answers,
      line.has("text") ? answer_text(answers.front()) : answers_text(answers, run.options->data));
}

}  // namespace

std::string questions_text(const LanguageModel& model, const Corpus& corpus, Index count) {
  return answers_text(answers_to_stories(model, corpus, count), corpus.name);
}

const Command kAskCommand = {
    {"ask", "Ask a model questions of its text, or your own, and show what it answers.",
     "  headcount ask --from runs/mha\n"
     "  headcount ask --from runs/tales-mha --text \"Tom is in the mill. Where is Tom? In the \"\n"
     "  echo \"Tom is in the \" | headcount ask --from runs/tales-mha --text -\n"},
    ask_settings,
    {kFromFlag,
     kBestFlag,
     {"text", "your question, up to where the answer begins; -: the line on standard input", true},
     kAllowNonFinite,
     kFormatFlag},
    ask_command};

}  // namespace headcount
