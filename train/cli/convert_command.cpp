#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"
#include "models/checkpoint/hugging_face.h"
#include "models/cost/cost.h"
#include "models/tools/conversion.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"
#include "train/cli/training_flags.h"
#include "train/evaluation.h"
#include "train/run/place.h"
#include "train/show/table.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

SettingList convert_settings() {
  SettingList all;
  for (const std::string_view name : kConvertedSettings)
    all.push_back(*find_setting(model_settings(), name));
  Setting& attention = all.front();
  attention.help =
      "attention of the new model: mha, mqa, gqa or mla; a size may follow, as in "
      "gqa2 or mla48+16";
  attention.standard = {};  // it must be named
  all.push_back(threads_setting());
  return all;
}

// One model of the conversion as JSON, with its loss on the text if there is one.
Json side(const LanguageModel& model, const std::optional<Corpus>& text) {
  Json json = {{"attention", model.plan()->word},
               {"params", model.parameters().element_count()},
               {"kv_cache_bytes_per_token", json_number(kv_cache_bytes_per_token(model.plan()))}};
  if (!text) return json;
  const Evaluation evaluation =
      evaluate(model, text->validation.tokens, {.marks = text->marks(text->validation)});
  json["loss"] = evaluation.loss;
  json["accuracy"] = evaluation.accuracy;
  if (evaluation.answer_accuracy) json["answer_accuracy"] = *evaluation.answer_accuracy;
  return json;
}

// Flags that name the text of a run, with the settings of a built-in one.
std::string text_flags(const TrainOptions& options) {
  std::string flags;
  const Json all = to_json(options);
  for (const auto& [name, value] : all.items()) {
    const Setting& setting = *find_setting(training_settings(), name);
    if (setting.traits.scope == Scope::data && nlohmann::json(value) != setting.standard.value)
      flags += " --" + name + " " + shell_word(setting_text(value));
  }
  return flags;
}

// The conversion, and how to train the model further on the text that `data` names.
std::string text_of(const Json& result, const std::string& data) {
  const Json &from = result["from"], &to = result["to"];
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const auto both = [&](const char* key, int decimals) {
    return formatted("%.*f -> %.*f", decimals, from[key].get<double>(), decimals,
                     to[key].get<double>());
  };
  const char* const bytes = "kv_cache_bytes_per_token";  // whole, or of rows that tokens share
  const bool whole = from[bytes].is_number_integer() && to[bytes].is_number_integer();
  const std::string out = text(result["out"]);
  return "from " + text(from["attention"]) + "\nto   " + text(to["attention"]) + "\n\nparameters " +
         both("params", 0) + "\nKV cache, bytes a token " + both(bytes, whole ? 0 : 2) + "\n" +
         (from.contains("loss") ? "loss " + both("loss", 4) + " nats per " + text(result["unit"]) +
                                      " (" + printable(text(result["data"])) + ")\n"
                                : "") +
         note_line(result.value("note", "")) + "model in " + printable(out) +
         "; train it further by headcount train --init " + shell_word(out) + data + "\n";
}

[[noreturn]] void refuse_old(const fs::path& out) {
  throw UsageError("--out {} is there already; name a new folder", out.string());
}

// Writes the model under a name that no other process uses, then renames it: if two processes name
// one folder, one of them gets it, whole.
void save(const fs::path& out, const LanguageModel& model, const LoadedRun& from) {
  if (out.has_parent_path()) make_folder(out.parent_path());
  const fs::path own =
      out.parent_path() / ("." + out.filename().string() + "." + std::to_string(getpid()));
  try {
    save_checkpoint(own, model, from.vocabulary, from.documents);
  } catch (const WriteError& failure) {
    throw WriteError(out, failure.error_number());
  }
  std::error_code error, ignored;
  fs::rename(own, out, error);
  if (!error) return;
  fs::remove_all(own, ignored);
  if (fs::exists(fs::symlink_status(out, ignored))) refuse_old(out);
  throw WriteError(out, error.value());
}

int convert_command(const Call& call) {
  const CommandLine& line = call.line;
  flags_given(call);  // refuses sizes that an attention's word gives and no conversion changes
  for (const char* flag : {"from", "out"}) line.required(flag, "see headcount convert --help");
  if (!line.has("attention"))
    throw UsageError("--attention is missing; name the one to convert to, such as gqa2");
  fs::path out = line.get("out");
  if (!out.has_filename()) out = out.parent_path();  // "runs/a/" is "runs/a"
  check_out_folder(out);
  if (fs::exists(fs::symlink_status(out))) refuse_old(out);

  const LoadedRun run = load_named_run(call);
  std::optional<Corpus> text;
  if (run.options || line.has("data")) text = load_eval_text(line, run);
  Given wanted = for_another_attention(Given(model_settings(), run.model->plan()->settings));
  put_flags(line, wanted);
  const std::unique_ptr<LanguageModel> model = convert(*run.model, wanted);
  const ModelPlan& to = model->plan();
  refuse_unread(line, model_settings(), {to->settings},
                [&](const Setting&) { return "--attention " + line.get("attention"); });
  refuse_idle_words(*line.find("attention"), *to);

  Json result = {{"from", side(*run.model, text)}, {"to", side(*model, text)}};
  if (text) {
    result["data"] = text->name;
    result["unit"] = text->unit();
  }
  if (const std::string note = hugging_face_note(to); !note.empty()) result["note"] = note;
  result["out"] = out.string();
  const std::string data = run.options && !line.has("data")
                               ? text_flags(found_from_here(*run.options, line.get("from")))
                               : " --data " + (text ? shell_word(line.get("data")) : "TEXT");
  save(out, *model, run);
  return print_result(call.format, result, result, text_of(result, data));
}

}  // namespace

const Command kConvertCommand = {
    {"convert", "Give a trained model another attention and report what that costs.",
     "  headcount convert --from runs/mha --attention gqa2 --out runs/gqa2\n"
     "  headcount convert --from runs/mha --attention mla48+16 --out runs/mla\n"
     "  headcount train --init runs/gqa2 --data input.txt --steps 100\n"},
    convert_settings,
    {{"from",
      "run folder, checkpoint folder or Hugging Face model folder; --from may be left out before "
      "it",
      true, false, true},
     {"out", "new folder for the converted model", true},
     {"data",
      "text file, or built-in text, on which the loss is measured before and after [the "
      "validation part of the run's own text]",
      true},
     kAllowNonFinite,
     kFormatFlag},
    convert_command};

}  // namespace headcount
