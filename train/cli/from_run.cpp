#include "train/cli/from_run.h"

#include "autograd/base/utf8.h"
#include "data/encoded_file.h"

namespace headcount {

LoadedRun load_named_run(const CommandLine& line) {
  const std::string run = line.required("from", "name a run folder that headcount train made");
  return named_by("from", [&] { return load_run(run, line.has("best")); });
}

std::vector<std::int32_t> encode_flag(const std::string& flag, const std::string& text,
                                      const LoadedRun& run) {
  if (text.empty()) throw UsageError("--", flag, " is empty; give at least one character");
  try {
    return run.vocabulary.encode(decode_utf8(text, "the text"));
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
    EncodedText encoded = encode_file(path);
    recode(encoded.tokens, encoded.vocabulary, run.vocabulary);
    text.tokens = std::move(encoded.tokens);
  } catch (const DataError& error) {
    throw DataError("--data ", path, ": ", error.what());
  }
  const bool limited = characters > 0 && characters < std::ssize(text.tokens);
  if (limited) text.tokens.resize(static_cast<std::size_t>(characters));
  text.name = name_of(path, limited, text.tokens.size());
  const Index context = run.model->plan()->context;
  if (std::ssize(text.tokens) <= context) {
    throw DataError("--data ", path, " has ", text.tokens.size(),
                    " characters, the model's context of ", context,
                    " needs more than that; name a longer text");
  }
  return text;
}

}  // namespace

EvalText load_eval_text(const CommandLine& line, const LoadedRun& run,
                        std::optional<Index> characters) {
  const Index context = run.model->plan()->context;
  if (characters && *characters > 0 && *characters <= context) {
    throw UsageError("--eval-characters ", *characters, " must be more than the model's context, ",
                     context, ", or 0 for all");
  }
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
  return {name_of(corpus.name + ", validation part", options.validation_characters > 0,
                  corpus.validation.size()),
          std::move(corpus.validation),
          std::move(corpus.validation_answers),
          std::move(corpus.validation_starts),
          corpus.only_answers,
          corpus.hidden_answers,
          corpus.baselines,
          corpus.longest_story};
}

}  // namespace headcount
