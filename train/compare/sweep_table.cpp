#include "train/compare/sweep_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/formatted.h"
#include "autograd/base/settings.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

std::string setting_of(const ComparisonResult& result) {
  return result.sweep.substr(0, result.sweep.find('='));
}

// Index of the value that was chosen for the attention.
std::size_t chosen(const VariantResult& variant) {
  const auto found = std::ranges::find(variant.swept, true, &SweptValue::chosen);
  return static_cast<std::size_t>(found - variant.swept.begin());
}

// The values as numbers; empty if one of them is a word.
std::vector<double> numbers(const std::vector<SweptValue>& swept) {
  std::vector<double> all(swept.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (parse_number(swept[i].value, all[i]) != std::errc()) return {};
  }
  return all;
}

// "largest" or "smallest" if the chosen value is one; else empty. A zero never counts as smallest,
// because settings with ordered values begin at zero or above.
std::string end_taken(const VariantResult& variant) {
  const std::vector<double> values = numbers(variant.swept);
  if (values.empty()) return "";
  const double taken = values.at(chosen(variant));
  if (taken == std::ranges::max(values)) return "largest";
  return taken == std::ranges::min(values) && taken != 0 ? "smallest" : "";
}

}  // namespace

std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result, Reader reader) {
  if (result.variants.empty() || result.variants.front().swept.empty()) return {};
  using Variant = const VariantResult&;
  std::vector<Column<VariantResult>> columns;
  columns.push_back({"attention", "attention", [](Variant v) { return v.spec; },
                     [](Variant v) { return Json(v.spec); }, true});
  for (std::size_t i = 0; i < result.variants.front().swept.size(); ++i) {
    const std::string name = setting_of(result) + " " + result.variants.front().swept[i].value;
    columns.push_back(
        {name, name,
         [i, reader](Variant v) {
           const SweptValue& swept = v.swept.at(i);
           if (!swept.loss) return std::string("failed");
           const std::string loss = reader == Reader::page ? number_text(*swept.loss, 4)
                                                           : formatted("%.4f", *swept.loss);
           return loss + (swept.chosen ? " *" : "  ");
         },
         [i](Variant v) { return v.swept.at(i).loss ? Json(*v.swept[i].loss) : Json(); }});
  }
  return columns;
}

std::vector<std::string> sweep_notes(const ComparisonResult& result) {
  if (sweep_columns(result, Reader::terminal).empty()) return {};
  const std::string setting = setting_of(result);
  std::vector<std::string> sentences = {
      "Each attention has the " + setting +
      " with the least loss (*) on the last tenth of the training text, which no run here was "
      "trained on."};
  for (const VariantResult& variant : result.variants) {
    const std::string end = end_taken(variant);
    if (end.empty()) continue;
    sentences.push_back(variant.spec + " has the " + end + " " + setting + " that was tried, " +
                        variant.swept[chosen(variant)].value + ": a " +
                        (end == "largest" ? "larger" : "smaller") + " one may be better.");
  }
  return sentences;
}

}  // namespace headcount
