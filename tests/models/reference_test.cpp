// programs: models reference
// Numbers computed by other people's code: every fixture of a folder, outputs and gradients of
// attention layers (reference_layers.cpp), and ten training steps of whole models.
#include "models/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "models/checkpoint/checkpoint.h"
#include "models/language_model.h"
#include "train/adamw.h"
#include "train/reducer.h"

namespace headcount::reference {

namespace fs = std::filesystem;

namespace {

// Tolerance of weights after some steps. Adam divides a gradient by its own size: what was rounded
// in one that is nearly 0 moves its weight by a part of the learning rate. At those sizes 7e-4 were
// reached.
constexpr double kWeightTolerance = kDouble ? 1e-8 : 1e-3;
// Tolerance of losses and gradient norms on the way. In float two models differ by more: on
// processors with other instructions 1.4e-4 and 2.2e-4 were measured.
double training_tolerance(const std::string& fixture) {
  if (kDouble) return 1e-8;
  const bool small_gradients =
      fixture == "pattern_shared_layers" || fixture == "pattern_delta_hybrid";
  return small_gradients ? 1e-3 : 1e-4;
}

fs::path fixture_folder() {
  const char* folder = std::getenv("HEADCOUNT_FIXTURES");
  return folder != nullptr ? folder : HEADCOUNT_FIXTURE_FOLDER;
}

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fixture_folder())) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

void Reference::SetUp() {
  file_ = open_safetensors(fixture_folder() / (GetParam() + ".safetensors"));
  config_ = json::parse(file_.metadata().at("config"));
}

// The last `kv_shared_layers` of a pattern share by type, of which their word has the window.
std::string Reference::pattern() const {
  const std::vector<std::string> words = config_["pattern"];
  const std::size_t keeping = words.size() - config_.value("kv_shared_layers", std::size_t{0});
  std::string spec;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t at = words[i].find('@');
    const std::string shared = "share@" + (at == std::string::npos ? "0" : words[i].substr(at + 1));
    spec += (i > 0 ? "/" : "") + (i < keeping ? words[i] : shared);
  }
  return spec;
}

void Reference::check_model() {
  Given config(model_settings());
  for (const auto& [key, name] : {std::pair{"n_layers", "layers"},
                                  {"d_model", "dim"},
                                  {"context", "context"},
                                  {"ffn_dim", "ffn-dim"}}) {
    set(config, name, config_.at(key).get<Index>());
  }
  set(config, "positions", config_.at("positions") == "rope" ? "rope" : "learned");
  set(config, "norm", config_.at("norm") == "rmsnorm" ? "rms" : "layer");
  config.put("norm-epsilon", config_.at("norm_eps"));
  set(config, "activation", config_.at("activation") == "swiglu" ? "swiglu" : "gelu");
  set(config, "tie-embeddings", config_.at("tie_embeddings").get<bool>());
  set(config, "bias", config_.at("bias").get<bool>());
  set_attention(config_, config);
  set(config, "attention", kind_of(config_));
  if (config_.contains("pattern")) {
    set(config, "attention", pattern());
  }
  LanguageModel model(resolve_model(config, {.causal = config_.value("causal", true)}),
                      config_.at("vocab_size"));
  ParameterStore& parameters = model.parameters();
  parameters.allocate();
  copy_weights(parameters, "");

  const std::vector<std::int32_t> tokens = tokens_of(file_.at("tokens"));
  const std::vector<std::int32_t> targets = tokens_of(file_.at("targets"));
  AdamW adam(
      {config_.at("beta1"), config_.at("beta2"), config_.at("weight_decay"), config_.at("eps")},
      parameters);
  const std::vector<double> losses = file_.at("losses").to_doubles();
  const std::vector<double> norms = file_.at("grad_norms").to_doubles();
  const Index sequences = file_.at("tokens").shape[1];
  const std::size_t per_step = tokens.size() / losses.size();
  const double tolerance = training_tolerance(GetParam());
  Tape tape(&parameters);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    tape.reset();
    parameters.clear_gradients();
    const auto inputs = std::span(tokens).subspan(step * per_step, per_step);
    const Var logits = model.logits(tape, inputs, sequences);
    const Var loss = cross_entropy(logits, std::span(targets).subspan(step * per_step, per_step));
    if (step == 0) expect_close(logits.value(), file_.at("logits0"), kOutputTolerance);
    SCOPED_TRACE("step " + std::to_string(step));
    expect_close(static_cast<double>(loss.item()), losses[step], tolerance);
    tape.backward(loss);
    if (step == 0) expect_parameters("dw.", "", parameters, true, kOutputTolerance);
    const double norm = sum_gradients(parameters);
    expect_close(norm, norms[step], tolerance);
    adam.update(parameters,
                {.learning_rate = config_.at("learning_rate"),
                 .gradient_scale = clip_scale(norm, config_.at("grad_clip")),
                 .step = static_cast<Index>(step) + 1},
                alone());
  }
  expect_parameters("final.", "", parameters, false, kWeightTolerance);
}

namespace {

TEST_P(Reference, Matches) {
  const std::string& kind = file_.metadata().at("kind");
  if (kind == "attention") {
    check_attention();
  } else if (kind == "model") {
    check_model();
  } else {
    FAIL() << "a fixture of unknown kind " << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Reference, testing::ValuesIn(fixture_names()),
                         [](const auto& fixture) { return fixture.param; });

TEST(ReferenceFixtures, AreThere) { EXPECT_GE(fixture_names().size(), 50u); }

}  // namespace
}  // namespace headcount::reference
