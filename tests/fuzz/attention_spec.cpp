// Text as a list of attentions, with what they cost, and as a score scale.
#include "models/attention_spec.h"

#include <cstdlib>

#include "models/cost.h"

using namespace headcount;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const AttentionSpec& spec : parse_attention_specs(text)) {
      const Given given(model_settings(), {{"attention", spec.text}});
      std::vector<std::string> left_out;
      cost_table(given, given, read_model_settings(given).context, CacheType::int8, left_out);
      resolve_model(given);
    }
  } catch (const Error&) {
  }
  try {
    const ScoreScale scale = ScoreScale::parse(text);
    if (ScoreScale::parse(scale.text()) != scale) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
