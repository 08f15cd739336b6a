#include "train/run/state.h"

#include <array>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/tape.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"

namespace headcount {

namespace {

constexpr const char* kMoments = "optimizer.safetensors";
constexpr const char* kState = "trainer_state.json";

}  // namespace

nlohmann::ordered_json to_json(const StepResult& result) {
  return {{"step", result.step},
          {"loss", result.loss},
          {"lr", result.learning_rate},
          {"grad_norm", result.gradient_norm}};
}

StepResult step_from(const nlohmann::json& line) {
  return {line.at("step"), line.at("loss"), line.at("lr"), line.at("grad_norm")};
}

void write_training_state(const std::filesystem::path& folder, const TrainingState& state,
                          const ParameterStore& parameters, const Optimizer& optimizer) {
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      const std::span<const Real> numbers = moment.numbers.of({i});
      if (const auto wrong = non_finite(numbers))
        throw NonFiniteError(moment.name, ".", parameters.name({i}), " ", *wrong,
                             "; no checkpoint is saved");
      tensors.push_back({moment.name + "." + parameters.name({i}),
                         {std::ssize(numbers)},
                         kRealDtype,
                         numbers.data()});
    }
  }
  write_safetensors(folder / kMoments, tensors);
  nlohmann::ordered_json json = {{"step", state.step},
                                 {"metrics_bytes", state.metrics_bytes},
                                 {"val_loss", nullptr},
                                 {"best_step", nullptr},
                                 {"best_val_loss", nullptr}};
  if (state.best.step > 0)
    json.update({{"best_step", state.best.step}, {"best_val_loss", state.best.loss}});
  if (state.validation_loss) json["val_loss"] = *state.validation_loss;
  if (state.unevaluated) json["unevaluated"] = to_json(*state.unevaluated);
  write_file_durably(folder / kState, json.dump(2) + "\n");
}

std::optional<Index> best_step(const std::filesystem::path& folder) {
  const nlohmann::json state = parse_json(read_file(folder / kState));
  if (state.value("best_step", nlohmann::json()).is_null()) return std::nullopt;
  return whole_number(state, "best_step");
}

TrainingState read_training_state(const std::filesystem::path& folder,
                                  const ParameterStore& parameters, const Optimizer& optimizer) {
  require_sums(folder, std::array<std::string, 2>{kMoments, kState});
  const Safetensors file = open_safetensors(folder / kMoments);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      const TensorView& tensor = file.at(moment.name + "." + parameters.name({i}));
      read_into(tensor, moment.numbers.of({i}));
      if (const auto wrong = non_finite(moment.numbers.of({i})))
        throw DataError(tensor.source, ": ", tensor.name, " ", *wrong, "; take another checkpoint");
    }
  }
  const std::filesystem::path path = folder / kState;
  return read_json(read_file(path), path.string(), [](const nlohmann::json& json) {
    TrainingState state;
    state.step = whole_number(json, "step");
    state.metrics_bytes = static_cast<std::uint64_t>(whole_number(json, "metrics_bytes"));
    if (!json.at("best_step").is_null())
      state.best = {whole_number(json, "best_step"), json.at("best_val_loss")};
    if (json.contains("unevaluated")) state.unevaluated = step_from(json["unevaluated"]);
    return state;
  });
}

}  // namespace headcount
