#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/results.h"
#include "train/run_program.h"

namespace headcount {

/// A folder for comparisons of models that train in milliseconds.
class ComparisonFolder : public TrainFolder {
 public:
  /// `headcount compare` with `flags` over those of the small model, two attentions, two seeds, two
  /// threads and the folder c.
  static std::string line(const std::string& flags) {
    return "compare " +
           small(over_defaults("--attention mha,mqa --seeds 2 --threads 2 --out c", flags));
  }
  ProgramResult compare(const std::string& flags) const { return headcount(line(flags)); }
  ProgramResult compared(const std::string& flags) const { return done(line(flags)); }
  /// Results of the comparison, whose file is read back whole and judged again.
  nlohmann::json results() const {
    const std::string text = contents("c/results.json");
    const ComparisonResult read = read_results(nlohmann::ordered_json::parse(text));
    EXPECT_EQ(results_table(read, Format::json), text);
    return nlohmann::json::parse(text);
  }
};

/// Enough training for losses half of those of character pairs, so that a verdict can be made.
inline const std::string kLearning = "--steps 400 --lr 1e-2 ";

/// Contents of results.json without times and machines.
inline nlohmann::ordered_json without_timing(const std::string& text) {
  auto results = nlohmann::ordered_json::parse(text);
  for (const char* name : {"machine", "machine_hours"}) results.erase(name);
  for (auto& variant : results["variants"]) {
    variant.erase("train_tokens_per_second");
    for (auto& run : variant["runs"])
      for (const char* name : {"train_tokens_per_second", "machine_seconds", "machine"})
        run.erase(name);
  }
  return results;
}

}  // namespace headcount
