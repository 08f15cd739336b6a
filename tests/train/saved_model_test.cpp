// Whatever can be trained can be saved and read.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/temporary_folder.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/hugging_face.h"
#include "train/trainer.h"

namespace headcount {
namespace {

// What a model setting may be set to, of words that settings of any kind take.
const std::vector<std::string>& usable_values(const std::string& name) {
  static std::map<std::string, std::vector<std::string>> all;
  std::vector<std::string>& values = all[name];
  if (!values.empty()) return values;
  ModelConfig scratch;
  const Settings settings = scratch.settings();
  for (const char* word :
       {"1",    "2",           "3",        "4",       "5",        "6",      "8",
        "12",   "20",          "0",        "0.5",     "1e-4",     "on",     "off",
        "rope", "learned",     "none",     "rms",     "layer",    "swiglu", "gelu",
        "half", "interleaved", "inv-sqrt", "qk-norm", "row-norm", "length"}) {
    try {
      settings.find(name)->parse(word);
      values.push_back(word);
    } catch (const Error&) {
    }
  }
  return values;
}

// A configuration of this attention with random settings, its own and those of every model: half of
// the sizes, an eighth of the rest. Nothing where they do not fit together.
std::optional<TrainOptions> random_options(const AttentionKind& kind) {
  TrainOptions options;
  options.batch = 2;
  const Settings model = options.model.settings();
  for (const auto& [name, value] : {std::pair{"layers", "1"}, {"dim", "12"}, {"context", "6"}})
    model.find(name)->parse(value);
  std::set<std::string> fixed = {"attention", "layers", "context"};
  for (const Setting& setting : model.all()) {
    if (!setting.is_for(kind.name)) continue;
    const bool size = setting.value().is_number_integer();
    if (fixed.contains(setting.name) || *rc::gen::inRange(0, size ? 2 : 8) != 0) continue;
    setting.parse(*rc::gen::elementOf(usable_values(setting.name)));
  }
  model.find("attention")->parse(kind.name);
  try {
    options.resolve();
    LanguageModel(options.model, 3);
  } catch (const ShapeError& error) {
    RC_ASSERT(std::string(error.what()).find("cannot be saved") == std::string::npos);
    return std::nullopt;
  }
  return options;
}

std::vector<Real> logits_of(const LanguageModel& model, std::span<const std::int32_t> tokens) {
  Tape tape(model.parameters());
  const auto values = model.logits(tape, tokens, 1).value();
  return {values.begin(), values.end()};
}

TEST(SavedModel, GivesTheSameLogitsWhateverItsSettings) {
  const Vocabulary vocabulary(U"\n ab");
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3, 3, 1, 0, 2, 2, 1, 3, 0, 1, 2, 2, 3};
  for (const AttentionKind* kind : attention_kinds()) {
    int trained = 0;
    const bool holds = rc::check("of " + std::string(kind->name), [&] {
      std::optional<TrainOptions> options;
      for (int i = 0; i < 20; ++i) {  // all are checked for being savable, the last one is trained
        if (std::optional<TrainOptions> fitting = random_options(*kind)) options = fitting;
      }
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
      RC_ASSERT(to_json(read.model->config()) == to_json(model.config()));
      const std::span seen =
          std::span(tokens).first(static_cast<std::size_t>(options->model.context));
      const std::vector<Real> before = logits_of(model, seen), after = logits_of(*read.model, seen);
      RC_ASSERT(before.size() == after.size());
      RC_ASSERT(std::memcmp(before.data(), after.data(), before.size() * sizeof(Real)) == 0);
      ++trained;
    });
    EXPECT_TRUE(holds) << kind->name;
    EXPECT_GE(trained, 20) << kind->name << ": too few settings fitted together";
  }
}

TEST(SavedModel, ThatNoConfigurationDescribesIsRefusedBeforeTheFirstStep) {
  TrainOptions options;
  options.model.attention.causal = false;  // for which there is no setting
  try {
    options.resolve();
    FAIL() << "it would be read as another model";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "a model that sees later tokens cannot be saved");
  }
}

}  // namespace
}  // namespace headcount
