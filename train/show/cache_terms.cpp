#include "train/show/cache_terms.h"

#include <algorithm>
#include <set>

#include "train/show/table.h"
#include "train/show/units.h"

namespace headcount {

namespace {

// What token number `token` of a sequence adds to the bytes of a cache.
double bytes_added(const ModelCache& cache, const CacheRounding& rounding, Index token) {
  double all = 0;
  for (const CachedLayer& layer : cache.layers) {
    for (const Kept& kept : layer.parts) {
      if (kept.per_sequence || (layer.is_windowed(kept) && token > layer.window)) continue;
      const CacheFormat format = rounding.of(kept);
      const Index row =
          row_bytes(token <= format.recent ? CacheFormat(cache.unrounded) : format, kept.width);
      all += static_cast<double>(kept.heads) * static_cast<double>(row) /
             static_cast<double>(std::max<Index>(1, kept.block));
    }
  }
  return all;
}

// Adds a term to the one that equals it but for `count`, if there is one.
void add_up(std::vector<Term>& all, const Term& term, std::int64_t Term::*count) {
  const auto same = std::ranges::find_if(all, [&](Term other) {
    other.*count = term.*count;
    return other == term;
  });
  if (same == all.end()) {
    all.push_back(term);
  } else {
    (*same).*count += term.*count;
  }
}

}  // namespace

std::vector<Slope> slopes_of(const ModelCache& cache, const CacheRounding& rounding) {
  std::set<Index> bends;
  if (rounding.all.recent > 0) bends.insert(rounding.all.recent);
  for (const CachedLayer& layer : cache.layers)
    if (layer.window > 0) bends.insert(layer.window);
  std::vector<Slope> all;
  for (const Index bend : bends) {
    const double before = bytes_added(cache, rounding, bend);
    if (before != bytes_added(cache, rounding, bend + 1)) all.push_back({bend, before});
  }
  const Index last = bends.empty() ? 1 : *bends.rbegin() + 1;
  all.push_back({0, bytes_added(cache, rounding, last)});
  return all;
}

double Term::total() const {
  return static_cast<double>(layers) * static_cast<double>(count) * static_cast<double>(bytes) /
         static_cast<double>(std::max<Index>(1, block));
}

std::string Term::text() const {
  const std::string things = row > 0 ? "rows of " + std::to_string(row) : "numbers";
  std::string text = kind + ": " + counted(layers, "layer") + " x " +
                     thousands_text(static_cast<double>(count)) + ' ' + things + " x " +
                     std::to_string(bytes) + " B";
  if (block > 0) text += " / " + std::to_string(block) + " tokens";
  text += " = " + thousands_text(total()) + (once ? " B a sequence" : " B a token");
  if (after > 0) text += " after " + std::to_string(after);
  return text + (until > 0 ? " until " + std::to_string(until) : "");
}

nlohmann::ordered_json Term::json() const {
  nlohmann::ordered_json json = {{"kind", kind}, {"layers", layers}};
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

// A term of rows of one format, of the tokens after `after` and until `until`.
Term term_of(const CachedLayer& layer, const Kept& kept, const CacheFormat& format, Index after,
             Index until) {
  const CacheTypeRow& type = row_of(format.type);
  const bool plain = type.bits % 8 == 0 && type.scale_bytes == 0;
  const bool beside = kept.per_sequence && layer.has_rows() && !layer.has_state();
  return {.kind = layer.kind + (!beside          ? ""
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

}  // namespace

std::vector<Term> terms_of(const ModelCache& cache, const CacheRounding& rounding) {
  std::vector<Term> all;
  for (const CachedLayer& layer : cache.layers) {
    std::vector<Term> own;
    for (const Kept& kept : layer.parts) {
      const CacheFormat format = rounding.of(kept);
      const Index end = layer.is_windowed(kept) ? layer.window : 0, recent = format.recent;
      const bool rounds = end == 0 || recent < end;
      if (recent > 0)
        add_up(own, term_of(layer, kept, CacheFormat(cache.unrounded), 0, rounds ? recent : end),
               &Term::count);
      if (rounds) add_up(own, term_of(layer, kept, format, recent, end), &Term::count);
    }
    for (const Term& term : own) add_up(all, term, &Term::layers);
  }
  return all;
}

}  // namespace headcount
