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
  return read_json(read_file(file), file.string() + " is damaged", [](const auto& object) {
    RunRecord record;
    read_from(object, record);
    return record;
  });
}

void record_start(const fs::path& folder, RunRecord record, Index from_step, Index steps,
                  const std::string& command) {
  if (record.starts.empty()) record.working_directory = working_directory();
  record.starts.push_back({from_step, command, version_text(), machine_text(), steps});
  write_file_durably(folder / kRecord, json_of(record).dump(2) + "\n");
}

}  // namespace headcount
