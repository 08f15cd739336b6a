#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "data/corpus.h"

namespace headcount {

Corpus load_corpus(const std::string& data, const CorpusOptions& options) {
  if (const BuiltInCorpus* const built_in = find_built_in(data))
    return write_corpus(*built_in, options);
  const std::string& second = options.validation;
  if (!is_there(data)) {
    throw DataError("`data` {} is neither a file nor one of the built-in texts, {}; check the path",
                    headcount::quoted(data), joined(built_in_corpora(), &BuiltInCorpus::name));
  }
  if (!second.empty() && !is_there(second))
    throw DataError("`validation` {} is no file; check the path", headcount::quoted(second));
  const auto read = [&](const std::string& path) {
    return read_characters(read_file(path), path, options.unix_newlines);
  };
  Characters text = read(data);
  if (second.empty()) return text_corpus(data, std::move(text), options);
  return text_corpus(data, std::move(text), options, read(second));
}

}  // namespace headcount
