#include "train/view/report.h"

#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>

#include "data/built_in.h"
#include "models/attention_spec.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/show/units.h"
#include "train/view/run_curves.h"

namespace headcount {

namespace {

constexpr std::size_t kNamedInTitle = 3;  // most attentions or runs that a title names
constexpr std::size_t kMostWords = 6;     // most attentions whose words are explained

// Text for HTML, inside elements and quoted attributes; bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : utf8::replace_invalid(text)) {
    const bool is_special = std::string_view("&<>\"").find(c) != std::string_view::npos;
    out += is_special ? "&#" + std::to_string(static_cast<int>(c)) + ";" : std::string(1, c);
  }
  return out;
}

std::string element(const std::string& tag, std::string_view content) {
  return "<" + tag + ">" + escaped(content) + "</" + tag + ">\n";
}

// Text without the marks of settings' names.
std::string unquoted(std::string text) {
  std::erase(text, '`');
  return text;
}

// Text in which a line does not end between a number and its sign of percent.
std::string sentence(const std::string& text) {
  return std::regex_replace(escaped(unquoted(text)), std::regex(" %"), "&nbsp;%");
}

std::string names_or_count(const std::vector<std::string>& names, const std::string& noun) {
  if (names.size() <= kNamedInTitle) return list_text(names);
  return std::to_string(names.size()) + " " + noun + "s";
}

// What an attention's word stands for: sentences on its kinds, then its other settings. Throws
// SettingError for one that this program does not have.
std::string meaning_of(std::string_view spec) {
  std::string text, settings;
  for (const LayerSpec& part : parse_attention_spec(spec).cycle) {
    std::string sentence = "share reads the cache of an earlier layer";
    if (!part.shares()) sentence = part.kind->summary.substr(0, part.kind->summary.find(". "));
    if (text.find(sentence) == text.npos) text += sentence + ". ";
    for (const auto& [name, value] : part.settings.items()) {
      const std::string setting = name + " " + setting_text(value);
      if (settings.find(setting) == settings.npos)
        settings += (settings.empty() ? "Here: " : ", ") + setting;
    }
  }
  return unquoted(text) + settings + (settings.empty() ? "" : ".");
}

// Attentions, and the settings beside their numbers, with what they mean. Throws SettingError as
// meaning_of.
std::vector<std::pair<std::string, std::string>> words_of(const std::vector<std::string>& specs) {
  std::vector<std::pair<std::string, std::string>> words;
  std::map<std::string, std::string> settings;
  for (const std::string& spec : specs) {
    words.emplace_back(spec, meaning_of(spec));
    for (const LayerSpec& part : parse_attention_spec(spec).cycle)
      for (const auto& item : part.settings.items())
        settings[item.key()] = unquoted(find_setting(attention_settings(), item.key())->help);
  }
  std::ranges::copy(settings, std::back_inserter(words));
  return words;
}

// Table with a heading for each row. Its cells wrap, so that a phone shows all of them.
std::string usual_table(const std::vector<TextColumn>& columns) {
  std::string out = "<table class=\"usual\">\n<thead><tr>";
  for (const TextColumn& column : columns)
    out += "<th scope=\"col\">" +
           std::regex_replace(escaped(column.heading), std::regex("/"), "/<wbr>") + "</th>";
  out += "</tr></thead>\n<tbody>";
  for (std::size_t row = 0; row < columns.front().cells.size(); ++row) {
    out += "<tr><th scope=\"row\">" + escaped(columns.front().cells[row]) + "</th>";
    for (std::size_t i = 1; i < columns.size(); ++i)
      out += "<td>" + escaped(columns[i].cells[row]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

// A part as HTML; what its script draws is added where .beside stands, and at its end.
std::string section(const ReportPart& part, bool alone) {
  std::string out = "<section class=\"part\">\n" + element(alone ? "h1" : "h2", part.title);
  if (!part.about.empty()) out += element("p", part.about);
  out += "<div class=\"columns beside\">\n";
  if (!part.verdicts.empty()) {
    out += "<div class=\"verdict\"><strong>Verdict, against " + escaped(part.reference) +
           ":</strong> ";
    for (const VerdictItem& item : part.items)
      out += "<p>" + (item.word.empty() ? "" : "<b>" + escaped(item.word) + "</b> ") +
             sentence(item.text) + "</p>\n";
    if (part.items.empty()) out += escaped(part.verdicts.front());
    out += "</div>\n";
  }
  if (!part.asked.empty()) out += "<div class=\"asked\">" + element("p", part.asked) + "</div>\n";
  const std::string scroll =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results\">";
  out += "</div>\n<h2>Results</h2>\n";
  if (!part.columns.empty())
    out += scroll + usual_table(part.columns) + "</div>\n<details" +
           (part.has_more ? " open" : "") + "><summary>All columns</summary>\n";
  out += scroll + element("pre", part.table(Format::text, 0)) + "</div>\n";
  if (!part.columns.empty()) out += "</details>\n";
  for (const std::string& note : part.notes)
    out += "<p class=\"note\">" + sentence(note) + "</p>\n";
  if (!part.words.empty()) out += "<h2>Words</h2>\n<dl class=\"columns words\">\n";
  for (const auto& [word, meaning] : part.words)
    out += element("dt", word) + element("dd", meaning);
  return out + (part.words.empty() ? "" : "</dl>\n") + "</section>\n";
}

// Replaces the one `place` in `page` by `content`.
void put(std::string& page, std::string_view place, std::string_view content) {
  page.replace(page.find(place), place.size(), content);
}

}  // namespace

ReportPart comparison_part(const ComparisonResult& result, bool can_try) {
  std::vector<std::string> specs;
  for (const VariantResult& variant : result.variants) specs.push_back(variant.spec);
  ReportPart part;
  part.title = text_name(result) + ": " + names_or_count(specs, "attention") + " compared";
  part.about = caches_sentence(result);
  part.verdicts = verdict_clauses(result);
  part.reference = reference(result).spec;
  part.items = verdict_items(result);
  if (const BuiltInCorpus* const text = find_built_in(result.data))
    part.asked = "What was asked: " + std::string(text->about) + ".";
  try {
    if (specs.size() <= kMostWords) part.words = words_of(specs);
  } catch (const SettingError&) {  // results of a program with an attention of its own
  }
  part.words.emplace_back("verdict", kVerdictMeaning);
  part.columns = usual_columns(result);
  part.has_more = !result.sweep.empty() || std::ranges::any_of(result.variants, [](const auto& v) {
    return !v.rounded.empty() || !v.failures.empty();
  });
  part.table = [result](Format format, std::size_t width) {
    return results_table(result, format, width);
  };
  part.notes = verdict_notes(result);
  for (std::string& note : notes(result)) part.notes.push_back(std::move(note));
  part.data = {{"results", comparison_json(result)}, {"can_try", can_try}};
  return part;
}

ReportPart runs_part(const Json& curves) {
  std::vector<std::string> names;
  for (const Json& run : curves.at("runs")) names.push_back(run.at("run"));
  ReportPart part;
  part.title =
      (names.size() == 1 ? "Training run: " : "Training runs: ") + names_or_count(names, "run");
  part.table = [curves](Format format, std::size_t width) {
    return runs_table(curves, format, width);
  };
  part.data = curves;
  return part;
}

std::string report_page(const std::vector<ReportPart>& parts) {
  const bool alone = parts.size() == 1;
  std::string body = alone ? "<main>\n" : "<main class=\"several\">\n" + element("h1", "Results");
  Json data = Json::array();
  for (const ReportPart& part : parts) {
    body += section(part, alone);
    data.push_back(part.data);
  }
  // In a script element only `<` could end it or begin a comment.
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = json.find('<', at)) != json.npos; ++at)
    json.replace(at, 1, "\\u003c");
  std::string page = kReportTemplate;
  // From the end to the beginning, so that no content is searched.
  put(page, "{data}", json);
  put(page, "{body}", body + "</main>\n");
  put(page, "{title}", escaped(alone ? parts.front().title : "Results"));
  return page;
}

}  // namespace headcount
