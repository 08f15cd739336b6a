#pragma once

#include "data/built_in.h"
#include "data/tales.h"

namespace headcount {

/// Corpus of tales of another size than the built-in one.
template <TalesOptions size>
BuiltInCorpus tales_of() {
  return {.name = "tales", .writer = [](const Given&) -> StoryGrammar {
            return [](const Chooser& chooser) { return tell_tale(size, chooser); };
          }};
}

}  // namespace headcount
