#pragma once

#include "models/language_model.h"
#include "train/page/engine/session.h"

/// Replies of the engine that need no session.
namespace headcount::page {

/// All kinds of attention, in the order of help, with the settings that their specs give as
/// numbers: {"kinds": [{"name", "summary", "attends", "numbers": [{"name", "help"}]}]}.
Json kinds_json();

/// Cached layers of float32 numbers, with the bytes of a token and of a full context.
Json cache_json(const LanguageModel& model);

/// About 600 characters of the validation part, and questions from them with their answers, if the
/// text marks any: {"validation", "questions": [{"prompt", "answer"}]}. A prompt begins where its
/// story begins.
Json text_json(const Corpus& corpus);

/// Continues the "prompt" of `request`, UTF-8, by "tokens" characters at a "temperature" with a
/// "cache", a value of `cache-dtype`, up to the model's context: {"text", "steps", "cache"}. A step
/// has the likeliest characters, the attention weights of each head that has them, without
/// rounding, and, where the cache rounds, the "divergence" of its prediction from the unrounded
/// one, see row_divergence; "cache" has the layers. Throws SettingError, and DataError that names
/// unknown characters or says that a prompt leaves no room for an answer.
Json ask(const LanguageModel& model, const Vocabulary& vocabulary, const nlohmann::json& request);

/// What `compare` would say of the runs of a page: {"verdicts": [sentences]}, see verdict_clauses;
/// none before there are enough losses. `request` has "runs", [{"spec", "bytes" of cache per token,
/// "seeds": [{"seed", "step", "loss", "answers", "questions", "learned": step or 0, "diverged"}]}],
/// where a seed may have "checks", [{"step", "loss", "answers"}] of one part of the text up to its
/// end, which show overfitting,
/// "baselines" as a plan has them, null for a text that marks no answers, and may have "steps",
/// those that runs might take, which compares steps to learn.
Json judge(const nlohmann::json& request);

/// What the KV cache of other people's model costs: "text", as `headcount cost --config` prints it,
/// and "figures", what view/cost.js draws. `request` has the text "config" of a config.json, the
/// "context", and may have "kv_heads" instead of the model's and a "memory" such as "24GiB". Also
/// returns the model's own "kv_heads", 0 if it has none, its "heads" and its longest "context", 0
/// if unknown. Throws DataError and SettingError.
Json model_cost_json(const nlohmann::json& request);

}  // namespace headcount::page
