#include "train/cli/from_run.h"

#include "data/encoded_file.h"

namespace headcount {

LoadedRun load_named_run(const CommandLine& line) {
  const std::string run = line.required("from", "name a run folder that headcount train made");
  const NonFinite allowed =
      line.has(kAllowNonFinite.name) ? NonFinite::allowed : NonFinite::refused;
  return named_by("from", [&] { return load_run(run, line.has("best"), allowed); });
}

namespace {

// Returns true if "\r\n" in texts for the run becomes "\n": in training it did, or the model knows
// no "\r".
bool reads_unix_newlines(const LoadedRun& run) {
  return (run.options && run.options->corpus.unix_newlines) ||
         run.vocabulary.symbols().find(U'\r') == std::u32string::npos;
}

std::vector<std::int32_t> tokens_of(EncodedText text, const LoadedRun& run) {
  recode(text.tokens, text.vocabulary, run.vocabulary);
  return std::move(text.tokens);
}

}  // namespace

std::vector<std::int32_t> encode_flag(const std::string& flag, const std::string& text,
                                      const LoadedRun& run) {
  if (text.empty()) throw UsageError("--", flag, " is empty; give at least one character");
  try {
    return tokens_of(encode_text(text, "the text", reads_unix_newlines(run)), run);
  } catch (const DataError& error) {
    throw DataError("--", flag, ": ", error.what());
  }
}

namespace {

// Name of a text; if it is limited, "the first 1000 characters of input.txt".
std::string name_of(const std::string& text, bool limited, std::size_t characters) {
  return limited ? "the first " + std::to_string(characters) + " characters of " + text : text;
}

EvalText load_file(const std::string& path, const LoadedRun& run, Index characters) {
  EvalText text;
  try {
    text.tokens = tokens_of(encode_file(path, reads_unix_newlines(run)), run);
  } catch (const DataError& error) {
    throw DataError("--data ", path, ": ", error.what());
  }
  const bool limited = characters > 0 && characters < std::ssize(text.tokens);
  if (limited) text.tokens.resize(static_cast<std::size_t>(characters));
  text.name = name_of(path, limited, text.tokens.size());
  if (text.tokens.size() < 2)
    throw DataError("--data ", path,
                    " has one character, and the first is not predicted; name a "
                    "longer text");
  return text;
}

}  // namespace

EvalText load_eval_text(const CommandLine& line, const LoadedRun& run,
                        std::optional<Index> characters) {
  if (characters == 1)
    throw UsageError("--eval-characters 1 leaves nothing to predict; give 2 or more, or 0 for all");
  std::string data = line.get("data");
  const bool built_in = find_built_in(data) != nullptr;
  if (line.has("data") && !built_in) return load_file(data, run, characters.value_or(0));
  if (!run.options && !built_in)
    throw UsageError("--from names a checkpoint without its run; give the text with --data");
  const bool own = run.options && (data.empty() || data == run.options->data);
  CorpusOptions options;
  if (own) {
    const TrainOptions here = found_from_here(*run.options, line.get("from"));
    data = here.data;
    options = here.corpus;
  }
  if (characters) options.validation_characters = *characters;
  Corpus corpus = load_corpus(data, options);
  if (own) require_own_text(corpus, line.get("from"));
  named_by("data", [&] { adopt_vocabulary(corpus, run.vocabulary); });
  const std::string& name = options.validation;
  return {name_of(name.empty() ? corpus.name + ", validation part" : name,
                  options.validation_characters > 0, corpus.validation.size()),
          std::move(corpus.validation),
          std::move(corpus.validation_answers),
          std::move(corpus.validation_starts),
          corpus.only_answers,
          corpus.hidden_answers,
          corpus.baselines,
          corpus.longest_story};
}

}  // namespace headcount
