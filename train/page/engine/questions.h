#pragma once

#include "train/page/engine/session.h"

namespace headcount::page {

/// A piece of the validation part of about 600 characters, and questions from it with their
/// answers, if the text marks any: {"validation", "questions": [{"prompt", "answer"}]}. A prompt
/// begins where its story begins.
Json text_json(const Corpus& corpus);

}  // namespace headcount::page
