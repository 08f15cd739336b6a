#include "nn/attention/kind.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

Json kinds_json() {
  Json all = Json::array();
  for (const AttentionKind* const kind : attention_kinds()) {
    Json numbers = Json::array();
    for (const std::string_view name : kind->numbers) {
      const Setting* const setting = find_setting(attention_settings(), name);
      if (setting != nullptr) numbers.push_back({{"name", name}, {"help", setting->help}});
    }
    all.push_back({{"name", kind->name},
                   {"summary", kind->summary},
                   {"attends", kind->attends},
                   {"rotates", kind->rotates},
                   {"numbers", numbers}});
  }
  return {{"kinds", all}};
}

}  // namespace headcount::page
