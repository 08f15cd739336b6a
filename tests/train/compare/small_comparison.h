// What tests of headcount compare share: comparisons of models that train in milliseconds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/run_program.h"

namespace headcount {

inline const std::string kSmallComparison =
    "--data text.txt --layers 1 --dim 16 --heads 2 --context 16 --batch 2 --steps 3 --threads 2";

/// Enough training for losses half of those of character pairs, so that a verdict can be made.
inline const std::string kLearning = "--steps 400 --lr 1e-2 ";

inline ProgramResult compare(const TrainFolder& folder, const std::string& flags) {
  return folder.headcount("compare " + over_defaults(kSmallComparison, flags));
}

inline nlohmann::json results(const TrainFolder& folder, const std::string& out) {
  return nlohmann::json::parse(folder.contents(out + "/results.json"));
}

}  // namespace headcount
