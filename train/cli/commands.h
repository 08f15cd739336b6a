#pragma once

#include <iosfwd>
#include <string>
#include <vector>

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

/// Prints the parts of an attention's word, and of each attention in it sentences, formula and
/// source; then a command to try, the cache and the settings.
void print_attention_help(const std::string& spec);

/// Topics that `help` explains, built-in texts and optimizers among them.
std::vector<std::string> topic_names();
/// Text on a topic; empty if there is none of that name.
std::string topic_text(std::string_view name);
/// Prints the names of attentions and topics, or a sentence on each.
void print_words_of_help(bool sentences, std::ostream& out);
/// Prints text, settings and a command to try of a topic.
void print_topic_help(const std::string& name);

/// Up to `count` questions of the validation part, what the model answers, and how many answers are
/// right.
std::string questions_text(const LanguageModel& model, const Corpus& corpus, Index count);

}  // namespace headcount
