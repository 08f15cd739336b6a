#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "models/language_model.h"
#include "nn/attention/kind.h"
#include "train/cli/command_line.h"
#include "train/ranks.h"

namespace headcount {

/// The subcommands: each takes the arguments after its name, writes results to standard output and
/// progress to standard error, and returns the exit code or throws. `train` and `eval` share their
/// work among all ranks; rank 0 alone writes results. The others are called by one process alone.
using Command = int(const std::vector<std::string>& arguments, Ranks& ranks);

/// The help of each subcommand.
extern const CommandHelp kTrainHelp, kCompareHelp, kReportHelp, kSampleHelp, kEvalHelp, kAttendHelp,
    kConvertHelp, kCostHelp, kAskHelp, kDataHelp;

/// Prints what an attention is: its sentence, formula, source, settings and cache.
void print_attention_help(const std::string& spec);

/// Prints up to `count` questions of the validation part, what the model answers, and how many
/// answers are right.
void print_questions(const LanguageModel& model, const Corpus& corpus, Index count);

Command train_command, compare_command, report_command, sample_command, eval_command,
    attend_command, convert_command, cost_command, ask_command, data_command;

}  // namespace headcount
