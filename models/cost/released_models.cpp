#include "models/cost/released_models.h"

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "models/cost/model_data.h"

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

}  // namespace headcount
