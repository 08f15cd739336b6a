#include "models/released_models.h"

#include <algorithm>
#include <iterator>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"
#include "models/model_data.h"

namespace headcount {

const std::vector<ReleasedModel>& released_models() {
  static const std::vector<ReleasedModel> all = [] {
    std::vector<ReleasedModel> models;
    for (const nlohmann::json& model : nlohmann::json::parse(kReleasedModels))
      models.push_back({model.at("name"), model.at("source"), model.at("config"),
                        model.value("settings", nlohmann::json())});
    return models;
  }();
  return all;
}

const ReleasedModel& released_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ReleasedModel& model : released_models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw DataError("no released model is called '{}'; `list` names those known{}", name,
                  suggestion(name, names));
}

std::vector<ReleasedModel> known_models() {
  std::vector<ReleasedModel> known;
  std::ranges::copy_if(released_models(), std::back_inserter(known),
                       [](const ReleasedModel& model) { return !model.settings.is_null(); });
  return known;
}

const ReleasedModel& known_model(const std::string& name) {
  for (const ReleasedModel& model : released_models()) {
    if (model.name == name && !model.settings.is_null()) return model;
  }
  throw SettingError("`preset` must be one of {}, is '{}'",
                     joined(known_models(), &ReleasedModel::name), name);
}

}  // namespace headcount
