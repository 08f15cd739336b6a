#include "train/report/reading_figures.h"

#include <algorithm>

#include "train/compare/number_text.h"
#include "train/shades.h"

namespace headcount {

namespace {

constexpr std::size_t kOpenLooks = 48;      // most heads that are not folded up
constexpr std::size_t kMostLooks = 360;     // of all attentions: the page stays small
constexpr double kLeastShownWeight = 0.01;  // least weight whose number shows on pointing

std::vector<const VariantResult*> readers(const ComparisonResult& result) {
  std::vector<const VariantResult*> all;
  for (const VariantResult& variant : result.variants) {
    if (variant.reading) all.push_back(&variant);
  }
  return all;
}

std::string attribute(const char* name, const std::string& value) {
  return value.empty() ? "" : " " + std::string(name) + "=\"" + xml_escaped(value) + "\"";
}

// A character of a passage; `classes` and `hover` may be empty.
std::string cell(const std::string& character, const std::string& classes,
                 const std::string& hover) {
  const std::string shown = character == "\n" ? "↵\n" : xml_escaped(character);
  const std::string attributes = attribute("class", classes) + attribute("title", hover);
  return attributes.empty() ? shown : "<i" + attributes + ">" + shown + "</i>";
}

std::string shade_class(double value, const Shades& shades) {
  const std::size_t level = shade(value, shades);
  return level == 0 ? "" : "l" + std::to_string(level);
}

// Legend of the shades.
std::string key(const Shades& shades, const std::string& unit, int decimals,
                const std::string& classes) {
  std::string out = "<p class=\"" + classes + "\">";
  for (std::size_t level = 1; level <= shades.size(); ++level) {
    out += "<i class=\"l" + std::to_string(level) + "\">" +
           number_text(shades[level - 1], decimals) + "</i> ";
  }
  return out + unit + " or more</p>\n";
}

// Returns true if the character that the passage asks for is an answer.
bool has_answers(const ReadPassage& passage) {
  return passage.question < passage.answers.size() && passage.answers[passage.question];
}

// Excess loss on a character: loss minus the entropy that no model can avoid.
double excess(const ReadPassage& passage, const Reading& reading, std::size_t at) {
  return *reading.losses[at] - (passage.entropy.empty() ? 0 : passage.entropy[at]);
}

enum class Over { characters, answers };

// Mean excess loss over the characters that count, or over the answers among them.
std::string mean_excess(const ReadPassage& passage, const Reading& reading, Over over) {
  double sum = 0;
  Index count = 0;
  for (std::size_t at = 0; at < reading.losses.size(); ++at) {
    if (!reading.losses[at] || (over == Over::answers && !passage.answers[at])) continue;
    sum += excess(passage, reading, at);
    ++count;
  }
  return count == 0 ? "–" : signed_text(sum / static_cast<double>(count), 3);
}

std::string passage_text(const ReadPassage& passage, const Reading& reading) {
  std::string out = "<pre class=\"text\">";
  for (std::size_t at = 0; at < passage.characters.size(); ++at) {
    std::string classes, hover;
    if (reading.losses[at]) {
      classes = shade_class(excess(passage, reading, at), kLossShades);
      hover = number_text(*reading.losses[at], 3) + " nats";
      if (!passage.entropy.empty())
        hover += ", " + number_text(passage.entropy[at], 3) + " of them the grammar's";
    }
    if (!passage.answers.empty() && passage.answers[at]) classes += classes.empty() ? "d" : " d";
    out += cell(passage.characters[at], classes, hover);
  }
  return out + "</pre>";
}

std::string loss_section(const ComparisonResult& result) {
  const ReadPassage& passage = result.passage;
  std::string text = "Passage " + std::to_string(passage.number) +
                     " of the validation part, as the first seed of each attention reads it. The "
                     "darker a character, the more nats the model loses on it";
  if (!passage.entropy.empty())
    text += " beyond the entropy of the grammar, which no model can avoid";
  text += ".";
  if (has_answers(passage))
    text += " Underlined characters are answers: only earlier text determines them.";
  if (result.only_answers) text += " The loss counts answers only.";
  std::string out = "<h2>Where the loss arises</h2>\n<p>" + xml_escaped(text) + "</p>\n";
  out += key(kLossShades, "nats", 1, "key") + "<div class=\"readings\">\n";
  for (const VariantResult* variant : readers(result)) {
    const Reading& reading = *variant->reading;
    std::string caption = mean_excess(passage, reading, Over::characters) +
                          (result.only_answers ? " nats an answer" : " nats a character");
    if (has_answers(passage) && !result.only_answers)
      caption += ", " + mean_excess(passage, reading, Over::answers) + " an answer";
    out += "<figure><figcaption><strong>" + xml_escaped(variant->spec) + "</strong> " + caption +
           "</figcaption>" + passage_text(passage, reading) + "</figure>\n";
  }
  return out + "</div>\n";
}

std::string look_text(const ReadPassage& passage, const HeadLook& look) {
  std::string out = "<pre class=\"text w\">";
  for (std::size_t at = 0; at < look.weights.size(); ++at) {
    const double weight = look.weights[at];
    const std::string hover =
        weight >= kLeastShownWeight ? number_text(100 * weight, 1) + " %" : "";
    out += cell(passage.characters[at], shade_class(weight, kWeightShades), hover);
  }
  return out + cell(passage.characters[passage.question], "d q", "asked for") + "</pre>";
}

// Figure of the heads of one attention, at most `most` of them.
std::string looks(const ReadPassage& passage, const Reading& reading, std::size_t most) {
  std::string out = "<div class=\"looks\">\n";
  std::size_t shown = 0, left_out = 0;
  for (std::size_t layer = 0; layer < reading.looks.size(); ++layer) {
    const std::string name = "layer " + std::to_string(layer + 1);
    if (reading.looks[layer].empty())
      out += "<p>" + name + " has no scores: it keeps a state</p>\n";
    for (std::size_t head = 0; head < reading.looks[layer].size(); ++head) {
      if (shown == most) {
        ++left_out;
        continue;
      }
      ++shown;
      const HeadLook& look = reading.looks[layer][head];
      out += "<figure><figcaption>" + name + ", head " + std::to_string(head + 1) + ": entropy " +
             number_text(look.entropy, 2) + " nats</figcaption>" + look_text(passage, look) +
             "</figure>\n";
    }
  }
  if (left_out > 0)
    out += "<p>" + std::to_string(left_out) +
           (left_out == 1 ? " more head is not shown</p>\n" : " more heads are not shown</p>\n");
  return out + "</div>\n";
}

std::string looks_section(const ComparisonResult& result) {
  const ReadPassage& passage = result.passage;
  const std::vector<const VariantResult*> all = readers(result);
  std::size_t heads = 0;
  for (const VariantResult* variant : all) {
    for (const auto& layer : variant->reading->looks) heads += layer.size();
  }
  const std::string text =
      "Attention of each head when the model predicts the boxed character of the same passage, the "
      "last " +
      std::string(has_answers(passage) ? "answer" : "one") +
      ". Shades are the shares of one head's attention weights; their entropy is 0 if the head "
      "attends to one character only, and log n if it attends to n characters equally.";
  std::string out = "<h2>What each head looks at</h2>\n<p>" + xml_escaped(text) + "</p>\n";
  out += key(kWeightShades, "of the weight", 2, "key w");
  for (const VariantResult* variant : all) {
    out += std::string("<details") + (heads <= kOpenLooks ? " open=\"open\"" : "") +
           ">\n<summary>" + xml_escaped(variant->spec) + "</summary>\n" +
           looks(passage, *variant->reading, std::max<std::size_t>(1, kMostLooks / all.size())) +
           "</details>\n";
  }
  return out;
}

}  // namespace

std::string reading_figures(const ComparisonResult& result) {
  if (readers(result).empty()) return "";
  return loss_section(result) + looks_section(result);
}

}  // namespace headcount
