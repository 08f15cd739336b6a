#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "train/options.h"

namespace headcount {

/// What the variants of a comparison have in common besides their settings.
struct Match {
  enum class Kind {
    none,
    parameters,   ///< as many as the first attention has: the feed-forward width is adjusted
    cache_bytes,  ///< KV heads or latent rank are chosen by what they cost at the context
  };
  Kind kind = Kind::none;
  Index bytes = 0;  ///< per token of the context, float32, all layers

  /// "none", "params" or "kv=BYTES". Throws SettingError.
  static Match parse(std::string_view text);
  std::string text() const;
};

/// One setting of a training run with the values to try.
struct Sweep {
  std::string setting;
  std::vector<std::string> values;

  /// "lr=3e-4,1e-3". Throws SettingError for a setting that training does not have, or that is not
  /// of the model or the optimiser, for fewer than two values, and for one that is there twice.
  static Sweep parse(std::string_view text);
  std::string text() const;
};

/// One way to train a variant: there are several where a setting is swept.
struct Candidate {
  std::string name;      ///< "gqa2", or "gqa2/lr=0.001"
  std::string folder;    ///< of its runs, below runs/: the name without what a file name has not
  std::string adjusted;  ///< "ffn-dim 540, lr 0.001"; may be empty
  TrainOptions options;
};

struct PlannedVariant {
  std::string spec;
  std::vector<Candidate> candidates;  ///< one, or one per value of the sweep: no two the same
  std::string attention = spec;       ///< this and the next as VariantResult has them
  std::optional<Index> trained_on = {};
};

/// Settles the sizes of every variant: what is given by its name, by the sweep and by the match,
/// over what all have in common. Throws SettingError and ShapeError: for a budget that no setting
/// meets, with the nearest one, and for a sweep that changes nothing for a variant.
std::vector<PlannedVariant> plan_comparison(const Given& common,
                                            const std::vector<AttentionSpec>& specs,
                                            const Match& match, const std::optional<Sweep>& sweep,
                                            Index vocabulary);

}  // namespace headcount
