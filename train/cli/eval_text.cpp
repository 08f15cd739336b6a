#include "train/cli/eval_text.h"

#include "data/text.h"

namespace headcount {

EvalText load_eval_text(const CommandLine& line, const LoadedRun& run) {
  if (line.has("data")) {
    const std::string path = line.get("data");
    EvalText text{path, {}};
    try {
      text.tokens = run.vocabulary.encode(decode_utf8(read_file(path), path));
    } catch (const DataError& error) {
      throw DataError("--data " + path + ": " + error.what());
    }
    const Index context = run.model->config().context;
    if (std::ssize(text.tokens) <= context) {
      throw DataError("--data " + path + " has " + std::to_string(text.tokens.size()) +
                      " characters, the model's context of " + std::to_string(context) +
                      " needs more than that; name a longer text");
    }
    return text;
  }
  if (!run.options)
    throw UsageError("--from names a checkpoint without its run; give the text with --data");
  const TrainOptions options = found_from_here(*run.options, line.get("from"));
  Corpus corpus = load_corpus(options.data, options.corpus);
  require_own_text(corpus, line.get("from"));
  adopt_vocabulary(corpus, run.vocabulary);
  return {corpus.name + ", validation part",
          std::move(corpus.validation),
          std::move(corpus.validation_answers),
          std::move(corpus.validation_starts),
          corpus.only_answers,
          corpus.answer_chance};
}

}  // namespace headcount
