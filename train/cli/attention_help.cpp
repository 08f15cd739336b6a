#include <algorithm>
#include <iostream>
#include <utility>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/plan.h"
#include "nn/attention/costs.h"
#include "train/cli/commands.h"
#include "train/optimizer.h"
#include "train/options.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// Prints words in lines of 100 characters, all but the first indented by `indent`, without the
// marks of code that Markdown has.
void print_words(std::string text, std::size_t indent, std::ostream& out = std::cout) {
  constexpr std::size_t kWidth = 100;
  std::erase(text, '`');
  std::size_t column = 0;
  bool first = true;
  for (const std::string_view word : split_text(text, ' ')) {  // empty ones between two blanks
    const std::size_t width = character_count(word);
    if (!std::exchange(first, false)) {
      const bool fits = column + 1 + width <= kWidth;
      out << (fits ? " " : "\n" + std::string(indent, ' '));
      column = fits ? column + 1 : indent;
    }
    out << word;
    column += width;
  }
  out << '\n';
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

// What `help` explains beside commands and attentions, and a command to try.
struct Topic {
  std::string_view name, text, command;
};

constexpr Topic kTopics[] = {
    {"share",
     "as a part of a pattern, reads the KV cache of the nearest earlier layer that has one "
     "(cross-layer attention, arXiv 2405.12981), so that mqa/share keeps half of what mqa does. "
     "share@64 reads that of the nearest layer with a window of 64 tokens, share@0 of the nearest "
     "without a window: sharing by type, as in Gemma 3n. share-index has a cache of its own and "
     "reads "
     "what the nearest earlier indexer picked, as in GLM-5.2; share-pooled reads the nearest "
     "earlier "
     "pooled rows, share-pooled-index both, as in DeepSeek-V4.1.",
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
     "symmetric around 0, with an f16 scale for each row of a head, which bytes include; with "
     "--cache-group 32 they have the bytes of llama.cpp's q8_0 and q4_0. States, inputs of "
     "convolutions and the gates of fox are never rounded. --cache-rotate, --cache-levels and "
     "--cache-recent change how the rest is.",
     "headcount eval --from runs/gqa2 --cache-dtype int4"},
    {"verdict",
     "of compare. Enough: an attention is shown to cost less than the tolerance, a quarter more "
     "steps, 5 points of answers or 1 % of the loss than the reference with the same seed. Not "
     "enough, of steps later: it is shown to cost more. Undecided: neither is shown.",
     "headcount compare"},
    {"pattern", kSpecGrammar, "headcount train --attention 3*mqa@16/mqa"},
};

const Topic* find_topic(std::string_view name) {
  const auto found = std::ranges::find(kTopics, name, &Topic::name);
  return found == std::end(kTopics) ? nullptr : found;
}

const OptimizerKind* find_optimizer(std::string_view name) {
  const auto all = optimizer_kinds();
  const auto found = std::ranges::find(all, name, [](const OptimizerKind* k) { return k->name; });
  return found == all.end() ? nullptr : *found;
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

}  // namespace

void print_attention_help(const std::string& spec) {
  Given given(model_settings());
  given.put("attention", spec);
  const ModelPlan model = resolve_model(given);
  const std::vector<LayerSpec> cycle = parse_attention_spec(spec).cycle;
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
            << "\n\ncache of a layer of " << attention_word(layer) << " with "
            << counted(layer.heads, "head") << ' ' << layer.head_dim << " wide, in numbers\n";
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
  if (const Topic* const topic = find_topic(name)) return as_flags(topic->text);
  if (const BuiltInCorpus* const corpus = find_built_in(name))
    return "built-in text: " + std::string(corpus->about);
  if (const OptimizerKind* const kind = find_optimizer(name))
    return "optimizer: " + std::string(kind->summary);
  for (const SettingList& list : {training_settings(), cache_settings()})
    if (const Setting* const flag = find_setting(list, name)) return "flag: " + help_text(*flag);
  return "";
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
  const Topic* const topic = find_topic(name);
  const BuiltInCorpus* const corpus = find_built_in(name);
  print_words(name + ": " + topic_text(name), 2);
  const OptimizerKind* const optimizer = find_optimizer(name);
  const SettingList settings = topic       ? SettingList()
                               : corpus    ? corpus->settings()
                               : optimizer ? optimizer->settings()
                                           : SettingList();
  for (const Setting& setting : settings)
    print_words("  --" + setting.name + "  " + help_text(setting), 6);
  std::cout << "try: "
            << (topic       ? std::string(topic->command)
                : corpus    ? "headcount data " + name
                : optimizer ? "headcount train --optimizer " + name
                            : "headcount train --help all")
            << '\n';
}

}  // namespace headcount
