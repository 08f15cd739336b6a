#include "autograd/base/text.h"
#include "train/options.h"

namespace headcount {

namespace {

constexpr const char* kAnyForm = "auto";

constexpr Named<CacheLevels> kCacheLevels[] = {{"uniform", CacheLevels::uniform},
                                               {"normal", CacheLevels::normal}};

}  // namespace

const SettingList& cache_settings() {
  static const SettingList list = {
      {"cache-dtype",
       "number type of the KV cache: " + joined(cache_types(), &CacheTypeRow::name) +
           "; or types of its parts, k=int4+v=int2 or latent=int4+rope=bf16; with others for "
           "layers, "
           "from 1: int4+layer1=bf16+layers3-4=int8",
       parsed<CacheRounding>(), "f32"},
      {"cache-group",
       "numbers of a cached row that share an f16 scale, where the type has scales; 0: all of a "
       "head's row. int8 with 32 is llama.cpp's q8_0; int4 has the bytes of its q4_0, not its "
       "levels",
       WholeRange{0}, 0},
      {"cache-rotate",
       "on: store queries' and keys' rows, and values', rotated by a Hadamard matrix, which makes "
       "their numbers nearly normal",
       kOnOff, "off"},
      {"cache-levels",
       "levels of types of 4 bits and fewer: uniform up to the greatest number of a group, or "
       "those of least error for normal numbers",
       kCacheLevels,
       Default("normal with cache-rotate on, else uniform",
               [](const Given& v) { return v.on("cache-rotate") ? "normal" : "uniform"; })},
      {"cache-recent", "newest tokens whose rows are cached as computed; 0: none", WholeRange{0},
       0}};
  return list;
}

std::string_view why_idle(const CacheRounding& rounding, std::string_view name) {
  const auto scaled = [](const CacheTypeRow& row) { return row.scale_bytes > 0; };
  const auto rounds = [](const CacheTypeRow& row) { return row.type != CacheType::real; };
  if (name == "cache-group") return rounding.any_type(scaled) ? "" : "whose numbers have no scale";
  if (name == "cache-levels")
    return rounding.any_type(&CacheTypeRow::has_levels) ? "" : "which has its own levels";
  return rounding.any_type(rounds) ? "" : "which rounds nothing";
}

CacheRounding read_rounding(const Given& given) {
  CacheRounding rounding = CacheRounding::parse(given.text("cache-dtype"));
  for (const char* const name : kOfSomeTypes)
    if (const auto why = why_idle(rounding, name); given.has(name) && !why.empty())
      throw SettingError("`{}` has no effect with `cache-dtype` {}, {}; leave it out", name,
                         rounding.text(), why);
  rounding.all.group = given.whole("cache-group");
  rounding.all.rotated = given.on("cache-rotate");
  rounding.all.levels = given.chosen("cache-levels", kCacheLevels);
  rounding.all.recent = given.whole("cache-recent");
  return rounding;
}

const SettingList& form_settings() {
  static const SettingList list = [] {
    SettingList all;
    for (const AttentionKind* kind : attention_kinds()) {
      const std::vector<std::string_view> forms =
          attention_forms(resolve_attention(*kind, Given(attention_settings()), {}));
      if (forms.size() < 2) continue;
      std::vector<std::string> names = {kAnyForm};
      names.insert(names.end(), forms.begin(), forms.end());
      const Setting setting = {
          std::string(kind->name),
          "how to compute from the cache: expanded rebuilds the keys and values of each head, the "
          "other form uses the cached numbers as they are; auto: the cheaper way",
          Choices(std::move(names)), kAnyForm};
      add_settings(all, settings_in(Scope::decoding, {setting}), setting.name);
    }
    return all;
  }();
  return list;
}

DecodeOptions read_decode_options(const Given& given) {
  DecodeOptions options = {.rounding = read_rounding(given)};
  for (const Setting& setting : form_settings()) {
    if (!given.has(setting.name)) continue;
    const std::string form = given.text(setting.name);
    if (form != kAnyForm) options.forms[setting.name] = form;
  }
  return options;
}

}  // namespace headcount
