#include "autograd/base/json.h"
#include "train/cache_cost.h"
#include "train/page/engine/replies.h"
#include "train/units.h"

namespace headcount::page {

Json model_cost_json(const nlohmann::json& request) {
  const ConfigCache own = read_config_cache(parse_json(request.at("config").get<std::string>()));
  CostQuestion question;
  question.contexts = {whole_number(request, "context")};
  if (const std::string memory = request.value("memory", ""); !memory.empty())
    question.memory = bytes_named("memory", memory);
  const ConfigCost cost(
      request.contains("kv_heads") ? own.with_kv_heads(whole_number(request, "kv_heads")) : own,
      question);
  return {{"text", cost.text(Format::text)},
          {"figures", cost.figures(own.type)},
          {"kv_heads", own.kv_heads()},
          {"heads", own.heads},
          {"context", own.context}};
}

}  // namespace headcount::page
