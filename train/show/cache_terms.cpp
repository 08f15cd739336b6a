#include "train/show/cache_terms.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/base/text.h"
#include "train/show/table.h"
#include "train/show/units.h"

namespace headcount {

double Term::total() const {
  return static_cast<double>(layers) * static_cast<double>(count) * static_cast<double>(bytes) /
         static_cast<double>(std::max<Index>(1, block));
}

std::string Term::text() const {
  const std::string things =
      row > 0 ? "rows of " + std::to_string(row) + " numbers and scales" : "numbers";
  std::string text = kind + ": " + counted(layers, "layer") + " x " +
                     thousands_text(static_cast<double>(count)) + ' ' + things + " x " +
                     std::to_string(bytes) + " B";
  if (block > 0) text += " / " + std::to_string(block) + " tokens";
  text += " = " + thousands_text(total()) + (once ? " B a sequence" : " B a token");
  if (after > 0) text += " after " + std::to_string(after);
  return text + (until > 0 ? " until " + std::to_string(until) : "");
}

Json Term::json() const {
  Json json = {{"kind", kind}, {"layers", layers}};
  json[row > 0 ? "rows" : "numbers"] = count;
  if (row > 0) json["numbers_of_row"] = row;
  json[row > 0 ? "bytes_of_row" : "bytes_of_number"] = bytes;
  if (block > 0) json["tokens_of_row"] = block;
  if (after > 0) json["after"] = after;
  if (until > 0) json["until"] = until;
  json[once ? "bytes_per_sequence" : "bytes_per_token"] = json_number(total());
  return json;
}

namespace {

// A term of rows of one format, of the tokens after `after` and until `until`. `part` names them
// where parts of a layer differ.
Term term_of(const CachedLayer& layer, const Kept& kept, const std::string& part,
             const CacheFormat& format, Index after, Index until) {
  const CacheTypeRow& type = row_of(format.type);
  const bool plain = type.bits % 8 == 0 && type.scale_bytes == 0;
  const bool beside = kept.per_sequence && layer.has_rows() && !layer.has_state();
  return {.kind = layer.kind + (!beside          ? part
                                : kept.block > 0 ? ", open blocks"
                                                 : ", convolutions"),
          .layers = 1,
          .count = plain ? kept.numbers() : kept.heads,
          .row = plain ? 0 : kept.width,
          .bytes = plain ? type.bits / 8 : row_bytes(format, kept.width),
          .block = kept.per_sequence ? 0 : kept.block,
          .after = after,
          .until = until,
          .once = kept.per_sequence};
}

// Adds a term to the one that equals it but for `count`, if there is one.
void add_up(std::vector<Term>& all, const Term& term, std::int64_t Term::*count) {
  for (Term& other : all) {
    Term same = term;
    same.*count = other.*count;
    if (same != other) continue;
    other.*count += term.*count;
    return;
  }
  all.push_back(term);
}

}  // namespace

std::vector<Term> terms_of(const ModelCache& cache, const CacheRounding& rounding) {
  std::vector<Term> all;
  Index number = 0;
  for (const CachedLayer& layer : cache.layers) {
    std::vector<Term> own;
    const CacheRounding here = rounding.of_layer(number++);
    for (const Kept& kept : layer.parts) {
      const CacheFormat format = here.of(kept);
      const Index end = layer.is_windowed(kept) ? layer.window : 0, recent = format.recent;
      const bool rounds = end == 0 || recent < end;
      const std::string part = here.parts.empty() ? "" : ", " + kept.name;
      if (recent > 0)
        add_up(own,
               term_of(layer, kept, part, CacheFormat(cache.unrounded), 0, rounds ? recent : end),
               &Term::count);
      if (rounds) add_up(own, term_of(layer, kept, part, format, recent, end), &Term::count);
    }
    for (const Term& term : own) add_up(all, term, &Term::layers);
  }
  return all;
}

std::vector<Slope> slopes_of(const std::vector<Term>& terms) {
  const auto at = [&](Index token) {
    double bytes = 0;
    for (const Term& term : terms)
      if (!term.once && token > term.after && (term.until == 0 || token <= term.until))
        bytes += term.total();
    return bytes;
  };
  std::set<Index> bends = {0};
  for (const Term& term : terms) bends.insert({term.after, term.until});
  std::vector<Slope> all;
  for (const Index bend : bends)
    if (bend > 0 && at(bend) != at(bend + 1)) all.push_back({bend, at(bend)});
  all.push_back({0, at(*bends.rbegin() + 1)});
  return all;
}

std::string bytes_text(const std::vector<Slope>& slopes, double once) {
  std::string text = once > 0 ? binary_text(once) : "";
  if (once > 0 && slopes.size() == 1 && slopes.front().bytes == 0) return text + " a sequence";
  for (const Slope& slope : slopes) {
    if (!text.empty()) text += &slope == &slopes.front() ? " + " : ", then ";
    text += thousands_text(slope.bytes) + " B a token";
    if (slope.until > 0) text += " until " + std::to_string(slope.until);
  }
  return text;
}

}  // namespace headcount
