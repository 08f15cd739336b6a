#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "models/checkpoint/durable.h"
#include "train/cli/commands.h"
#include "train/compare/results.h"
#include "train/run/place.h"
#include "train/view/report.h"
#include "train/view/run_curves.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

// Section on the comparison whose results are in `file`.
ReportPart part_of_results(const std::string& file) {
  const std::string text = read_file(file);
  return read_json(text, file, [&](const nlohmann::json&) {  // keys in the order of the file
    return comparison_part(read_results(nlohmann::ordered_json::parse(text)));
  });
}

int report_command(const Call& call) {
  const CommandLine& line = call.line;
  line.required("from", "name run folders that headcount train made, or results.json files");
  const std::vector<std::string> sources = line.all("from");
  const fs::path out = line.get("out", "runs/report");
  const fs::path page = out.extension() == ".html" ? out : out / "report.html";
  if (page != out) check_out_folder(out);
  std::vector<ReportPart> parts;
  std::vector<std::string> folders;
  for (const std::string& source : sources) {
    if (fs::path(source).extension() == ".json") {
      parts.push_back(part_of_results(source));
    } else {
      folders.push_back(source);
    }
  }
  if (!folders.empty()) parts.push_back(runs_part(read_runs(folders)));
  const bool for_programs = call.format == Format::json || call.format == Format::csv;
  if (for_programs && parts.size() > 1) {
    throw UsageError("--format {} prints one comparison, or runs; name fewer with --from",
                     line.get("format"));
  }
  if (page != out) make_folder(out);
  write_file_durably(page, report_page(parts));
  const std::size_t width = table_width(line);
  for (const ReportPart& part : parts) {
    const std::string table = part.table(call.format, width);
    std::cout << (for_programs ? table : printable(table + verdict_lines(part.verdicts, width)));
  }
  if (!for_programs) std::cout << "report " << printable(page.string()) << '\n';
  return 0;
}

}  // namespace

const Command kReportCommand = {
    {"report", "Show comparisons, or curves and settings of training runs, side by side as a page.",
     "  headcount report runs/compare-lookup/results.json\n"
     "  headcount report before/results.json after/results.json --out runs/both\n"
     "  headcount report --from runs/mha runs/mla --out runs/two --format json\n"
     "  headcount report --from runs/compare-lookup/runs/*/seed-1\n"},
    [] { return SettingList(); },
    {{"from",
      "one or more run folders, whose runs may still be training, or results.json files of "
      "comparisons; --from may be left out before them",
      true, true, true},
     {"out", "the page, FILE.html, or the folder of its report.html [runs/report]", true},
     kFormatFlag,
     kWideFlag},
    report_command};

}  // namespace headcount
