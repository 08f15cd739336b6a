#include "train/run/record.h"

#include <utf8.h>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "models/checkpoint/durable.h"
#include "train/run/provenance.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

// The current directory; empty if its name is not UTF-8, which JSON needs.
std::string working_directory() {
  std::error_code error;
  const std::string path = fs::current_path(error).string();
  return utf8::is_valid(path) ? path : "";
}

}  // namespace

RunRecord read_run_record(const fs::path& folder) {
  const fs::path file = folder / kRecord;
  const std::string text = read_file(file);
  return read_json(text, file.string() + " is damaged", [&](const nlohmann::json&) {
    RunRecord record;
    read_from(nlohmann::ordered_json::parse(text), record);  // keys in the order of the file
    if (record.version.empty())  // earlier versions had the settings in a file of their own
      record.settings = parse_json(read_file(folder / "config.json"));
    if (!record.settings.is_object()) throw DataError("'settings' is no object");
    return record;
  });
}

void write_run_record(const fs::path& folder, RunRecord record) {
  record.version = version_text();
  write_file_durably(folder / kRecord, json_of(record).dump(2) + "\n");
}

void record_start(const fs::path& folder, RunRecord record, const TrainOptions& options,
                  Index from_step, const std::string& command) {
  if (record.starts.empty()) record.working_directory = working_directory();
  record.settings = to_json(options);
  record.starts.push_back({from_step, command, version_text(), machine_text()});
  write_run_record(folder, std::move(record));
}

}  // namespace headcount
