#include "data/corpus.h"
#include "data/encoded_file.h"

namespace headcount {

Corpus load_corpus(const std::string& data, const CorpusOptions& options) {
  if (const BuiltInCorpus* const built_in = find_built_in(data))
    return write_corpus(*built_in, options);
  return text_corpus(data, encode_file(data), options);
}

}  // namespace headcount
