#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "models/checkpoint/durable.h"
#include "train/cli/command_line.h"
#include "train/cli/commands.h"
#include "train/report/run_report.h"
#include "train/run/place.h"

namespace headcount {

namespace fs = std::filesystem;

const CommandHelp kReportHelp = {
    "report", "Show curves and settings of training runs side by side, as a page, JSON and CSV.",
    "  headcount report --from runs/mha\n"
    "  headcount report --from runs/mha runs/mla --out runs/two --json\n"
    "  headcount report --from runs/compare-lookup/runs/*/seed-1\n"};

namespace {

const std::vector<Flag> kReportFlags = {
    {"from", "one or more run folders; the runs may still be training", true},
    {"out", "folder for report.html, curves.json and curves.csv; default runs/report", true},
    {"json", "print curves.json instead of the table", false}};

// Removes the words after the first one of --from from `arguments`, up to the next flag, and
// returns them.
std::vector<std::string> take_more_runs(std::vector<std::string>& arguments) {
  std::vector<std::string> more;
  const auto from = std::ranges::find_if(arguments, [](const std::string& word) {
    return word == "--from" || word.starts_with("--from=");
  });
  if (from == arguments.end()) return more;
  const auto first = std::min(from + (*from == "--from" ? 2 : 1), arguments.end());
  const auto end = std::find_if(first, arguments.end(),
                                [](const std::string& word) { return word.starts_with("--"); });
  more.assign(first, end);
  arguments.erase(first, end);
  return more;
}

void write_report(const std::vector<RunCurves>& runs, const fs::path& folder) {
  make_folder(folder);
  write_file_durably(folder / "curves.json", curves_json(runs).dump(2) + "\n");
  write_file_durably(folder / "curves.csv", curves_csv(runs));
  write_file_durably(folder / "report.html", run_report(runs));
}

}  // namespace

int report_command(const std::vector<std::string>& arguments, Ranks&) {
  std::vector<std::string> others = arguments;
  std::vector<std::string> folders = take_more_runs(others);
  const CommandLine line = parse_command_line(others, kReportHelp, SettingList(), kReportFlags);
  if (line.has("help")) return 0;
  const std::string first =
      line.required("from", "name one or more run folders that headcount train made");
  for (const std::string& folder : folders) check_path("from", folder);
  folders.insert(folders.begin(), first);
  const fs::path out = line.get("out", "runs/report");
  check_place_of_results(out, "headcount report", "curves.json", "runs", [](const fs::path& file) {
    return file == "report.html" || file == "curves.json" || file == "curves.csv";
  });
  const std::vector<RunCurves> runs = read_runs(folders);
  write_report(runs, out);
  if (line.has("json")) {
    std::cout << curves_json(runs).dump(2) << '\n';
  } else {
    std::cout << text_table(run_columns(runs, Reader::terminal), runs) << "report "
              << (out / "report.html").string() << '\n';
  }
  return 0;
}

}  // namespace headcount
