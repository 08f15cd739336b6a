#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/tools/attention_map.h"
#include "train/cli/commands.h"
#include "train/cli/from_run.h"
#include "train/show/units.h"

namespace headcount {

namespace {

constexpr std::array<const char*, 5> kShades = {"·", "░", "▒", "▓", "█"};
constexpr std::array<double, 5> kLeast = {0, 0.03, 0.1, 0.3, 0.6};  // weight of each shade

SettingList attend_settings() {
  return settings_in(
      Scope::maps,
      together(
          {{{"layer", "number of the layer to show, from 1; 0: all", WholeRange{0}, 0},
            {"head", "number of the head to show in each layer, from 1; 0: all", WholeRange{0}, 0}},
           cache_settings(),
           {threads_setting()}}));
}

// Tokens of --text or, without it, of the beginning of the run's own text, which a note names.
std::vector<std::int32_t> prompt_of(const CommandLine& line, const LoadedRun& run) {
  const Index context = run.model->plan()->context;
  if (!line.has("text") && run.options) {
    constexpr Index kShown = 64;
    Corpus corpus = load_eval_text(line, run, std::clamp<Index>(context, 2, kShown), "text");
    const bool divided = corpus.documents != Documents::one;
    // An evaluation takes two characters or more.
    std::vector<std::int32_t> tokens = divided
                                           ? passage(corpus, 1, std::min(context, kShown)).tokens
                                           : corpus.validation.first(context).tokens;
    tell("over " +
         (divided ? counted(std::ssize(tokens), "character") + " of the first document of " +
                        line.get("from") + "'s text"
                  : corpus.name) +
         "; --text names another text");
    return tokens;
  }
  const std::string text = line.required("text", "give at least one character");
  std::vector<std::int32_t> tokens = encode_flag("text", text, run);
  require_room("text", tokens, run, "");
  return tokens;
}

// A layer to show, with the heads to show.
struct ShownLayer {
  Index number;  // from 1
  std::string attention;
  std::vector<std::pair<Index, HeadMap>> heads;  // by number; none if the layer has no scores
};

std::vector<ShownLayer> shown_layers(std::vector<std::vector<HeadMap>> maps, const ModelPlan& plan,
                                     Index only_layer, Index only_head) {
  if (only_layer > plan->layers) {
    throw UsageError("--layer {}: the model has {} layers; name one of them", only_layer,
                     plan->layers);
  }
  std::vector<ShownLayer> layers;
  bool any = false;
  for (Index layer = 0; layer < plan->layers; ++layer) {
    if (only_layer > 0 && layer + 1 != only_layer) continue;
    ShownLayer& shown = layers.emplace_back(
        ShownLayer{layer + 1, attention_word(plan->layer_attention(layer)), {}});
    std::vector<HeadMap>& heads = maps[static_cast<std::size_t>(layer)];
    any = any || !heads.empty();
    if (!heads.empty() && only_head > std::ssize(heads)) {
      throw UsageError("--head {}: layer {} has {} heads; name one of them", only_head, layer + 1,
                       heads.size());
    }
    for (Index head = 0; head < std::ssize(heads); ++head) {
      if (only_head == 0 || head + 1 == only_head)
        shown.heads.emplace_back(head + 1, std::move(heads[static_cast<std::size_t>(head)]));
    }
  }
  if (!any) {
    throw UsageError(
        "there is no map: {} has no scores, it keeps a state; name a run or a layer whose "
        "attention has scores",
        layers.front().attention);
  }
  return layers;
}

constexpr const char* kStandIn = "�";

// The characters of the text, each as one visible column.
std::vector<std::string> labels(std::span<const std::int32_t> tokens,
                                const Vocabulary& vocabulary) {
  std::vector<std::string> all;
  for (const std::int32_t token : tokens) {
    const std::string shown = in_one_column(vocabulary.symbols()[static_cast<std::size_t>(token)]);
    all.push_back(shown.empty() ? kStandIn : shown);
  }
  return all;
}

// Line that names the characters of the text for which the stand-in is shown; empty if none is.
std::string stand_ins(std::span<const std::int32_t> tokens, const Vocabulary& vocabulary) {
  std::set<char32_t> hidden;
  for (const std::int32_t token : tokens) {
    const char32_t character = vocabulary.symbols()[static_cast<std::size_t>(token)];
    if (in_one_column(character).empty()) hidden.insert(character);
  }
  const auto name = [](char32_t character) {
    return formatted("U+%04X", static_cast<unsigned>(character));
  };
  if (hidden.empty()) return "";
  return std::string(kStandIn) +
         " is a character that may not take one column: " + joined(hidden, name) + "\n";
}

std::string legend() {
  std::string text;
  for (std::size_t i = 0; i < kShades.size(); ++i)
    text += (i == 0 ? "" : ", ") + shortest_text(kLeast[i]) + " " + kShades[i];
  return text;
}

// The map of a head, its last `most` rows.
std::string map_text(const HeadMap& map, const std::vector<std::string>& labels, Index most) {
  std::string out = "  ", tens = "  ";
  for (std::size_t i = 0; i < labels.size(); ++i) out += labels[i];
  for (std::size_t i = 0; i < labels.size(); i += 10)
    tens += formatted("%-10zu", i + 1).substr(0, labels.size() - i + 9);
  out = tens.substr(0, tens.find_last_not_of(' ') + 1) + "\n" + out + "  entropy, nats\n";
  for (Index query = std::max<Index>(0, map.length - most); query < map.length; ++query) {
    out += labels[static_cast<std::size_t>(query)] + " ";
    const std::span<const Real> row = map.row(query);
    for (Index key = 0; key < map.length; ++key) {
      const auto weight = static_cast<double>(row[static_cast<std::size_t>(key)]);
      const auto shade =
          weight >= 0 ? std::ranges::upper_bound(kLeast, weight) - kLeast.begin() - 1 : 0;  // NaN
      out += key > query ? " " : kShades[static_cast<std::size_t>(shade)];
    }
    out += formatted("  %.2f\n", map.entropy(query));
  }
  return out;
}

// The maps as SVG: a row of them for each layer, darker squares for greater weights.
std::string svg_of(const std::vector<ShownLayer>& layers, const std::vector<std::string>& labels) {
  constexpr std::size_t kCell = 12;
  const std::size_t side = kCell * (labels.size() + 3);
  std::size_t across = 1, down = 0;
  std::string body;
  const auto write = [&](std::size_t x, std::size_t y, const std::string& text) {
    body += formatted("<text x=\"%zu\" y=\"%zu\">", x, y);
    for (const char c : text) body += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    body += "</text>\n";
  };
  for (const ShownLayer& layer : layers) {
    across = std::max(across, layer.heads.size());
    for (std::size_t i = 0; i < layer.heads.size(); ++i) {
      const auto& [number, map] = layer.heads[i];
      const std::size_t left = i * side + 2 * kCell, top = down + 3 * kCell;
      write(left, down + kCell, formatted("layer %td, head %td", layer.number, number));
      for (std::size_t at = 0; at < labels.size(); ++at) {
        write(left + at * kCell, top - 2, labels[at]);
        write(left - kCell, top + (at + 1) * kCell - 2, labels[at]);
        const std::span<const Real> row = map.row(static_cast<Index>(at)).first(at + 1);
        for (std::size_t key = 0; key <= at; ++key) {
          body += formatted("<rect x=\"%zu\" y=\"%zu\" fill-opacity=\"%.3f\"/>\n",
                            left + key * kCell, top + at * kCell, static_cast<double>(row[key]));
        }
      }
    }
    down += layer.heads.empty() ? 0 : side + kCell;
  }
  return formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
             "font-family=\"monospace\" font-size=\"10\">\n"
             "<style>svg { background: white } rect { width: %zupx; height: %zupx }</style>\n",
             across * side, down, kCell, kCell) +
         body + "</svg>\n";
}

// The maps as text: those that fit on a screen, unless a layer and a head are named.
std::string maps_text(const std::vector<ShownLayer>& layers, const std::vector<std::string>& labels,
                      bool whole) {
  constexpr Index kScreen = 18;  // rows
  const Index length = std::ssize(labels), most = whole ? length : std::min(length, kScreen - 2);
  Index room = whole ? 1 : std::max<Index>(1, kScreen / (most + 2)), left = 0;
  std::string text;
  for (const ShownLayer& layer : layers) {
    const std::string name = "layer " + std::to_string(layer.number);
    if (layer.heads.empty())
      text += name + ": " + layer.attention + " has no scores, it keeps a state\n";
    for (const auto& [head, map] : layer.heads) {
      if (room-- > 0) {
        text += name + " (" + layer.attention + "), head " + std::to_string(head) + "\n" +
                map_text(map, labels, most);
      } else {
        ++left;
      }
    }
  }
  if (left > 0 || most < length) {
    if (left > 0) text += counted(left, "more head") + (most < length ? " and " : "");
    if (most < length) text += counted(length - most, "earlier row");
    text += " not shown: --layer and --head name one, --out FILE.svg draws all\n";
  }
  return text;
}

Json layer_json(const ShownLayer& layer) {
  Json heads = Json::array();
  for (const auto& [number, map] : layer.heads) {
    Json weights = Json::array(), entropies = Json::array();
    for (Index query = 0; query < map.length; ++query) {
      const std::span<const Real> row = map.row(query).first(static_cast<std::size_t>(query) + 1);
      weights.push_back(std::vector<Real>(row.begin(), row.end()));
      entropies.push_back(map.entropy(query));
    }
    heads.push_back({{"head", number}, {"entropy", entropies}, {"weights", weights}});
  }
  return {{"layer", layer.number}, {"attention", layer.attention}, {"heads", heads}};
}

int attend_command(const Call& call) {
  const CommandLine& line = call.line;
  const Given given = flags_given(call);
  const CacheRounding rounding = read_rounding(given);
  if (rounding.all.recent > 0)
    throw UsageError(
        "--cache-recent does not apply to maps, whose rows are rounded at once; leave it out");
  const LoadedRun run = load_named_run(call);
  const std::vector<std::int32_t> tokens = prompt_of(line, run);
  const std::vector<ShownLayer> layers =
      shown_layers(attention_maps(*run.model, tokens,
                                  rounding.rounds() ? std::optional(rounding) : std::nullopt),
                   run.model->plan(), given.whole("layer"), given.whole("head"));
  const std::vector<std::string> characters = labels(tokens, run.vocabulary);
  if (line.has("out")) write_file_durably(line.get("out"), svg_of(layers, characters));
  Json all = Json::array();
  for (const ShownLayer& layer : layers) all.push_back(layer_json(layer));
  std::string text =
      "a row for each query, a column for each key it reads; weights from " + legend() +
      "\nentropy: 0 if a query reads one key alone, ln n if it reads n keys alike\n" +
      stand_ins(tokens, run.vocabulary);
  text += maps_text(layers, characters, given.whole("layer") > 0 && given.whole("head") > 0);
  return print_result(call.format, {{"text", run.vocabulary.decode(tokens)}, {"layers", all}}, all,
                      text);
}

}  // namespace

const Command kAttendCommand = {
    {"attend",
     "Draw the attention weights of each head over a text, darker where they are greater.",
     "  headcount attend --from runs/mha\n"
     "  headcount attend --from runs/tales-mla --text \"Tom is in the mill.\" --layer 2 --head 1 "
     "--format json\n"
     "  headcount attend --from runs/tales-mla --text \"Tom is in the mill.\" --cache-dtype "
     "int2\n"},
    attend_settings,
    {kFromFlag,
     {"text", "text to attend over, no longer than the model's context; else the run's own", true},
     {"out", "also draw the maps to this SVG file", true},
     kAllowNonFinite,
     kFormatFlag},
    attend_command};

}  // namespace headcount
