// Text, split at spaces and newlines, as the arguments of `headcount train`; each argument as what
// `headcount compare` takes besides.
#include "train/cli/command_line.h"

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "train/cli/training_flags.h"
#include "train/compare/variants.h"

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::cout.rdbuf(nullptr);  // help goes nowhere
  std::istringstream words(std::string(data, data + size));
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  for (const std::string& argument : arguments) {
    try {
      const std::string match = Match::parse(argument).text();
      if (Match::parse(match).text() != match) std::abort();
    } catch (const Error&) {
    }
    try {
      if (Sweep::parse(argument).text() != argument) std::abort();
    } catch (const Error&) {
    }
  }
  try {
    static const SettingList settings = [] {
      SettingList all = training_settings();
      add_settings(all, run_settings());
      return all;
    }();
    const CommandLine line = parse_command_line(arguments, {"train", "", ""}, settings,
                                                {{"preset", "", true}, {"force", "", false}});
    Given given(settings);
    if (line.has("preset")) given.put(preset(line.get("preset")).settings);
    put_flags(line, given);
    refuse_foreign(line, {resolve_training(given)});
  } catch (const Error&) {
  }
  return 0;
}
