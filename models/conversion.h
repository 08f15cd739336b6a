#pragma once

#include <memory>
#include <vector>

#include "models/language_model.h"
#include "nn/attention/heads.h"

/// A trained model with another attention: layer by layer its heads are written out, and layers of
/// the other attention are made of them. Everything else stays as it is.

namespace headcount {

/// What a model gives the one that it is converted to: all settings but those that a conversion
/// chooses anew.
Given without_attention(const ModelPlan& model);

/// The model of `to`: what it leaves open suits the heads of `from`. Throws ShapeError, also for
/// an `energy` where `to` has no latents.
ModelPlan fitted(const LanguageModel& from, Given to, const ConversionOptions& options);

struct Conversion {
  std::unique_ptr<LanguageModel> model;
  std::vector<HeadErrors> errors;  ///< by layer; of one that shares, against what it has to read
};

/// The model `from` with the attention of `to`. What layers share is the mean of
/// their keys and values. Throws ShapeError that says why it cannot be, for models that differ in
/// more than their attention, and for a setting (not at its default) or a weight that the
/// conversion does not know.
Conversion convert(const LanguageModel& from, const ModelPlan& to,
                   const ConversionOptions& options);

}  // namespace headcount
