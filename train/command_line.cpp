#include "train/command_line.h"

#include <cxxopts.hpp>
#include <iostream>

namespace headcount {

bool CommandLine::has(std::string_view flag) const {
  for (const auto& [name, text] : flags) {
    if (name == flag) return true;
  }
  return false;
}

std::string CommandLine::get(std::string_view flag, std::string otherwise) const {
  for (const auto& [name, text] : flags) {
    if (name == flag) return text;
  }
  return otherwise;
}

namespace {

// cxxopts puts what it quotes between typographic marks; a terminal may not have them.
std::string plain(std::string message) {
  for (const std::string_view mark : {"\u2018", "\u2019"}) {
    for (std::size_t at; (at = message.find(mark)) != std::string::npos;) message.replace(at, mark.size(), "'");
  }
  return message;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments, const CommandHelp& command,
                               const Settings& settings, const std::vector<Flag>& flags) {
  cxxopts::Options options("headcount " + command.name, command.summary);
  options.custom_help("[flags]").set_width(100);
  // Every value is read as text: Setting::parse checks ranges, cxxopts would wrap large numbers.
  for (const Setting& s : settings.all()) {
    options.add_options(s.group)(s.name, s.help, cxxopts::value<std::string>());
  }
  for (const Flag& f : flags) {
    if (f.takes_value) {
      options.add_options("Run")(f.name, f.help, cxxopts::value<std::string>());
    } else {
      options.add_options("Run")(f.name, f.help);
    }
  }
  options.add_options("Run")("help", "this text");

  std::vector<const char*> argv = {"headcount"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CommandLine line;
  const std::string hint = "; see headcount " + command.name + " --help";
  try {
    const cxxopts::ParseResult result = options.parse(static_cast<int>(argv.size()), argv.data());
    if (!result.unmatched().empty()) {
      throw UsageError("'" + result.unmatched().front() + "' is not a flag" + hint);
    }
    for (const cxxopts::KeyValue& given : result.arguments()) {
      const bool setting = settings.find(given.key()) != nullptr;
      (setting ? line.settings : line.flags).emplace_back(given.key(), given.value());
    }
  } catch (const cxxopts::exceptions::exception& error) {
    throw UsageError(plain(error.what()) + hint);
  }
  if (line.has("help")) std::cout << options.help() << "\nExamples:\n" << command.examples;
  return line;
}

}  // namespace headcount
