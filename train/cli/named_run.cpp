#include "train/cli/named_run.h"

#include "autograd/base/utf8.h"

namespace headcount {

LoadedRun load_named_run(const CommandLine& line) {
  if (!line.has("from"))
    throw UsageError("--from is missing; name a run folder that headcount train made");
  return load_run(line.get("from"));
}

std::vector<std::int32_t> encode_flag(const CommandLine& line, const std::string& flag,
                                      const Vocabulary& vocabulary) {
  const std::string text = line.get(flag);
  if (text.empty()) throw UsageError("--" + flag + " is empty; give at least one character");
  try {
    return vocabulary.encode(decode_utf8(text, "--" + flag));
  } catch (const DataError& error) {
    throw DataError("--" + flag + ": " + error.what());
  }
}

}  // namespace headcount
