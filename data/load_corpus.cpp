#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "data/corpus.h"
#include "data/encoded_file.h"

namespace headcount {

Corpus load_corpus(const std::string& data, const CorpusOptions& options) {
  if (const BuiltInCorpus* const built_in = find_built_in(data))
    return write_corpus(*built_in, options);
  if (!is_there(data)) {
    throw DataError("`data` ", headcount::quoted(data),
                    " is neither a file nor one of the built-in texts, ",
                    joined(built_in_corpora(), &BuiltInCorpus::name), "; check the path");
  }
  if (!options.validation.empty() && !is_there(options.validation))
    throw DataError("`validation` ", headcount::quoted(options.validation),
                    " is no file; check the path");
  return text_corpus(data, encode_file(data, options.unix_newlines, options.validation), options);
}

}  // namespace headcount
