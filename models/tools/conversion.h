#pragma once

#include <memory>
#include <string_view>

#include "models/language_model.h"

/// Conversion of a trained model to another attention: fewer KV heads by the mean of each group
/// (Ainslie et al., 2023, arXiv 2305.13245), more by repetition, or the latent of MLA by singular
/// values (Ji et al., arXiv 2502.14837; Li et al., arXiv 2503.11132). All other weights stay.
namespace headcount {

/// Settings that a converted model may have other values of than the model it is made from.
inline constexpr std::string_view kConvertedSettings[] = {
    "attention", "window",   "kv-heads", "kv-rank",     "key-dim",
    "rope-dim",  "nope-dim", "v-dim",    "latent-norm", "rope-layout"};

/// Converts `from` to the model with the settings `to`. Sizes that `to` does not set, and that an
/// attention would derive from others, are chosen to fit the heads of `from`. Throws ShapeError
/// with the reason if that is impossible: an attention other than mha, gqa and mqa, or mla as a
/// target; layers that differ; settings that differ outside of kConvertedSettings; weights that
/// have no counterpart.
std::unique_ptr<LanguageModel> convert(const LanguageModel& from, const Given& to);

}  // namespace headcount
