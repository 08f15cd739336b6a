#pragma once

#include <string>

#include "data/corpus.h"
#include "models/language_model.h"
#include "nn/attention/kind.h"
#include "train/cli/command_line.h"

namespace headcount {

/// The subcommands.
extern const Command kTrainCommand, kCompareCommand, kReportCommand, kSampleCommand, kAskCommand,
    kDataCommand, kEvalCommand, kAttendCommand, kConvertCommand, kCostCommand;
/// All of them, in the order of the help.
inline constexpr const Command* kCommands[] = {
    &kTrainCommand, &kCompareCommand, &kReportCommand, &kSampleCommand,  &kAskCommand,
    &kDataCommand,  &kEvalCommand,    &kAttendCommand, &kConvertCommand, &kCostCommand};

/// Prints what an attention is: its sentence, formula, source, settings and cache.
void print_attention_help(const std::string& spec);

/// Up to `count` questions of the validation part, what the model answers, and how many answers are
/// right.
std::string questions_text(const LanguageModel& model, const Corpus& corpus, Index count);

}  // namespace headcount
