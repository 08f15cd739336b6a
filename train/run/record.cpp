#include "train/run/record.h"

#include <utf8.h>

#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "models/checkpoint/contents.h"
#include "models/checkpoint/durable.h"
#include "train/fields.h"
#include "train/run/provenance.h"

namespace headcount {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string text_of(const json& object, const std::string& key) {
  const json& text = object.at(key);
  if (!text.is_string()) throw DataError("'", key, "' must be a text, is ", text.dump());
  return text;
}

RunStart start_of(const json& start) {
  return {.from_step = whole_number(start, "from_step"),
          .command = text_of(start, "command"),
          .version = text_of(start, "version"),
          .machine = start.value("machine", ""),
          .steps = start.contains("steps") ? whole_number(start, "steps") : 0};
}

RunRecord record_of(const json& object) {
  RunRecord record{.data_sha256 = text_of(object, "data_sha256"),
                   .seed = object.at("seed").get_ref<const json::number_unsigned_t&>(),
                   .working_directory = object.value("working_directory", ""),
                   .starts = {}};
  const json& starts = object.at("starts");
  if (!starts.is_array() || starts.empty())
    throw DataError("'starts' must be a list of the starts of the program");
  for (const json& start : starts) record.starts.push_back(start_of(start));
  return record;
}

// The current directory; empty if its name is not UTF-8, which JSON needs.
std::string working_directory() {
  std::error_code error;
  const std::string path = fs::current_path(error).string();
  return utf8::is_valid(path) ? path : "";
}

}  // namespace

RunRecord read_run_record(const fs::path& folder) {
  const fs::path file = folder / kRecord;
  return read_json(read_file(file), file.string() + " is damaged", record_of);
}

void record_start(const fs::path& folder, RunRecord record, Index from_step, Index steps,
                  const std::string& command) {
  if (record.starts.empty()) record.working_directory = working_directory();
  record.starts.push_back({from_step, command, version_text(), machine_text(), steps});
  nlohmann::ordered_json object = {{"data_sha256", record.data_sha256}, {"seed", record.seed}};
  if (!record.working_directory.empty()) object["working_directory"] = record.working_directory;
  object["starts"] = json_of(record.starts);
  write_file_durably(folder / kRecord, object.dump(2) + "\n");
}

}  // namespace headcount
