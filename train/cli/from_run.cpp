#include "train/cli/from_run.h"

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "data/vocabulary.h"
#include "models/cost/cost.h"
#include "train/show/units.h"

namespace headcount {

LoadedRun load_named_run(const Call& call) {
  const CommandLine& line = call.line;
  const std::string folder = line.required("from", "name a run folder that headcount train made");
  Precision precision = Precision::f32;
  if (find_setting(call.settings, "precision") != nullptr)
    precision = read_precision(flags_given(call));
  require_fast(precision, "choose f32");
  const NonFinite allowed =
      line.has(kAllowNonFinite.name) ? NonFinite::allowed : NonFinite::refused;
  LoadedRun run = named_by("from", [&] { return load_run(folder, line.has("best"), allowed); });
  run.model->parameters().set_precision(precision);
  return run;
}

namespace {

// Returns true if "\r\n" in texts for the run becomes "\n": in training it did, or the model knows
// no "\r".
bool reads_unix_newlines(const LoadedRun& run) {
  return (run.options && run.options->corpus.unix_newlines) ||
         run.vocabulary.symbols().find(U'\r') == std::u32string::npos;
}

// Characters of a text, whose name in messages is `source`, as the run reads them.
Characters characters_of(std::string_view bytes, const std::string& source, const LoadedRun& run) {
  return read_characters(bytes, source, reads_unix_newlines(run));
}

}  // namespace

std::vector<std::int32_t> encode_flag(const std::string& flag, const std::string& text,
                                      const LoadedRun& run) {
  if (text.empty()) throw UsageError("--{} is empty; give at least one character", flag);
  return named_by(flag, [&] {
    Characters characters = characters_of(text, "the text", run);
    run.vocabulary.encode(characters.points);
    return std::move(characters.points);
  });
}

void require_room(const std::string& flag, std::span<const std::int32_t> tokens,
                  const LoadedRun& run, const char* or_else) {
  const Index context = run.model->plan()->context;
  if (std::ssize(tokens) > context)
    throw UsageError("--{} has {} characters, the context holds {}; shorten it{}", flag,
                     tokens.size(), context, or_else);
}

TextFrame text_frame(const std::optional<TrainOptions>& options, Documents documents,
                     const Vocabulary& vocabulary) {
  TextFrame frame{"", vocabulary.default_prompt(), vocabulary.encode(end_of_document(documents))};
  const BuiltInCorpus* const built_in = options ? find_built_in(options->data) : nullptr;
  if (built_in == nullptr) return frame;
  const StoryGrammar write = built_in->writer(options->corpus.own_of(*built_in));
  const std::string text = write(random_chooser({options->seed, random_stream("opening"), 0})).text;
  const std::size_t end = text.find_first_of(" \n");
  // A line without words begins as any other text does.
  if (end == text.npos || text[end] == '\n') return frame;
  frame.opening = text.substr(0, end);
  frame.prompt = vocabulary.encode(decode_utf8(frame.opening, "a story"));
  return frame;
}

std::string cache_bytes_text(const ModelPlan& model, const CacheRounding& rounding) {
  constexpr double kRealBits = 8 * sizeof(Real);
  const ModelCache cache = cache_of(model);
  const auto bytes = [&](const std::string& part, const CacheRounding& how) {
    ModelCache alone = cache;
    for (CachedLayer& layer : alone.layers)
      std::erase_if(layer.parts, [&](const Kept& kept) { return kept.name != part; });
    return static_cast<double>(alone.bytes(model->context, how).total().value()) /
           static_cast<double>(model->context);
  };
  std::vector<std::string> parts;
  std::string text;
  for (const CachedLayer& layer : cache.layers) {
    for (const Kept& kept : layer.parts) {
      if (std::ranges::count(parts, kept.name) > 0) continue;
      parts.push_back(kept.name);
      const double rounded = bytes(kept.name, rounding), real = bytes(kept.name, {});
      const CacheTypeRow& type = row_of(rounding.of(kept).type);
      text += (text.empty() ? ":\n  " : ", ") + kept.name + " " + tenths_text(rounded);
      if (kept.per_sequence || kept.exact)
        text += " (never rounded)";
      else if (type.scale_bytes > 0 && rounding.all.recent == 0)
        text += " (" + tenths_text(rounded - real / kRealBits * type.bits) + " of scales)";
    }
  }
  return "a token takes " + tenths_text(kv_cache_bytes_per_token(model, rounding)) +
         " bytes of KV cache in " + rounding.text() + ", " +
         tenths_text(kv_cache_bytes_per_token(model)) + " in f32" + text;
}

namespace {

// Name of a text; if it is limited, "the first 1000 characters of input.txt".
std::string name_of(const std::string& text, bool limited, std::size_t characters) {
  return limited ? "the first " + std::to_string(characters) + " characters of " + text : text;
}

Corpus load_file(const std::string& path, const LoadedRun& run, Index characters) {
  Corpus corpus;
  std::vector<std::int32_t>& tokens = corpus.validation.tokens;
  corpus.documents = run.documents;
  named_error<DataError>("--data " + path, [&] {
    Characters text = characters_of(read_file(path), path, run);
    tell(newlines_note(path, text.foreign, reads_unix_newlines(run)));
    corpus.validation = text_part(std::move(text), corpus.documents, path);
    run.vocabulary.encode(tokens);
  });
  const bool limited = characters > 0 && characters < std::ssize(tokens);
  if (limited) corpus.validation = corpus.validation.first(characters);
  corpus.name = name_of(path, limited, tokens.size());
  if (tokens.size() < 2)
    throw DataError(
        "--data {} has one character, and the first is not predicted; name a longer text", path);
  return corpus;
}

}  // namespace

Corpus load_eval_text(const CommandLine& line, const LoadedRun& run,
                      std::optional<Index> characters, const std::string& flag) {
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
  if (own) require_own_text(corpus, line.get("from"), ", or name a text with --" + flag);
  named_by(flag, [&] { adopt_vocabulary(corpus, run.vocabulary); });
  corpus.name =
      name_of(options.validation.empty() ? corpus.name + ", validation part" : options.validation,
              options.validation_characters > 0, corpus.validation.tokens.size());
  return corpus;
}

}  // namespace headcount
