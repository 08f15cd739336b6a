#include "train/run/record.h"

#include <utf8.h>

#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "models/checkpoint/durable.h"
#include "train/run/provenance.h"

namespace headcount {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path record_file(const fs::path& folder) { return folder / kRecord; }

std::string text_of(const json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("'" + key + "' is missing");
  if (!found->is_string()) throw DataError("'" + key + "' must be a text, is " + found->dump());
  return found->get<std::string>();
}

RunStart start_of(const json& object) {
  if (!object.is_object()) throw DataError("'starts' must hold objects");
  RunStart start{whole_number(object, "from_step"), text_of(object, "command"),
                 text_of(object, "version"), ""};
  if (object.contains("machine")) start.machine = text_of(object, "machine");
  if (object.contains("steps")) start.steps = whole_number(object, "steps");
  return start;
}

RunRecord record_of(const json& object) {
  if (!object.is_object()) throw DataError("it must be a JSON object");
  RunRecord record{.data_sha256 = text_of(object, "data_sha256"), .starts = {}};
  const auto seed = object.find("seed"), starts = object.find("starts");
  if (seed == object.end() || !seed->is_number_unsigned())
    throw DataError("'seed' must be a whole number");
  record.seed = seed->get<std::uint64_t>();
  if (starts == object.end() || !starts->is_array() || starts->empty())
    throw DataError("'starts' must be a list of the starts of the program");
  if (object.contains("working_directory"))
    record.working_directory = text_of(object, "working_directory");
  for (const json& start : *starts) record.starts.push_back(start_of(start));
  return record;
}

// Where this program was started; empty where JSON cannot say it.
std::string working_directory() {
  std::error_code error;
  const std::string path = fs::current_path(error).string();
  return utf8::is_valid(path) ? path : "";
}

}  // namespace

RunRecord read_run_record(const fs::path& folder) {
  const fs::path file = record_file(folder);
  const std::string text = read_file(file);
  try {
    return record_of(parse_json(text));
  } catch (const DataError& error) {
    throw DataError(file.string() + " is damaged: " + error.what());
  }
}

void record_start(const fs::path& folder, RunRecord record, Index from_step, Index steps,
                  const std::string& command) {
  if (record.starts.empty()) record.working_directory = working_directory();
  record.starts.push_back({from_step, command, version_text(), machine_text(), steps});
  nlohmann::ordered_json starts = nlohmann::ordered_json::array();
  for (const RunStart& start : record.starts) {
    starts.push_back({{"from_step", start.from_step},
                      {"command", start.command},
                      {"version", start.version},
                      {"machine", start.machine}});
    if (start.steps > 0) starts.back()["steps"] = start.steps;
  }
  nlohmann::ordered_json object = {{"data_sha256", record.data_sha256}, {"seed", record.seed}};
  if (!record.working_directory.empty()) object["working_directory"] = record.working_directory;
  object["starts"] = starts;
  write_file_durably(record_file(folder), object.dump(2) + "\n");
}

}  // namespace headcount
