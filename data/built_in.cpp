#include "data/built_in.h"

#include "autograd/base/registry.h"

namespace headcount {

extern const BuiltInCorpus kTales, kLookup, kMqar, kRecall;

namespace {

Registry<BuiltInCorpus>& registry() {
  static Registry<BuiltInCorpus> all = {&kTales, &kLookup, &kMqar, &kRecall};
  return all;
}

}  // namespace

std::span<const BuiltInCorpus* const> built_in_corpora() { return registry().all(); }

void register_corpus(const BuiltInCorpus& corpus) { registry().add(corpus); }

const BuiltInCorpus* find_built_in(std::string_view data) { return registry().find(data); }

const SettingList& corpus_settings() {
  static const SettingList list = [] {
    SettingList all;
    for (const BuiltInCorpus* corpus : built_in_corpora())
      add_settings(all, settings_in(Scope::data, corpus->settings()), corpus->name);
    return all;
  }();
  return list;
}

}  // namespace headcount
