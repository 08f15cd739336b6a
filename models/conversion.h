#pragma once

#include <memory>
#include <vector>

#include "models/language_model.h"
#include "nn/attention/heads.h"

/// Conversion of a trained model to another attention: each layer is written out as heads (see
/// heads.h), and a layer of the other attention is made of them. All other weights stay.
namespace headcount {

/// Settings that a converted model takes over: all except those that a conversion chooses anew, and
/// the window.
Given without_attention(const ModelPlan& model);

/// Plan of the converted model: settings missing in `to` are chosen to suit the heads of `from`.
/// Layers keep their windows unless `to` has windows of its own. Throws ShapeError, also for an
/// `energy` if `to` has no latents.
ModelPlan fitted(const LanguageModel& from, Given to, const ConversionOptions& options);

struct Conversion {
  std::unique_ptr<LanguageModel> model;
  std::vector<HeadErrors> errors;  ///< by layer; for one that shares, of the rows that it reads
};

/// The model `from` with the attention of `to`. A cache that several layers share gets the mean of
/// their keys and values. Throws ShapeError with the reason if that is impossible: models that
/// differ in more than their attention; a weight, or a setting that is not at its default, that the
/// conversion does not know.
Conversion convert(const LanguageModel& from, const ModelPlan& to,
                   const ConversionOptions& options);

}  // namespace headcount
