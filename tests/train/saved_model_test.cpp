// label: unsanitized
// Whatever can be trained can be saved and read.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "models/checkpoint/checkpoint.h"
#include "support/message_of.h"
#include "support/numbers.h"
#include "train/run_program.h"
#include "train/trainer.h"

namespace headcount {
namespace {

// Values that a model setting accepts, of words that settings of any kind take.
const std::vector<std::string>& usable_values(const std::string& name) {
  static std::map<std::string, std::vector<std::string>> all;
  std::vector<std::string>& values = all[name];
  if (!values.empty()) return values;
  for (const std::string& word :
       words("1 2 3 4 5 6 8 12 20 0 0.5 1e-4 on off rope learned none rms layer swiglu gelu half "
             "interleaved inv-sqrt qk-norm row-norm length")) {
    const Setting& setting = *find_setting(model_settings(), name);
    if (message_of([&] { setting.value(word); }, "") == "") values.push_back(word);
  }
  return values;
}

// A configuration of this attention with random settings, its own and those of every model: half of
// the sizes, an eighth of the rest. Nothing where they do not fit together.
std::optional<TrainOptions> random_options(const AttentionKind& kind) {
  Given given(training_settings(), {{"batch", 2}, {"layers", 1}, {"dim", 12}, {"context", 6}});
  std::set<std::string> fixed = {"attention", "layers", "context"};
  for (const Setting& setting : model_settings()) {
    if (!setting.is_for(kind.name)) continue;
    const bool size = std::holds_alternative<WholeRange>(setting.takes);
    if (fixed.contains(setting.name) || *rc::gen::inRange(0, size ? 2 : 8) != 0) continue;
    given.put(setting.name, *rc::gen::elementOf(usable_values(setting.name)));
  }
  given.put("attention", kind.name);
  try {
    TrainOptions options = resolve_training(given);
    LanguageModel(options.model, 3);
    return options;
  } catch (const ShapeError&) {
    return std::nullopt;
  }
}

Values logits_of(const LanguageModel& model, std::span<const std::int32_t> tokens) {
  Tape tape(model.parameters());
  return copy(model.logits(tape, tokens.first(model.plan()->context), 1).value());
}

TEST(SavedModel, GivesTheSameLogitsWhateverItsSettings) {
  const Vocabulary vocabulary(U"\n ab");
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3, 0, 1, 2, 2, 3};
  for (const AttentionKind* kind : attention_kinds()) {
    int trained = 0;
    const bool holds = rc::check("of " + std::string(kind->name), [&] {
      std::optional<TrainOptions> options;
      for (int i = 0; i < 20 && !options; ++i) options = random_options(*kind);
      if (!options || trained == 25) return;
      LanguageModel model(options->model, vocabulary.size());
      model.initialize(3);
      try {
        Trainer(model, *options, tokens).step();
      } catch (const DivergedError&) {  // as norms without an epsilon may
        return;
      }
      const TemporaryFolder parent;
      save_checkpoint(parent.path() / "saved", model, vocabulary);
      const Checkpoint read = load_checkpoint(parent.path() / "saved");
      RC_ASSERT(read.vocabulary == vocabulary);
      RC_ASSERT(read.model->plan()->settings == model.plan()->settings);
      const Values before = logits_of(model, tokens), after = logits_of(*read.model, tokens);
      RC_ASSERT(before.size() == after.size());
      RC_ASSERT(std::memcmp(before.data(), after.data(), before.size() * sizeof(Real)) == 0);
      ++trained;
    });
    EXPECT_TRUE(holds) << kind->name;
    EXPECT_GE(trained, 20) << kind->name << ": too few settings fitted together";
  }
}

}  // namespace
}  // namespace headcount
