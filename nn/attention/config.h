#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>

#include "autograd/ops.h"
#include "nn/settings.h"

namespace headcount {

/// How scores q.k are scaled before the softmax.
struct ScoreScale {
  enum class Kind {
    inverse_sqrt,  ///< 1 / sqrt(width of q and k); Vaswani et al. (2017)
    none,          ///< 1
    qk_norm,       ///< q and k are normalised to unit length; Henry et al. (2020)
    row_norm,      ///< each row of q k^T is divided by its norm
    length,        ///< 1 / (sqrt(width) sqrt(number of keys seen))
    number,        ///< `value`
  };
  Kind kind = Kind::inverse_sqrt;
  double value = 1;

  /// "inv-sqrt", "none", "qk-norm", "row-norm", "length", or a positive number.
  /// Throws ShapeError otherwise.
  static ScoreScale parse(std::string_view text);
  std::string text() const;
  bool operator==(const ScoreScale&) const = default;
};

/// One object of each type that is asked for. Objects stay where they are when others are assigned,
/// so that what is bound to them stays bound.
class OwnSettings {
 public:
  OwnSettings() = default;
  OwnSettings(const OwnSettings& other) { *this = other; }
  OwnSettings& operator=(const OwnSettings& other) {
    for (const auto& [type, value] : other.values_) {
      std::unique_ptr<Value>& here = values_[type];
      if (here) {
        here->assign(*value);
      } else {
        here = value->clone();
      }
    }
    return *this;
  }

  template <class Own>
  Own& get() {
    std::unique_ptr<Value>& value = values_[typeid(Own)];
    if (!value) value = std::make_unique<Holder<Own>>();
    return static_cast<Holder<Own>&>(*value).object;
  }
  /// Null if it was never asked for.
  template <class Own>
  const Own* find() const {
    const auto found = values_.find(typeid(Own));
    return found == values_.end() ? nullptr
                                  : &static_cast<const Holder<Own>&>(*found->second).object;
  }

 private:
  struct Value {
    virtual ~Value() = default;
    virtual std::unique_ptr<Value> clone() const = 0;
    virtual void assign(const Value& other) = 0;
  };
  template <class Own>
  struct Holder : Value {
    Own object;
    std::unique_ptr<Value> clone() const override { return std::make_unique<Holder>(*this); }
    void assign(const Value& other) override { object = static_cast<const Holder&>(other).object; }
  };
  std::map<std::type_index, std::unique_ptr<Value>> values_;
};

/// Everything that defines an attention layer: what all kinds have, and each kind's own settings.
/// Widths are per head.
struct AttentionConfig {
  std::string kind = "mha";  ///< a name of `attention_kinds()`
  Index dim = 128;           ///< width of the model
  Index heads = 4;           ///< query heads
  Index head_dim = kUnset;   ///< default dim / heads

  bool rotary = true;  ///< rotary positions; otherwise none in attention
  /// Default: the kind's, as its models have it.
  std::optional<RotaryLayout> rotary_layout;
  double rope_theta = 10000;
  Index max_positions = 0;  ///< longest sequence, for the rotary table

  bool bias = false;
  bool gate = false;  ///< heads' outputs times sigmoid(gate_proj(x)), elementwise
  bool output_projection = true;
  bool causal = true;
  Index window = 0;    ///< a token sees only the last `window`, itself included; 0: all
  double dropout = 0;  ///< of the attention weights
  ScoreScale score_scale;
  double norm_epsilon = 1e-6;  ///< of the RMSNorm of latents, and of heads in delta
  /// The layer keeps nothing: it reads what an earlier one of the same settings kept. Brandon et
  /// al., "Reducing Transformer Key-Value Cache Size with Cross-Layer Attention" (2024).
  bool shares = false;

  AttentionConfig();

  /// The settings that a kind declares for itself: an object of its own type.
  template <class Own>
  Own& own() {
    return own_.get<Own>();
  }
  template <class Own>
  const Own& own() const {
    static const Own kDefaults{};
    const Own* const found = own_.find<Own>();
    return found == nullptr ? kDefaults : *found;
  }

  /// The settings that a user may give besides the kind, bound to this object: those of all kinds
  /// too, each marked with the kinds that it is for.
  Settings settings();
  Settings settings() const;  ///< for reading

  /// Tokens that a cache holds for a context of so many.
  Index cached_tokens(Index context) const {
    return window > 0 ? std::min(window, context) : context;
  }

 private:
  OwnSettings own_;
};

/// Throws ShapeError with `message` unless `condition`.
void require_setting(bool condition, const std::string& message);

}  // namespace headcount
