#include <algorithm>
#include <iostream>
#include <optional>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/plan.h"
#include "nn/attention/costs.h"
#include "train/cli/commands.h"
#include "train/compare/verdict.h"
#include "train/optimizer.h"
#include "train/options.h"
#include "train/show/table.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Prints words in lines of 100 characters, all but the first indented by `indent`, without the
// marks of code that Markdown has.
void print_words(std::string text, std::size_t indent, std::ostream& out = std::cout) {
  std::erase(text, '`');
  out << wrapped(text, 100, indent) << '\n';
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
  return meaning.empty() ? "" : word + ": " + meaning + "; " + word + "xD: --head-dim D, too\n";
}

// What `help` explains beside commands and attentions, and a command to try.
struct Topic {
  std::string_view name;
  std::string text, command;
};

const Topic kTopics[] = {
    {"share",
     "as a part of a pattern, reads the KV cache of the nearest earlier layer that has one "
     "(cross-layer attention, arXiv 2405.12981), so that mqa/share keeps half of what mqa does. "
     "share@64 reads that of the nearest layer with a window of 64 tokens, share@0 of the nearest "
     "without a window: sharing by type, as in Gemma 3n. share-index has a cache of its own and "
     "reads what the nearest earlier indexer picked, as in GLM-5.2; share-pooled reads the nearest "
     "earlier pooled rows, share-pooled-index both, as in DeepSeek-V4.1.",
     "headcount train --attention mqa/share"},
    {"window",
     "with a window of N tokens, mqa@16 or --window 16, a token reads the last N, itself included, "
     "and the cache keeps rows of no more: from there on it does not grow. Models let such layers "
     "take turns with layers that read all, as in 5*gqa2@64/gqa2 (Gemma 3).",
     "headcount train --attention mqa@16"},
    {"canon",
     "Canon layers (PhysicsLM4, part 4.1, 2025) add to x a causal convolution of each of its "
     "channels over --canon-taps tokens, at any of four places: --canon A is the normed input of "
     "attention, B its queries, keys and values, C the normed input of the feed-forward layer, D "
     "its gate and up. The cache keeps the last taps - 1 inputs of each, as canonA: numbers of a "
     "sequence, not of a token. The built-in recall has A, which lets a head see the token before.",
     "headcount train --attention mqa --canon off"},
    {"bits",
     "--cache-dtype says in how many bits a cache stores numbers: f32, f16, bf16, fp8 (e4m3), "
     "int8, int4, int3, int2, int1; of its parts, k=int4+v=int2; of layers, int4+layer1=bf16; or "
     "each:int4, in eval and compare, with one layer at a time as computed. int8 and less are "
     "symmetric around 0, with an f16 scale for each row of a head, which bytes include. GGUF's "
     "q8_0 has a scale for each 32 numbers: --cache-dtype int8 --cache-group 32. int4 with such "
     "groups has the bytes of q4_0, but other levels: q4_0 has a 0, int4 is symmetric around it. "
     "States, inputs of convolutions and the gates of fox are never rounded. --cache-rotate, "
     "--cache-levels and --cache-recent change how the rest is.",
     "headcount eval --from runs/gqa2 --cache-dtype int4"},
    {"verdict",
     std::string(kVerdictMeaning) +
         " The reference is mha or, without it, the attention with the largest cache; --reference "
         "names another one, --tolerance other limits.",
     "headcount compare"},
    {"pattern", std::string(kSpecGrammar), "headcount train --attention 3*mqa@16/mqa"},
};

// What help says of a word that is no attention: a topic, a built-in text, an optimizer or a flag.
struct Explained {
  std::string text, command;
  SettingList settings = {};
};

std::optional<Explained> explained(std::string_view name) {
  const std::string word(name);
  // share@64, share-index and others are ways to share, int8 and others are bits.
  const bool is_type =
      std::ranges::find(cache_types(), name, &CacheTypeRow::name) != cache_types().end();
  const auto topic = std::ranges::find(kTopics,
                                       name.starts_with("share") ? "share"
                                       : is_type                 ? "bits"
                                                                 : name,
                                       &Topic::name);
  if (topic != std::end(kTopics)) return Explained{as_flags(topic->text), topic->command};
  if (const BuiltInCorpus* const corpus = find_built_in(name))
    return Explained{"built-in text: " + std::string(corpus->about), "headcount data " + word,
                     corpus->settings()};
  for (const OptimizerKind* const kind : optimizer_kinds())
    if (kind->name == name)
      return Explained{"optimizer: " + std::string(kind->summary),
                       "headcount train --optimizer " + word, kind->settings()};
  for (const auto& [list, command] :
       {std::pair{training_settings(), "train"}, {cache_settings(), "eval"}})
    if (const Setting* const flag = find_setting(list, name))
      return Explained{"flag: " + help_text(*flag),
                       "headcount " + std::string(command) + " --help all"};
  return std::nullopt;
}

// Prints what a setting of a word is: "  x4  --head-dim 4: dimensions per head".
void print_part(const std::string& written, const std::string& name, const std::string& value) {
  const Setting& setting = *find_setting(attention_settings(), name);
  print_words("  " + written + "  --" + name + " " + value + ": " + as_flags(setting.help), 6);
}

// Prints what stands in each part of a word, once.
void print_word(const std::vector<LayerSpec>& cycle) {
  const bool pattern = cycle.size() > 1;
  if (pattern) std::cout << "layers take these parts in turn\n";
  std::vector<std::string> printed;
  for (const LayerSpec& part : cycle) {
    if (std::ranges::count(printed, part.text) > 0) continue;
    printed.push_back(part.text);
    if (part.shares()) {
      print_words(part.text + ": " + topic_text("share"), 2);
    } else if (part.settings.empty()) {
      if (pattern) std::cout << part.text << ": see below\n";
    } else {
      std::cout << part.text << " is " << part.kind->name << " with\n";
    }
    if (part.shares()) continue;
    for (const auto& [name, json] : part.settings.items()) {
      const std::string value = setting_text(json);
      const auto number = std::ranges::find(part.kind->numbers, name);
      print_part(number != part.kind->numbers.end()
                     ? (number == part.kind->numbers.begin() ? "" : "+") + value
                 : name == "head-dim" ? "x" + value
                 : name == "window"   ? "@" + value
                                      : ":" + name + "=" + value,
                 name, value);
    }
  }
  if (!printed.empty() && (pattern || !cycle.front().settings.empty())) std::cout << '\n';
}

// Prints sentences, formula and source of a kind, and what its numbers are.
void print_kind(const AttentionKind& kind) {
  print_words(std::string(kind.name) + ": " + std::string(kind.summary), 2);
  if (!kind.formula.empty()) print_words("head i: " + std::string(kind.formula), 2);
  if (!kind.source.empty()) std::cout << "source: " << kind.source << '\n';
}

// Query heads of an example of these layers: two for each KV head of a word that names at least as
// many KV heads as a model has query heads by default; else 0, for the default.
Index heads_to_share(const std::vector<LayerSpec>& cycle) {
  const auto by_default = find_setting(attention_settings(), "heads")->standard.value.get<Index>();
  Index most = 0;
  for (const LayerSpec& part : cycle) {
    if (part.settings.contains("heads")) return 0;
    most = std::max(most, part.settings.value("kv-heads", Index{0}));
  }
  return most < by_default ? 0 : 2 * most;
}

}  // namespace

void print_attention_help(const std::string& spec) {
  Given given(model_settings());
  given.put("attention", spec);
  const std::vector<LayerSpec> cycle = parse_attention_spec(spec).cycle;
  const Index heads = heads_to_share(cycle);
  if (heads > 0) given.put("heads", heads);
  const ModelPlan model = resolve_model(given);
  const AttentionPlan& layer = model->layer_attention(0);
  const AttentionKind& kind = layer.kind();
  print_word(cycle);
  std::vector<const AttentionKind*> kinds;
  for (const LayerSpec& part : cycle) {
    if (part.shares() || std::ranges::count(kinds, part.kind) > 0) continue;
    kinds.push_back(part.kind);
    print_kind(*part.kind);
  }
  std::cout << "letters: H query heads, G KV heads, d the width of a head\n"
            << numbers_text(kind) << "try: headcount train --attention " << spec
            << (heads > 0 ? " --heads " + std::to_string(heads) : "") << "\n\ncache of a layer of "
            << attention_word(layer) << " with " << counted(layer.heads, "head") << ' '
            << layer.head_dim << " wide, in numbers\n";
  print_words("  a token: " + parts_text(layer, false), 4);
  print_words("  a sequence: " + parts_text(layer, true), 4);
  std::cout << "\nsettings of its own\n";
  const SettingList own = kind.settings();
  for (const Setting& setting : own)
    print_words("  --" + setting.name + "  " + help_text(setting), 6);
  std::string others = "settings of all attentions (headcount train --help all):";
  for (const auto& [name, value] : layer.values().items()) {
    if (std::ranges::count(own, name, &Setting::name) == 0) others += " --" + name;
  }
  print_words(others, 2);
}

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  for (const BuiltInCorpus* corpus : built_in_corpora()) names.emplace_back(corpus->name);
  for (const OptimizerKind* kind : optimizer_kinds()) names.emplace_back(kind->name);
  return names;
}

std::string topic_text(std::string_view name) {
  const std::optional<Explained> topic = explained(name);
  return topic ? topic->text : "";
}

void print_words_of_help(bool sentences, std::ostream& out) {
  const auto print = [&](const std::string& name, std::string text) {
    text = text.substr(0, text.find(". "));
    print_words("  " + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + text, 14,
                out);
  };
  if (!sentences) {
    print_words("  attentions: " + joined(attention_kinds(), &AttentionKind::name), 4, out);
    print_words("  topics: " + joined(topic_names()), 4, out);
    return;
  }
  out << "\nAttentions, of H query heads of width d and G KV heads\n";
  for (const AttentionKind* kind : attention_kinds())
    print(std::string(kind->name), std::string(kind->summary));
  out << "\nTopics\n";
  for (const std::string& name : topic_names()) print(name, topic_text(name));
}

void print_topic_help(const std::string& name) {
  const Explained topic = explained(name).value();
  print_words(name + ": " + topic.text, 2);
  for (const Setting& setting : topic.settings)
    print_words("  --" + setting.name + "  " + help_text(setting), 6);
  std::cout << "try: " << topic.command << '\n';
}

}  // namespace headcount
