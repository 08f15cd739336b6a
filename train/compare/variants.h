#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/attention_spec.h"
#include "train/options.h"

namespace headcount {

/// Size that all variants of a comparison are made to share.
struct Match {
  enum class Kind {
    none,
    parameters,   ///< parameters of the first attention, by the feed-forward width
    cache_bytes,  ///< KV cache bytes at the context, by the first number of the attention's word
  };
  Kind kind = Kind::none;
  Index bytes = 0;  ///< per token of the context, float32, all layers

  /// Parses "none", "params" or "kv=BYTES". Throws SettingError.
  static Match parse(std::string_view text);
  std::string text() const;
};

/// Sweep: one setting of a training run with the values to try.
struct Sweep {
  std::string setting;
  std::vector<std::string> values;

  /// Parses SETTING=VALUE,..., such as "lr=3e-4,1e-3". Throws SettingError for a setting that does
  /// not exist or belongs neither to the model nor to the optimizer, for fewer than two values, and
  /// for a repeated value.
  static Sweep parse(std::string_view text);
  std::string text() const;
};

/// One way to train a variant; in a sweep there is one for each value.
struct Candidate {
  std::string name;      ///< "gqa2", or "gqa2/lr=0.001"
  std::string folder;    ///< folder of its runs below runs/: `name` as a file name
  std::string adjusted;  ///< "ffn-dim 540, lr 0.001"; may be empty
  TrainOptions options;
};

struct PlannedVariant {
  std::string spec;
  std::vector<Candidate> candidates;  ///< one, or one per value of the sweep; all differ
};

/// Plans every variant: the settings in its name, of the sweep and of the match take precedence
/// over `common`. Throws SettingError or ShapeError for a budget that no setting meets (the message
/// has the nearest), and for a sweep that changes nothing for a variant.
std::vector<PlannedVariant> plan_comparison(const Given& common,
                                            const std::vector<AttentionSpec>& specs,
                                            const Match& match, const std::optional<Sweep>& sweep,
                                            Index vocabulary);

}  // namespace headcount
