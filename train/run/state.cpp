#include "train/run/state.h"

#include <array>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/checks/trap.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"

namespace headcount {

namespace {

constexpr const char* kMoments = "optimizer.safetensors";
constexpr const char* kState = "trainer_state.json";

}  // namespace

std::vector<LoggedStep> read_metrics(const std::filesystem::path& folder, Index last) {
  const std::filesystem::path file = folder / "metrics.jsonl";
  std::error_code none;
  const bool begun = std::filesystem::file_size(file, none) > 0 && !none;
  const std::string text = begun ? read_file(file) : "";
  std::vector<LoggedStep> steps;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
    const std::string name = file.string() + ", line " + std::to_string(steps.size() + 1) +
                             ", is damaged; remove the file to resume the run without it";
    LoggedStep& at = steps.emplace_back();
    read_json(text.substr(from, end - from), name, [&](const nlohmann::json& line) {
      read_from(line, at);
      return true;
    });
    at.end = end + 1;
    if (at.step.step <= last) continue;
    steps.pop_back();
    break;
  }
  return steps;
}

BestEvaluation best_of(std::span<const LoggedStep> steps) {
  BestEvaluation best;
  for (const LoggedStep& at : steps) {
    if (at.validation_loss && *at.validation_loss < best.loss)
      best = {at.step.step, *at.validation_loss};
  }
  return best;
}

void write_training_state(const std::filesystem::path& folder, Index step,
                          const ParameterStore& parameters, const Optimizer& optimizer) {
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      const std::span<const Real> numbers = moment.numbers.of({i});
      if (const auto wrong = non_finite(numbers))
        throw NonFiniteError("{}.{} {}; no checkpoint is saved", moment.name, parameters.name({i}),
                             *wrong);
      tensors.push_back({moment.name + "." + parameters.name({i}),
                         {std::ssize(numbers)},
                         kRealDtype,
                         numbers.data()});
    }
  }
  write_safetensors(folder / kMoments, tensors);
  const nlohmann::json json = {{"step", step}};
  write_file_durably(folder / kState, json.dump(2) + "\n");
}

Index read_training_state(const std::filesystem::path& folder, const ParameterStore& parameters,
                          const Optimizer& optimizer) {
  require_sums(folder, std::array<std::string, 2>{kMoments, kState});
  const Safetensors file = open_safetensors(folder / kMoments);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      const TensorView& tensor = file.at(moment.name + "." + parameters.name({i}));
      read_into(tensor, moment.numbers.of({i}));
      if (const auto wrong = non_finite(moment.numbers.of({i})))
        throw DataError("{}: {} {}; take another checkpoint", tensor.source, tensor.name, *wrong);
    }
  }
  const std::filesystem::path path = folder / kState;
  return read_json(read_file(path), path.string(),
                   [](const nlohmann::json& json) { return whole_number(json, "step"); });
}

}  // namespace headcount
