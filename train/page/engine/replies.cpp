#include "train/page/engine/replies.h"

#include <algorithm>

#include "autograd/base/json.h"
#include "models/cost/config_cache.h"
#include "nn/attention/kind.h"
#include "train/show/cache_cost.h"
#include "train/show/units.h"

namespace headcount::page {

namespace {

constexpr Index kPiece = 600;  // characters of a text that is shown
constexpr std::size_t kQuestions = 100;

}  // namespace

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
                   {"numbers", numbers}});
  }
  return {{"kinds", all}};
}

Json cache_json(const LanguageModel& model) {
  const ModelPlan& plan = model.plan();
  return {{"bytes_per_token", kv_cache_bytes_per_token(plan)},
          {"bytes_at_context", kv_cache_bytes(plan, plan->context).value()},
          {"layers", cache_layers(cache_of(plan), {})}};
}

Json text_json(const Corpus& corpus) {
  const std::span<const std::int32_t> tokens = corpus.validation.tokens;
  const std::vector<Index>& starts = corpus.validation.starts;
  Index piece = std::min(kPiece, std::ssize(tokens));
  if (const auto after = std::ranges::upper_bound(starts, piece); after - starts.begin() > 1)
    piece = *(after - 1);  // whole stories
  Json questions = Json::array();
  for (const StoryQuestion& question : story_questions(corpus, kQuestions)) {
    questions.push_back(
        {{"prompt", corpus.vocabulary.decode(question.prompt)}, {"answer", question.answer}});
  }
  return {{"validation", corpus.vocabulary.decode(tokens.first(static_cast<std::size_t>(piece)))},
          {"questions", questions}};
}

Json model_cost_json(const nlohmann::json& request) {
  const ModelCache own =
      read_config_cache(parse_json(request.at("config").get<std::string>(), NonFinite::allowed));
  CostTable cost;
  cost.contexts = {whole_number(request, "context")};
  cost.rounding = CacheType::bf16;
  if (const std::string memory = request.value("memory", ""); !memory.empty())
    cost.memory = memory_named(memory);
  cost.rows = cost_rows(own, own.type, cost.contexts.back());
  if (request.contains("kv_heads") && whole_number(request, "kv_heads") != own.kv_heads())
    cost.rows = rows_beside(own, "gqa" + std::to_string(whole_number(request, "kv_heads")),
                            cost.contexts.back());
  return {{"text", cost.text(Format::text)},
          {"figures", cost.figures()},
          {"kv_heads", own.kv_heads()},
          {"heads", own.heads},
          {"context", own.context}};
}

}  // namespace headcount::page
