#include <algorithm>
#include <iostream>
#include <utility>

#include "autograd/base/text.h"
#include "models/plan.h"
#include "nn/attention/costs.h"
#include "train/cli/commands.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Prints words in lines of 100 characters, all but the first indented by `indent`.
void print_words(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 100;
  std::size_t column = 0;
  bool first = true;
  for (const std::string_view word : split_text(text, ' ')) {  // empty ones between two blanks
    const std::size_t width = character_count(word);
    if (!std::exchange(first, false)) {
      const bool fits = column + 1 + width <= kWidth;
      std::cout << (fits ? " " : "\n" + std::string(indent, ' '));
      column = fits ? column + 1 : indent;
    }
    std::cout << word;
    column += width;
  }
  std::cout << '\n';
}

// What the layer keeps of a token, or of a sequence: "latent 48, rope_key 16".
std::string parts_text(const AttentionPlan& layer, bool of_sequence) {
  std::string text;
  for (const Kept& kept : cache_parts(layer)) {
    if (kept.per_sequence != of_sequence) continue;
    text += (text.empty() ? "" : ", ") + kept.name + " " + std::to_string(kept.numbers());
    if (kept.block > 0 && !of_sequence) text += " for every " + counted(kept.block, "token");
  }
  return text.empty() ? "nothing" : text;
}

// What numbers after the name stand for: "mlaN+M: --kv-rank N, --rope-dim M"; empty if there are
// none.
std::string numbers_text(const AttentionKind& kind) {
  constexpr const char* kLetters[] = {"N", "M"};
  std::string word(kind.name), meaning;
  for (std::size_t i = 0; i < kind.numbers.size() && !kind.numbers[i].empty(); ++i) {
    word += (i == 0 ? "" : "+") + std::string(kLetters[i]);
    meaning += (i == 0 ? "" : ", ") + ("--" + std::string(kind.numbers[i])) + " " + kLetters[i];
  }
  return meaning.empty() ? "" : word + ": " + meaning + "\n";
}

}  // namespace

void print_attention_help(const std::string& spec) {
  Given given(model_settings());
  given.put("attention", spec);
  const ModelPlan model = resolve_model(given);
  const AttentionPlan& layer = model->layer_attention(0);
  const AttentionKind& kind = layer.kind();
  print_words(std::string(kind.name) + ": " + as_flags(kind.summary), 2);
  if (!kind.formula.empty()) print_words("head i: " + std::string(kind.formula), 2);
  if (!kind.source.empty()) std::cout << "source: " << kind.source << '\n';
  std::cout << numbers_text(kind) << "\nsettings of its own\n";
  const SettingList own = kind.settings();
  for (const Setting& setting : own)
    print_words("  --" + setting.name + "  " + help_text(setting), 6);
  std::string others = "settings of all attentions (headcount train --help all):";
  for (const auto& [name, value] : layer.values().items()) {
    if (std::ranges::count(own, name, &Setting::name) == 0) others += " --" + name;
  }
  print_words(others, 2);
  std::cout << "\ncache of a layer of " << spec << " with " << counted(layer.heads, "head") << ' '
            << layer.head_dim << " wide, in numbers\n";
  print_words("  a token: " + parts_text(layer, false), 4);
  print_words("  a sequence: " + parts_text(layer, true), 4);
}

}  // namespace headcount
