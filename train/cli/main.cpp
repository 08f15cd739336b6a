#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "train/cli/command_line.h"
#include "train/cli/commands.h"
#include "train/cli/mpi_ranks.h"
#include "train/interrupt.h"
#include "train/run/provenance.h"

namespace {

using namespace headcount;

void print_help(std::ostream& out) {
  out << "headcount: how many KV heads does a transformer need, and what does each one cost?\n\n"
         "Begin with\n"
         "  headcount compare                  four KV heads and one: is one enough? half a "
         "minute\n"
         "  headcount train --attention gqa2   one model, with two KV heads\n\n"
         "Commands\n";
  for (const Command* command : kCommands)
    out << "  " << std::left << std::setw(9) << command->help.name << command->help.summary << '\n';
  out << "\nheadcount COMMAND --help, or headcount help COMMAND, lists the flags of a command;\n"
         "headcount help WORD, such as gqa2 or mqa/share, explains an attention or a topic:\n";
  print_words_of_help(false, out);
  out << "headcount --help all says a sentence on each, headcount --version what it is built "
         "with.\n"
         "Exit codes: 0 done, 1 a failure while running (a disk, memory, a lock, a run of a\n"
         "  comparison), 2 usage, 3 bad data or a damaged checkpoint, 4 a result became NaN or\n"
         "  infinite, 128 + the signal interrupted (130 by Ctrl-C, 143 by SIGTERM)\n";
}

const Command& command_named(const std::string& name, const std::string& what = "command") {
  std::vector<std::string> known;
  for (const Command* command : kCommands) {
    if (command->help.name == name) return *command;
    known.push_back(command->help.name);
  }
  throw UsageError("{} is no {} of headcount; known commands are {}{}", headcount::quoted(name),
                   what, joined(known), suggestion(name, known));
}

// Returns true for words such as gqa2 and 3*gqa2/mqa, and for any that begin with an attention's
// name, whose error then says what is wrong with the rest.
bool is_attention(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("0123456789*"), word.size()));
  return std::ranges::any_of(
      attention_kinds(), [&](const AttentionKind* kind) { return word.starts_with(kind->name); });
}

// Throws UsageError if more than `count` arguments were given.
void refuse_more(const std::vector<std::string>& arguments, std::size_t count) {
  if (arguments.size() > count)
    throw UsageError("{} is a word too many; see headcount help",
                     headcount::quoted(arguments[count]));
}

int run(const std::vector<std::string>& arguments, Ranks& ranks) {
  if (arguments.empty()) {
    print_help(std::cerr);
    return 2;
  }
  const std::string& first = arguments[0];
  if (first == "help" && arguments.size() > 1 && arguments[1] != "all") {
    std::string word = arguments[1];  // "GQA" is gqa
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool is_command = std::ranges::any_of(
        kCommands, [&](const Command* command) { return command->help.name == word; });
    const bool topic = !is_command && !topic_text(word).empty();
    if (topic || is_attention(word)) {
      refuse_more(arguments, 2);
      topic ? print_topic_help(word) : print_attention_help(word);
      return 0;
    }
    std::vector<std::string> flags(arguments.begin() + 1, arguments.end());
    flags.front() = "--help";
    return run_command(command_named(word, "command, attention, topic or flag"), flags, ranks);
  }
  if (first == "--help" || first == "-h" || first == "help") {
    const bool all = arguments.size() > 1 && arguments[1] == "all";
    refuse_more(arguments, all ? 2 : 1);
    print_help(std::cout);
    if (all) print_words_of_help(true, std::cout);
    return 0;
  }
  if (first == "--version") {
    refuse_more(arguments, 1);
    std::cout << version_text() << ", " << mpi_text() << '\n';
    return 0;
  }
  const Command& command = command_named(first);
  if (!command.shared && ranks.size() > 1)
    throw UsageError("headcount {} runs in one process; start it without mpirun", first);
  return run_command(command, {arguments.begin() + 1, arguments.end()}, ranks);
}

// Exit codes: 1 runtime failure, 2 usage, 3 bad data or checkpoint, 4 a result that is not finite,
// 128 + signal interrupted after saving.
int exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) || dynamic_cast<const SettingError*>(&error) ||
      dynamic_cast<const ShapeError*>(&error)) {
    return 2;
  }
  if (dynamic_cast<const DataError*>(&error)) return 3;
  if (dynamic_cast<const NonFiniteError*>(&error)) return 4;
  if (const auto* interrupted = dynamic_cast<const InterruptedError*>(&error))
    return 128 + interrupted->signal();
  return 1;
}

// Replaces closed standard streams by /dev/null. Otherwise a file that is opened would get the
// lowest free descriptor, that of standard error, and progress would be written into it.
void open_standard_streams() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", kModes[stream]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` then fails as other writes do
  std::unique_ptr<Ranks> ranks = std::make_unique<Ranks>();
  // Processes of a comparison share its folder only. The first one of those that a launcher started
  // together prints the results and returns their exit code.
  const bool compares = argc > 1 && argv[1] == kCompareCommand.help.name;
  int code = 0;
  std::string error;
  try {
    if (!compares) ranks = started_ranks();
    const bool first = (compares ? launched_rank() : ranks->rank()) == 0;
    if (!first && std::freopen("/dev/null", "w", stdout) == nullptr)
      throw std::runtime_error("cannot open /dev/null");
    code = run({argv + 1, argv + argc}, *ranks);
    if (compares && !first) code = 0;
    // A full disk is found here at the latest.
    if (!std::cout.flush() || std::fflush(stdout) != 0)
      throw std::runtime_error("cannot write to standard output");
  } catch (const std::bad_alloc&) {
    code = 1;
    error = "out of memory; choose a smaller model, batch or context";
  } catch (const std::exception& thrown) {
    code = exit_code(thrown);
    error = as_flags(thrown.what());
  }
  // One rank reports an error that all have.
  if (!error.empty() && ranks->rank() == 0) std::cerr << "headcount: " << error << '\n';
  if (ranks->end(code == 0)) return code;
  if (ranks->rank() > 0) std::cerr << "headcount: rank " << ranks->rank() << ": " << error << '\n';
  ranks->abort(code);
}
