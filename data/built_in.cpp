#include "data/built_in.h"

#include <algorithm>
#include <array>

namespace headcount {

std::span<const BuiltInCorpus* const> built_in_corpora() {
  static constexpr std::array<const BuiltInCorpus*, 3> kAll = {&kTales, &kLookup, &kMqar};
  return kAll;
}

const BuiltInCorpus* find_built_in(std::string_view data) {
  const auto found = std::ranges::find(built_in_corpora(), data, &BuiltInCorpus::name);
  return found == built_in_corpora().end() ? nullptr : *found;
}

const SettingList& corpus_settings() {
  static const SettingList list = [] {
    SettingList all;
    for (const BuiltInCorpus* corpus : built_in_corpora())
      add_settings(all, corpus->own.settings(Scope::data), corpus->name);
    return all;
  }();
  return list;
}

}  // namespace headcount
